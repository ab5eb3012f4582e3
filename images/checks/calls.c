/* System calls a sandbox refuses. Each is made with arguments that do nothing where it is not. */
#include "attempt.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Newer than the headers of some C libraries; the numbers are the same on every machine. */
enum {
    NR_PIDFD_GETFD = 438,
    NR_OPEN_TREE = 428,
    NR_MOVE_MOUNT = 429,
    NR_FSOPEN = 430,
    NR_FSCONFIG = 431,
    NR_FSMOUNT = 432,
    NR_FSPICK = 433,
    NR_CLONE3 = 435,
    NR_PROCESS_MADVISE = 440,
    NR_MOUNT_SETATTR = 442,
    NR_MEMFD_SECRET = 447,
    NR_PROCESS_MRELEASE = 448,
    NR_SET_MEMPOLICY_HOME_NODE = 450,
    NR_STATMOUNT = 457,
    NR_LISTMOUNT = 458,
    NR_LSM_LIST_MODULES = 461,
    BAD = -1,
};

/* What a namespace flag stands for in clone(2). */
static const unsigned long NEW_USER = 0x10000000, NEW_PID = 0x20000000, NEW_NET = 0x40000000,
                           NEW_NS = 0x00020000, NEW_UTS = 0x04000000, NEW_IPC = 0x08000000,
                           NEW_CGROUP = 0x02000000, NEW_TIME = 0x00000080;

static char nowhere[] = "/nonexistent-sandboxrun", root[] = "/", empty[] = "", tmpfs[] = "tmpfs";
static char room[4096];
static const char *const shell[] = {nowhere, NULL};

struct clone3_arguments {
    uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
};

#define ARG(x) ((long)(x))

/* Calls that are made as they are. Where they are allowed they fail for their arguments, or do
 * something that ends with this process. */
static const struct {
    const char *name;
    long number, arguments[6];
} plain[] = {
#ifdef SYS_acct
    {"acct", SYS_acct, {ARG(nowhere)}},
#endif
    {"add_key", SYS_add_key, {ARG("user"), ARG("sandboxrun-probe"), ARG("x"), 1, -1}},
    {"bpf", SYS_bpf, {BAD, ARG(room), 128}},
    {"bpf_map", SYS_bpf, {0, ARG(room), 128}},
    {"chroot", SYS_chroot, {ARG(root)}},
    {"clock_adjtime", SYS_clock_adjtime, {0, ARG(room)}},
    {"clock_settime", SYS_clock_settime, {BAD, ARG(room)}},
    {"delete_module", SYS_delete_module, {ARG("sandboxrun_no_such"), O_NONBLOCK}},
    {"fanotify_init", SYS_fanotify_init, {0, 0}},
    {"finit_module", SYS_finit_module, {BAD, ARG(empty), 0}},
    {"fsconfig", NR_FSCONFIG, {BAD, 0, 0, 0, 0}},
    {"fsmount", NR_FSMOUNT, {BAD, 0, 0}},
    {"fsopen", NR_FSOPEN, {ARG(tmpfs), 1}},
    {"fspick", NR_FSPICK, {AT_FDCWD, ARG(root), 1}},
    {"get_mempolicy", SYS_get_mempolicy, {0, 0, 0, 0, 0}},
    {"init_module", SYS_init_module, {0, 0, ARG(empty)}},
    {"io_setup", SYS_io_setup, {1, ARG(room)}},
    {"io_uring_enter", 426, {BAD, 0, 0, 0, 0, 0}},
    {"io_uring_register", 427, {BAD, 0, 0, 0}},
    {"io_uring_setup", 425, {1, ARG(room)}},
    {"kcmp", SYS_kcmp, {1, 1, 0, 0, 0}},
    {"kexec_file_load", 320, {BAD, BAD, 0, 0, ARG(~0UL)}},
    {"kexec_load", SYS_kexec_load, {0, 0, 0, 0xffff}},
    {"keyctl", SYS_keyctl, {0, -3, 0}},
    {"keyctl_join", SYS_keyctl, {1, ARG("sandboxrun-probe")}},
    {"keyctl_persistent", SYS_keyctl, {22, -1, -2}},
    {"listmount", NR_LISTMOUNT, {0, 0, 0, 0}},
    {"lookup_dcookie", SYS_lookup_dcookie, {0, ARG(room), sizeof room}},
    {"mbind", SYS_mbind, {0, 0, 0, 0, 0, 0}},
    {"memfd_secret", NR_MEMFD_SECRET, {0}},
    {"migrate_pages", SYS_migrate_pages, {0, 0, 0, 0}},
    {"mount", SYS_mount, {ARG("none"), ARG(nowhere), ARG(tmpfs), 0, 0}},
    {"mount_setattr", NR_MOUNT_SETATTR, {AT_FDCWD, ARG(root), 0, ARG(room), 32}},
    {"move_mount", NR_MOVE_MOUNT, {BAD, ARG(empty), BAD, ARG(empty), 0}},
    {"move_pages", SYS_move_pages, {1, 0, 0, 0, 0, 0}},
    {"name_to_handle_at", SYS_name_to_handle_at, {AT_FDCWD, ARG(root), ARG(room), ARG(room + 512), 0}},
    {"nfsservctl", SYS_nfsservctl, {BAD, 0, 0}},
    {"open_tree", NR_OPEN_TREE, {AT_FDCWD, ARG(root), 1}},
    {"personality", SYS_personality, {ADDR_NO_RANDOMIZE}},
    {"pidfd_getfd", NR_PIDFD_GETFD, {BAD, 0, 0}},
    {"pivot_root", SYS_pivot_root, {ARG(nowhere), ARG(nowhere)}},
    {"process_madvise", NR_PROCESS_MADVISE, {BAD, 0, 0, 0, 0}},
    {"process_mrelease", NR_PROCESS_MRELEASE, {BAD, 0}},
    {"process_vm_writev", SYS_process_vm_writev, {1, 0, 0, 0, 0, 0}},
    {"quotactl", SYS_quotactl, {0x80000400, ARG(nowhere), 0, ARG(room)}},
    {"reboot", SYS_reboot, {0, 0, 0, 0}},
    {"remap_file_pages", SYS_remap_file_pages, {0, 0, 0, 0, 0}},
    {"request_key", SYS_request_key, {ARG("user"), ARG("sandboxrun-probe"), 0, 0}},
    {"set_mempolicy", SYS_set_mempolicy, {0, 0, 0}},
    {"set_mempolicy_home_node", NR_SET_MEMPOLICY_HOME_NODE, {0, 0, 0, 0}},
    {"setdomainname", SYS_setdomainname, {ARG(empty), BAD}},
    {"sethostname", SYS_sethostname, {ARG(empty), BAD}},
    {"settimeofday", SYS_settimeofday, {0, 0}},
    {"statmount", NR_STATMOUNT, {0, 0, 0, 0}},
    {"swapoff", SYS_swapoff, {ARG(nowhere)}},
    {"swapon", SYS_swapon, {ARG(nowhere), 0}},
    {"syslog", SYS_syslog, {10, 0, 0}},
    {"umount2", SYS_umount2, {ARG(nowhere), 0}},
    {"unshare_none", SYS_unshare, {0}},
    {"userfaultfd", SYS_userfaultfd, {O_CLOEXEC | 1}},
    {"vhangup", SYS_vhangup, {0}},
    {"clone3_plain", NR_CLONE3, {0, 0}},
#ifdef __x86_64__
    {"ioperm", SYS_ioperm, {0x80, 1, 1}},
    {"iopl", SYS_iopl, {3}},
    {"modify_ldt", SYS_modify_ldt, {0, ARG(room), sizeof room}},
    {"sysfs", SYS_sysfs, {3}},
    {"_sysctl", SYS__sysctl, {ARG(room)}},
    {"uselib", SYS_uselib, {ARG(nowhere)}},
    {"ustat", SYS_ustat, {0, ARG(room)}},
    {"create_module", SYS_create_module, {ARG(empty), 0}},
#endif
};

static void call_plain(struct answer *answer, char **arguments)
{
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        const long *a = plain[i].arguments;
        if (strcmp(plain[i].name, arguments[0]))
            continue;
        answer_result(answer, syscall(plain[i].number, a[0], a[1], a[2], a[3], a[4], a[5]));
        return;
    }
    answer->value = -1;
    answer->error = ENOSYS;
    answer_text(answer, "this machine has no such call");
}

/* With the upper half of the arguments set: the kernel ignores it where it takes an int. */
static void call_wide(struct answer *answer, char **arguments)
{
    long high = (long)(1UL << 32);
    if (strcmp(arguments[0], "mptcp") == 0)
        answer_result(answer, syscall(SYS_socket, 2 + high, 1 + high, 262 + high));
    else if (strcmp(arguments[0], "vsock") == 0)
        answer_result(answer, syscall(SYS_socket, 40 + high, 1, 0));
    else if (strcmp(arguments[0], "alg") == 0)
        answer_result(answer, syscall(SYS_socket, 38 + high, 5 + high, 0));
    else if (strcmp(arguments[0], "tiocsti") == 0)
        answer_result(answer, syscall(SYS_ioctl, 0, 0x5412 + high, "x"));
    else if (strcmp(arguments[0], "personality") == 0)
        answer_result(answer, syscall(SYS_personality, ADDR_NO_RANDOMIZE + high));
    else
        answer_text(answer, "unknown");
}

static unsigned long flags_of(const char *name)
{
    static const struct {
        const char *name;
        const unsigned long *flag;
    } known[] = {{"user", &NEW_USER}, {"pid", &NEW_PID}, {"net", &NEW_NET}, {"mnt", &NEW_NS},
                 {"uts", &NEW_UTS},   {"ipc", &NEW_IPC}, {"cgroup", &NEW_CGROUP}, {"time", &NEW_TIME}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, name) == 0)
            return *known[i].flag;
    return 0;
}

static void call_unshare(struct answer *answer, char **arguments)
{
    answer_result(answer, syscall(SYS_unshare, flags_of(arguments[0])));
}

static void finish_child(struct answer *answer, long child)
{
    if (child == 0)
        _exit(0);
    answer_result(answer, child);
    if (child > 0)
        waitpid((pid_t)child, NULL, 0x40000000 /* __WALL */);
}

static void call_clone(struct answer *answer, char **arguments)
{
    finish_child(answer, syscall(SYS_clone, flags_of(arguments[0]) | SIGCHLD, 0, 0, 0, 0));
}

static void call_clone3(struct answer *answer, char **arguments)
{
    struct clone3_arguments wanted = {.flags = flags_of(arguments[0]), .exit_signal = SIGCHLD};
    finish_child(answer, syscall(NR_CLONE3, &wanted, sizeof wanted));
}

/* Joins its own network namespace: changes nothing, and needs the same privilege as another's. */
static void call_setns(struct answer *answer, char **arguments)
{
    int fd = open(arguments[0], O_RDONLY | O_CLOEXEC);
    answer_result(answer, fd);
    if (fd >= 0)
        answer_result(answer, syscall(SYS_setns, fd, 0));
}

static void call_perf(struct answer *answer, char **arguments)
{
    (void)arguments;
    struct perf_event_attr event = {.type = PERF_TYPE_SOFTWARE, .size = sizeof event,
                                    .config = PERF_COUNT_SW_CPU_CLOCK, .exclude_kernel = 1};
    answer_result(answer, syscall(SYS_perf_event_open, &event, 0, -1, -1, 8));
}

/* A handle of the root inode of whatever file system PATH is on: the way out of a bind mount. */
static void call_handle(struct answer *answer, char **arguments)
{
    struct {
        unsigned bytes;
        int type;
        unsigned inode, generation;
    } handle = {8, 1, 2, 0};
    int fd = open(arguments[0], O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    answer_result(answer, fd);
    if (fd >= 0)
        answer_result(answer, syscall(SYS_open_by_handle_at, fd, &handle, O_RDONLY | O_DIRECTORY));
}

static void call_setuid(struct answer *answer, char **arguments)
{
    (void)arguments;
    answer_result(answer, syscall(SYS_setuid, 0));
    if (answer->error)
        answer_result(answer, syscall(SYS_setgid, 0));
    if (answer->error)
        answer_result(answer, syscall(SYS_setgroups, 1, (const unsigned[]){0}));
}

static void call_realtime(struct answer *answer, char **arguments)
{
    (void)arguments;
    struct sched_param wanted = {.sched_priority = 1};
    answer_result(answer, sched_setscheduler(0, SCHED_FIFO, &wanted));
}

/* Whether a filter hides behind execveat of a descriptor, as it does not behind execve. */
static void call_execveat(struct answer *answer, char **arguments)
{
    answer_result(answer, syscall(SYS_execveat, AT_FDCWD, arguments[0], shell, shell + 1, 0));
}

const struct verb call_verbs[] = {
    {"call", 1, call_plain},     {"wide", 1, call_wide},         {"unshare", 1, call_unshare},
    {"clone", 1, call_clone},    {"clone3", 1, call_clone3},     {"setns", 1, call_setns},
    {"perf", 0, call_perf},      {"handle", 1, call_handle},     {"setuid", 0, call_setuid},
    {"realtime", 0, call_realtime}, {"execveat", 1, call_execveat}, {0},
};
