#include "guard.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    MAX_PASSES = 64, /* over a process that makes threads while it is being attached */
    MAX_KNOWN = 4096,
    MAX_DEFERRED = 1024, /* a signal beyond is delivered at once */
    OPTIONS = PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL,
    ERESTARTSYS = 512,    /* kernel-internal: restart, unless a handler lacks SA_RESTART */
    ERESTARTNOINTR = 513, /* kernel-internal: restart after any handler */
    ONE_THREAD_LINKS = 3, /* of /proc/PID/task: itself, its parent, the thread */
};

/* Traced threads, by id modulo the size; a collision only costs time. Written by the main thread,
 * which also sees every thread's end before its id can be used again. */
static atomic_int known[MAX_KNOWN];

static void remember(pid_t thread)
{
    atomic_store(&known[thread % MAX_KNOWN], thread);
}

/* The beginning of the kernel's struct sigaction, the same on x86_64 and aarch64. */
struct kernel_action {
    uint64_t handler;
    uint64_t flags;
};

bool guard_needed(const struct seccomp_notif *notification, struct guard_request *request)
{
    struct kernel_action action;
    struct iovec ours = {&action, sizeof action};
    struct iovec theirs = {(void *)(uintptr_t)notification->data.args[1], sizeof action};
    pid_t thread = (pid_t)notification->pid;
    if (atomic_load(&known[thread % MAX_KNOWN]) == thread)
        return false;
    *request = (struct guard_request){notification->id, thread,
                                      (uint32_t)notification->data.args[0] == SIGCHLD};
    if (process_vm_readv(thread, &ours, 1, &theirs, 1, 0) != (ssize_t)sizeof action)
        return errno != EFAULT && errno != ESRCH; /* the call fails, or its caller has gone */
    bool is_handler = action.handler != (uintptr_t)SIG_DFL && action.handler != (uintptr_t)SIG_IGN;
    return is_handler && !(action.flags & SA_RESTART);
}

static bool is_ours(pid_t thread)
{
    char path[64], text[2048];
    snprintf(path, sizeof path, "/proc/%d/status", thread);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = 0;
    return strstr(text, "\nTracerPid:\t1\n") != NULL;
}

static bool seize(pid_t thread, long options)
{
    if (ptrace(PTRACE_SEIZE, thread, NULL, options))
        return false;
    remember(thread);
    return true;
}

/* Attaches to the threads that are listed and not attached yet; returns how many. */
static int attach_pass(int directory, long options)
{
    char entries[4096];
    int fresh = 0;
    long n;
    lseek(directory, 0, SEEK_SET);
    while ((n = syscall(SYS_getdents64, directory, entries, sizeof entries)) > 0) {
        for (long at = 0; at < n;) {
            /* struct linux_dirent64: ino, off, reclen, type, name */
            uint16_t length;
            memcpy(&length, entries + at + 16, sizeof length);
            pid_t thread = atoi(entries + at + 19);
            fresh += thread > 0 && seize(thread, options);
            at += length;
        }
    }
    return fresh;
}

bool guard_attach(const struct guard_request *request)
{
    char path[64];
    struct stat threads;
    long options = OPTIONS | (request->follow_forks ? PTRACE_O_TRACEFORK : 0);
    if (!seize(request->thread, options))
        return errno == ESRCH || is_ours(request->thread);
    snprintf(path, sizeof path, "/proc/%d/task", request->thread);
    if (stat(path, &threads) == 0 && threads.st_nlink == ONE_THREAD_LINKS)
        return true;
    int directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0)
        return errno == ENOENT;
    int passes = 0;
    while (attach_pass(directory, options) && passes < MAX_PASSES)
        passes++;
    close(directory);
    return passes < MAX_PASSES;
}

/* The system call a thread in a signal stop was in, or is about to make. */
struct call {
    uint64_t number;
    uint64_t arguments[3];
};

#if defined(__x86_64__)
static bool interrupted_call(pid_t thread, struct call *call)
{
    struct user_regs_struct regs;
    if (ptrace(PTRACE_GETREGS, thread, NULL, &regs) || (int64_t)regs.rax != -ERESTARTSYS)
        return false;
    *call = (struct call){regs.orig_rax, {regs.rdi, regs.rsi, regs.rdx}};
    return true;
}
#else
/* The kernel has already gone back to the `svc #0` that makes the call again. */
static bool interrupted_call(pid_t thread, struct call *call)
{
    enum { SVC_0 = 0xd4000001 };
    struct user_regs_struct regs;
    struct iovec all = {&regs, sizeof regs};
    if (ptrace(PTRACE_GETREGSET, thread, (void *)NT_PRSTATUS, &all))
        return false;
    if ((uint32_t)ptrace(PTRACE_PEEKTEXT, thread, (void *)regs.pc, NULL) != SVC_0)
        return false;
    *call = (struct call){regs.regs[8], {regs.regs[0], regs.regs[1], regs.regs[2]}};
    return true;
}
#endif

static bool is_notified(const struct call *call)
{
    uint32_t first = (uint32_t)call->arguments[0], second = (uint32_t)call->arguments[1];
    switch (call->number) {
    case SYS_write:
    case SYS_writev:
    case SYS_sendfile:
        return first == STDERR_FILENO;
    case SYS_splice:
        return (uint32_t)call->arguments[2] == STDERR_FILENO;
#ifdef SYS_dup2
    case SYS_dup2:
#endif
    case SYS_dup3:
        return second == STDOUT_FILENO || second == STDERR_FILENO;
    case SYS_rt_sigaction:
        return true;
    default:
        return false;
    }
}

#if defined(__x86_64__) && !defined(GUARD_DEFERS)
/* Has the call made again after the handler, whatever the handler's flags. */
static bool restart(pid_t thread, int number)
{
    (void)number;
    ptrace(PTRACE_POKEUSER, thread, offsetof(struct user_regs_struct, rax), -(long)ERESTARTNOINTR);
    return true;
}

void guard_send_deferred(pid_t thread)
{
    (void)thread;
}

static void drop_deferred(pid_t thread)
{
    (void)thread;
}
#else
/* aarch64 has decided about the restart before it asks the tracer. So the signal is kept back: with
 * none, the call is made again at once, and when its notification has been received, after which
 * signals no longer interrupt it, the signal is sent again (its siginfo then is that of tkill). */
static struct {
    pthread_mutex_t lock;
    size_t count;
    struct {
        pid_t thread;
        int number;
    } signals[MAX_DEFERRED];
} deferred = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool restart(pid_t thread, int number)
{
    pthread_mutex_lock(&deferred.lock);
    bool room = deferred.count < MAX_DEFERRED;
    if (room) {
        deferred.signals[deferred.count].thread = thread;
        deferred.signals[deferred.count++].number = number;
    }
    pthread_mutex_unlock(&deferred.lock);
    return !room;
}

static void take_deferred(pid_t thread, bool send)
{
    pthread_mutex_lock(&deferred.lock);
    size_t kept = 0;
    for (size_t i = 0; i < deferred.count; i++)
        if (deferred.signals[i].thread != thread)
            deferred.signals[kept++] = deferred.signals[i];
        else if (send)
            syscall(SYS_tkill, thread, deferred.signals[i].number);
    deferred.count = kept;
    pthread_mutex_unlock(&deferred.lock);
}

void guard_send_deferred(pid_t thread)
{
    take_deferred(thread, true);
}

static void drop_deferred(pid_t thread)
{
    take_deferred(thread, false);
}
#endif

void guard_forget(pid_t thread)
{
    int expected = thread;
    atomic_compare_exchange_strong(&known[thread % MAX_KNOWN], &expected, 0);
    drop_deferred(thread);
}

void guard_continue(pid_t thread, int status)
{
    int event = status >> 16, number = WSTOPSIG(status);
    if (event == PTRACE_EVENT_EXEC) { /* which has reset all handlers */
        guard_forget(thread);
        ptrace(PTRACE_DETACH, thread, NULL, 0L);
    } else if (event == PTRACE_EVENT_STOP && number != SIGTRAP) { /* stopped by job control */
        ptrace(PTRACE_LISTEN, thread, NULL, 0L);
    } else if (event) { /* a new thread or process: itself, or that it was made */
        remember(thread);
        ptrace(PTRACE_CONT, thread, NULL, 0L);
    } else {
        struct call call;
        if (interrupted_call(thread, &call) && is_notified(&call) && !restart(thread, number))
            number = 0;
        ptrace(PTRACE_CONT, thread, NULL, (long)number);
    }
}
