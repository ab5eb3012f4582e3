#include "filter.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "order.h"

#if defined(__x86_64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#define X32_BIT 0x40000000u
#elif defined(__aarch64__)
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#else
#error "the filter knows x86_64 and aarch64"
#endif

#ifndef SECCOMP_RET_USER_NOTIF
#define SECCOMP_RET_USER_NOTIF 0x7fc00000u
#endif

enum { MAX_INSTRUCTIONS = 256, IOPRIO_USER = 3 };

#define REFUSE (SECCOMP_RET_ERRNO | EPERM)
#define NO_SUCH_CALL (SECCOMP_RET_ERRNO | ENOSYS)

struct program {
    struct sock_filter code[MAX_INSTRUCTIONS];
    unsigned short length;
};

static void emit(struct program *program, uint16_t code, size_t jt, size_t jf, uint32_t k)
{
    if (program->length == MAX_INSTRUCTIONS)
        broken();
    program->code[program->length++] =
        (struct sock_filter){code, (uint8_t)jt, (uint8_t)jf, k};
}

static void load(struct program *program, size_t offset)
{
    emit(program, BPF_LD | BPF_W | BPF_ABS, 0, 0, (uint32_t)offset);
}

/* The kernel reads an int argument from the low half alone, so only that half is compared. */
static void load_argument(struct program *program, unsigned argument)
{
    load(program, offsetof(struct seccomp_data, args) + 8 * argument);
}

static void answer(struct program *program, uint32_t action)
{
    emit(program, BPF_RET | BPF_K, 0, 0, action);
}

/* Of system call `nr`: `action` when the argument is one of the values, else go through. */
static void when_argument(struct program *program, long nr, unsigned argument,
                          const uint32_t *values, size_t count, uint32_t action)
{
    emit(program, BPF_JMP | BPF_JEQ | BPF_K, 0, count + 3, (uint32_t)nr);
    load_argument(program, argument);
    for (size_t i = 0; i < count; i++)
        emit(program, BPF_JMP | BPF_JEQ | BPF_K, count - i, 0, values[i]);
    answer(program, SECCOMP_RET_ALLOW);
    answer(program, action);
}

static void when_called(struct program *program, long nr, uint32_t action)
{
    emit(program, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, (uint32_t)nr);
    answer(program, action);
}

/* setpriority and ioprio_set: also refused for "all processes of the user". */
static void when_target(struct program *program, long nr, uint32_t of_user,
                        const struct protected_ids *ids)
{
    emit(program, BPF_JMP | BPF_JEQ | BPF_K, 0, ids->count + 5, (uint32_t)nr);
    load_argument(program, 0);
    emit(program, BPF_JMP | BPF_JEQ | BPF_K, ids->count + 2, 0, of_user);
    load_argument(program, 1);
    for (size_t i = 0; i < ids->count; i++)
        emit(program, BPF_JMP | BPF_JEQ | BPF_K, ids->count - i, 0, ids->ids[i]);
    answer(program, SECCOMP_RET_ALLOW);
    answer(program, REFUSE);
}

static void protect(struct program *program, const struct protected_ids *ids)
{
    /* The engine's filter lets these through for the init's sake (see guard.h), not for others'. */
    static const long intrusive[] = {SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev};
    static const long by_first_argument[] = {SYS_prlimit64, SYS_sched_setaffinity,
                                             SYS_sched_setscheduler, SYS_sched_setparam,
                                             SYS_sched_setattr};
    for (size_t i = 0; i < sizeof by_first_argument / sizeof *by_first_argument; i++)
        when_argument(program, by_first_argument[i], 0, ids->ids, ids->count, REFUSE);
    for (size_t i = 0; i < sizeof intrusive / sizeof *intrusive; i++)
        when_called(program, intrusive[i], REFUSE);
    when_target(program, SYS_setpriority, PRIO_USER, ids);
    when_target(program, SYS_ioprio_set, IOPRIO_USER, ids);
}

/* Before a handler is installed (see guard.h), not when one is only asked for. These are the signals
 * that timers, children and other processes send. Asking for all would be dear: posix_spawn and
 * subshells reset dozens. Left out are those of the keyboard (there is no terminal), those a thread
 * raises by what it does itself, which never interrupt a call, and rare ones. Of SIGCHLD only where
 * the old handler is not asked for at once, as bash does for every subshell with one that restarts. */
static void notify_before_handlers(struct program *program)
{
    static const uint32_t guarded[] = {SIGHUP,  SIGUSR1,   SIGUSR2, SIGALRM, SIGTERM,
                                       SIGPROF, SIGVTALRM, SIGIO,   34,      35}; /* SIGRTMIN, +1 */
    const uint16_t equal = BPF_JMP | BPF_JEQ | BPF_K;
    size_t count = sizeof guarded / sizeof *guarded;
    size_t action = offsetof(struct seccomp_data, args) + 8, old_action = action + 8;
    emit(program, equal, 0, count + 13, SYS_rt_sigaction);
    load_argument(program, 0);
    for (size_t i = 0; i < count; i++)
        emit(program, equal, count + 5 - i, 0, guarded[i]); /* to "is it null" */
    emit(program, equal, 0, 4, SIGCHLD);
    load(program, old_action);
    emit(program, equal, 0, 2, 0);
    load(program, old_action + 4);
    emit(program, equal, 1, 0, 0);
    answer(program, SECCOMP_RET_ALLOW);
    load(program, action); /* is it null? */
    emit(program, equal, 0, 2, 0);
    load(program, action + 4);
    emit(program, equal, 1, 0, 0);
    answer(program, SECCOMP_RET_USER_NOTIF);
    answer(program, SECCOMP_RET_ALLOW);
}

static void notify_before_stderr(struct program *program)
{
    static const uint32_t standard_error = STDERR_FILENO;
    static const uint32_t both[] = {STDOUT_FILENO, STDERR_FILENO};
    static const struct {
        long nr;
        unsigned argument;
    } writes[] = {{SYS_write, 0}, {SYS_writev, 0}, {SYS_sendfile, 0}, {SYS_splice, 2}};
    for (size_t i = 0; i < sizeof writes / sizeof *writes; i++)
        when_argument(program, writes[i].nr, writes[i].argument, &standard_error, 1,
                      SECCOMP_RET_USER_NOTIF);
#ifdef SYS_dup2
    when_argument(program, SYS_dup2, 1, both, 2, SECCOMP_RET_USER_NOTIF);
#endif
    when_argument(program, SYS_dup3, 1, both, 2, SECCOMP_RET_USER_NOTIF);
}

int filter_install(const struct protected_ids *ids, bool notify)
{
    struct program program = {.length = 0};
    load(&program, offsetof(struct seccomp_data, arch));
    emit(&program, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, NATIVE_ARCH);
    answer(&program, NO_SUCH_CALL);
    load(&program, offsetof(struct seccomp_data, nr));
#ifdef X32_BIT
    emit(&program, BPF_JMP | BPF_JGE | BPF_K, 0, 1, X32_BIT);
    answer(&program, NO_SUCH_CALL);
#endif
    protect(&program, ids);
    if (notify) {
        notify_before_stderr(&program);
        notify_before_handlers(&program);
    }
    answer(&program, SECCOMP_RET_ALLOW);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        return -1;
    struct sock_fprog prog = {.len = program.length, .filter = program.code};
    unsigned long flags = notify ? NOTIFY_FILTER_FLAGS : 0;
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &prog);
}
