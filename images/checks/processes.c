/* Other processes: the init, siblings, whatever can be seen; and what outlives its parent. */
#include "attempt.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void pause_ms(long milliseconds)
{
    struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static void do_ptrace_seize(struct answer *answer, pid_t target)
{
    answer_result(answer, ptrace(PTRACE_SEIZE, target, NULL, NULL));
    if (answer->error == 0)
        ptrace(PTRACE_DETACH, target, NULL, NULL);
}

static void do_ptrace_attach(struct answer *answer, pid_t target)
{
    answer_result(answer, ptrace(PTRACE_ATTACH, target, NULL, NULL));
    if (answer->error == 0) {
        waitpid(target, NULL, 0x40000000 /* __WALL */);
        ptrace(PTRACE_DETACH, target, NULL, NULL);
    }
}

static void do_vm_read(struct answer *answer, pid_t target)
{
    static char here[16];
    struct iovec ours = {here, sizeof here}, theirs = {here, sizeof here};
    answer_result(answer, process_vm_readv(target, &ours, 1, &theirs, 1, 0));
    if (answer->error == EFAULT) /* permitted, but nothing is mapped there */
        answer_result(answer, 0);
}

static void do_vm_write(struct answer *answer, pid_t target)
{
    static char here[1];
    struct iovec ours = {here, 0}, theirs = {here, 0};
    answer_result(answer, process_vm_writev(target, &ours, 1, &theirs, 1, 0));
}

static void open_of(struct answer *answer, pid_t target, const char *what, int flags)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)target, what);
    answer_result(answer, open(path, flags | O_NONBLOCK | O_CLOEXEC));
}

static void do_mem_read(struct answer *answer, pid_t target)
{
    open_of(answer, target, "mem", O_RDONLY);
}

static void do_mem_write(struct answer *answer, pid_t target)
{
    open_of(answer, target, "mem", O_WRONLY);
}

static void do_environ(struct answer *answer, pid_t target)
{
    open_of(answer, target, "environ", O_RDONLY);
}

static void do_fd(struct answer *answer, pid_t target)
{
    open_of(answer, target, "fd", O_RDONLY | O_DIRECTORY);
}

static void do_root(struct answer *answer, pid_t target)
{
    open_of(answer, target, "root", O_RDONLY | O_DIRECTORY);
}

static void do_exe(struct answer *answer, pid_t target)
{
    open_of(answer, target, "exe", O_WRONLY);
}

static void do_mnt_ns(struct answer *answer, pid_t target)
{
    open_of(answer, target, "ns/mnt", O_RDONLY);
}

/* Opening is allowed to everybody; writing is what counts. To what it is by default. */
static void do_timers(struct answer *answer, pid_t target)
{
    open_of(answer, target, "timerslack_ns", O_WRONLY);
    if (answer->error == 0)
        answer_result(answer, write((int)answer->value, "50000", 5));
}

static void do_oom(struct answer *answer, pid_t target)
{
    open_of(answer, target, "oom_score_adj", O_WRONLY);
}

static void do_coredump_filter(struct answer *answer, pid_t target)
{
    open_of(answer, target, "coredump_filter", O_WRONLY);
}

static void do_prlimit(struct answer *answer, pid_t target)
{
    struct rlimit found;
    answer_result(answer, prlimit(target, RLIMIT_NOFILE, NULL, &found));
    if (answer->error == 0)
        answer_result(answer, prlimit(target, RLIMIT_NOFILE, &found, NULL));
}

static void do_affinity(struct answer *answer, pid_t target)
{
    cpu_set_t set;
    answer_result(answer, sched_getaffinity(target, sizeof set, &set));
    if (answer->error == 0)
        answer_result(answer, sched_setaffinity(target, sizeof set, &set));
}

static void do_scheduler(struct answer *answer, pid_t target)
{
    struct sched_param same = {0};
    answer_result(answer, sched_setscheduler(target, SCHED_OTHER, &same));
}

static void do_nice(struct answer *answer, pid_t target)
{
    errno = 0;
    int found = getpriority(PRIO_PROCESS, (id_t)target);
    answer_result(answer, errno ? -1 : setpriority(PRIO_PROCESS, (id_t)target, found));
}

static void do_ioprio(struct answer *answer, pid_t target)
{
    answer_result(answer, syscall(SYS_ioprio_set, 1, target, 0));
}

/* All processes of the user: to the priority this one has. */
static void do_nice_user(struct answer *answer, pid_t target)
{
    (void)target;
    answer_result(answer, setpriority(PRIO_USER, 0, getpriority(PRIO_PROCESS, 0)));
}

static void do_pidfd_getfd(struct answer *answer, pid_t target)
{
    int fd = (int)syscall(434 /* pidfd_open */, target, 0);
    answer_result(answer, fd);
    if (fd >= 0)
        answer_result(answer, syscall(438 /* pidfd_getfd */, fd, 0, 0));
}

static void do_kcmp(struct answer *answer, pid_t target)
{
    answer_result(answer, syscall(SYS_kcmp, getpid(), target, 0, 0, 0));
}

static void do_signal_0(struct answer *answer, pid_t target)
{
    answer_result(answer, kill(target, 0));
}

static void do_io(struct answer *answer, pid_t target)
{
    open_of(answer, target, "io", O_RDONLY);
}

static void do_stack(struct answer *answer, pid_t target)
{
    open_of(answer, target, "stack", O_RDONLY);
}

static void do_maps(struct answer *answer, pid_t target)
{
    open_of(answer, target, "maps", O_RDONLY);
}

static const struct {
    const char *name;
    void (*run)(struct answer *, pid_t);
} attacks[] = {
    {"seize", do_ptrace_seize}, {"attach", do_ptrace_attach},
    {"vm-read", do_vm_read},    {"vm-write", do_vm_write},
    {"mem-read", do_mem_read},  {"mem-write", do_mem_write},
    {"environ", do_environ},    {"fd", do_fd},
    {"root", do_root},          {"exe-write", do_exe},
    {"mnt-ns", do_mnt_ns},      {"timerslack", do_timers},
    {"oom", do_oom},            {"coredump-filter", do_coredump_filter},
    {"prlimit", do_prlimit},    {"affinity", do_affinity},
    {"scheduler", do_scheduler}, {"nice", do_nice},
    {"ioprio", do_ioprio},      {"nice-user", do_nice_user},
    {"pidfd-getfd", do_pidfd_getfd}, {"kcmp", do_kcmp},
    {"signal-0", do_signal_0},  {"io", do_io},
    {"stack", do_stack},        {"maps", do_maps},
};

static void attack(struct answer *answer, const char *name, pid_t target)
{
    for (size_t i = 0; i < sizeof attacks / sizeof *attacks; i++)
        if (strcmp(attacks[i].name, name) == 0) {
            attacks[i].run(answer, target);
            return;
        }
    errno = ENOSYS;
    answer_result(answer, -1);
}

/* A thread of the init that is not its first: some calls take the id of any thread. */
static pid_t thread_of_init(void)
{
    DIR *directory = opendir("/proc/1/task");
    pid_t found = 1;
    for (struct dirent *entry; directory && (entry = readdir(directory));)
        if (atoi(entry->d_name) > 1)
            found = atoi(entry->d_name);
    if (directory)
        closedir(directory);
    return found;
}

static void process_attack(struct answer *answer, char **arguments)
{
    bool thread = strcmp(arguments[1], "thread") == 0;
    if (!init_is_ours()) {
        errno = EXDEV; /* the host's own is left alone */
        answer_result(answer, -1);
        return;
    }
    attack(answer, arguments[0], thread ? thread_of_init() : (pid_t)number(arguments[1]));
}

/* Every signal to the init, also with data and by way of a descriptor. That this is told at all
 * says that it lives. */
static void process_signals(struct answer *answer, char **arguments)
{
    (void)arguments;
    int fd = (int)syscall(434 /* pidfd_open */, 1, 0);
    answer->value = answer->error = 0;
    if (!init_is_ours()) {
        errno = EXDEV;
        answer_result(answer, -1);
        return;
    }
    for (int number = 1; number <= 64; number++) {
        answer->value += kill(1, number) == 0;
        sigqueue(1, number, (union sigval){.sival_int = 1});
        if (fd >= 0)
            syscall(424 /* pidfd_send_signal */, fd, number, NULL, 0);
    }
    pause_ms(200);
}

/* leave NAME: files in every place for temporary ones, a queue, and shared memory. */
static void process_leave(struct answer *answer, char **arguments)
{
    static const char *const places[] = {"/tmp", "/dev/shm", "/var/tmp", "/run"};
    char path[256];
    answer->value = answer->error = 0;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(path, sizeof path, "%s/%s", places[i], arguments[0]);
        int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
        answer->value += fd >= 0;
    }
    snprintf(path, sizeof path, "/%s", arguments[0]);
    answer->value += mq_open(path, O_RDWR | O_CREAT, 0666, NULL) != (mqd_t)-1;
    answer->value += shmget((key_t)number(arguments[1]), 4096, IPC_CREAT | 0666) >= 0;
}

/* find NAME KEY: how much of what was left is there; in the text, where. */
static void process_find(struct answer *answer, char **arguments)
{
    static const char *const places[] = {"/tmp", "/dev/shm", "/var/tmp", "/run", "/dev/mqueue"};
    char path[256];
    answer->value = answer->error = 0;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(path, sizeof path, "%s/%s", places[i], arguments[0]);
        if (access(path, F_OK) == 0) {
            answer_text(answer, "%s\n", path);
            answer->value++;
            unlink(path);
        }
    }
    int segment = shmget((key_t)number(arguments[1]), 0, 0);
    if (segment >= 0) {
        answer_text(answer, "shared memory %s\n", arguments[1]);
        answer->value++;
        shmctl(segment, IPC_RMID, NULL);
    }
}

/* offer NAME PORT SECONDS: listens on an abstract socket and on a port, from a process that stays. */
static void process_offer(struct answer *answer, char **arguments)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    struct sockaddr_in port = {.sin_family = AF_INET, .sin_port = htons((uint16_t)number(arguments[1]))};
    size_t length = strlen(arguments[0]);
    memcpy(name.sun_path + 1, arguments[0], length < 100 ? length : 100);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
    int unix_socket = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(unix_socket, (const void *)&name, size) || listen(unix_socket, 8) ||
        bind(tcp, (const void *)&port, sizeof port) || listen(tcp, 8)) {
        answer_result(answer, -1);
        return;
    }
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_NAME, arguments[0]);
        alarm((unsigned)number(arguments[2]));
        for (;;)
            pause();
    }
    answer_result(answer, child);
}

static void process_pause(struct answer *answer, char **arguments)
{
    pause_ms((long)number(arguments[0]));
    answer->value = answer->error = 0;
}

static void process_clock(struct answer *answer, char **arguments)
{
    (void)arguments;
    answer->error = 0;
    answer->value = time(NULL);
}

/* The same against a process of the same user that is no child of the attacker's. */
static void process_sibling(struct answer *answer, char **arguments)
{
    int ready[2];
    if (pipe(ready)) {
        answer_result(answer, -1);
        return;
    }
    pid_t between = fork();
    if (between == 0) {
        pid_t sibling = fork();
        if (sibling == 0) {
            prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
            pause_ms(3000);
            _exit(0);
        }
        _exit(write(ready[1], &sibling, sizeof sibling) == sizeof sibling ? 0 : 1);
    }
    pid_t sibling = 0;
    if (read(ready[0], &sibling, sizeof sibling) != sizeof sibling || sibling <= 0) {
        answer_result(answer, -1);
        return;
    }
    waitpid(between, NULL, 0);
    pause_ms(20); /* until it has let itself be traced */
    attack(answer, arguments[0], sibling);
    kill(sibling, SIGKILL);
}

/* "PID<TAB>PARENT<TAB>UID<TAB>COMMAND LINE", one a line. */
static void process_list(struct answer *answer, char **arguments)
{
    (void)arguments;
    DIR *directory = opendir("/proc");
    answer->value = 0;
    answer->error = directory ? 0 : errno;
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        char path[300], text[1024];
        if (entry->d_name[0] < '0' || entry->d_name[0] > '9')
            continue;
        snprintf(path, sizeof path, "/proc/%s/cmdline", entry->d_name);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
        if (fd >= 0)
            close(fd);
        for (ssize_t i = 0; i < n; i++)
            if (text[i] == 0 || text[i] == '\n' || text[i] == '\t')
                text[i] = ' ';
        text[n > 0 ? n : 0] = 0;
        answer_text(answer, "%s\t%s\n", entry->d_name, text);
        answer->value++;
    }
}

/* Whether an orphan that has ended is still listed: value 1 if so. */
static void process_orphan(struct answer *answer, char **arguments)
{
    (void)arguments;
    int ready[2];
    char path[64];
    pid_t orphan = 0;
    if (pipe(ready)) {
        answer_result(answer, -1);
        return;
    }
    pid_t between = fork();
    if (between == 0) {
        orphan = fork();
        if (orphan == 0) {
            pause_ms(50);
            _exit(0);
        }
        _exit(write(ready[1], &orphan, sizeof orphan) == sizeof orphan ? 0 : 1);
    }
    if (read(ready[0], &orphan, sizeof orphan) != sizeof orphan || orphan <= 0) {
        answer_result(answer, -1);
        return;
    }
    waitpid(between, NULL, 0);
    snprintf(path, sizeof path, "/proc/%d", (int)orphan);
    answer->error = 0;
    for (int i = 0; i < 60; i++) {
        pause_ms(50);
        answer->value = access(path, F_OK) == 0;
        if (answer->value == 0)
            return;
    }
}

/* Leaves a process that no ordinary means end, and that writes the time to a file again and again.
 * It gives up by itself after LIFETIME seconds. */
static void process_daemon(struct answer *answer, char **arguments)
{
    const char *path = arguments[0];
    int64_t lifetime = number(arguments[1]);
    int ready[2];
    char byte;
    if (pipe2(ready, O_CLOEXEC)) {
        answer_result(answer, -1);
        return;
    }
    pid_t between = fork();
    if (between == 0) {
        setsid();
        if (fork())
            _exit(0);
        for (int number = 1; number < 64; number++)
            signal(number, SIG_IGN);
        for (int fd = 0; fd < 1024; fd++)
            if (fd != ready[1])
                close(fd);
        for (int64_t tick = 0; tick < lifetime * 20; tick++) {
            char text[32];
            int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
            int n = snprintf(text, sizeof text, "%019lld\n", (long long)time(NULL));
            if (fd >= 0 && pwrite(fd, text, (size_t)n, 0) == n && tick == 0)
                (void)!write(ready[1], "", 1);
            close(fd);
            pause_ms(50);
        }
        _exit(0);
    }
    waitpid(between, NULL, 0);
    close(ready[1]);
    answer_result(answer, read(ready[0], &byte, 1) == 1 ? 0 : -1);
}

/* Whether the file a daemon writes changes: value 1 if so. */
static void process_heartbeat(struct answer *answer, char **arguments)
{
    char before[64] = "", after[64] = "";
    int fd = open(arguments[0], O_RDONLY | O_CLOEXEC);
    answer_result(answer, fd);
    if (fd < 0)
        return;
    answer->value = 0;
    ssize_t n = pread(fd, before, sizeof before - 1, 0);
    for (int i = 0; i < 25 && !answer->value && n >= 0; i++) {
        pause_ms(100);
        n = pread(fd, after, sizeof after - 1, 0);
        answer->value = n > 0 && strcmp(before, after) != 0;
    }
    close(fd);
}

static void process_tiocsti(struct answer *answer, char **arguments)
{
    (void)arguments;
    int fd = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
    answer_result(answer, fd);
    for (int each = 0; each < 3; each++) {
        int result = ioctl(each, TIOCSTI, "");
        if (result == 0 || (errno != ENOTTY && errno != EPERM)) {
            answer_result(answer, result);
            answer_text(answer, "descriptor %d", each);
            return;
        }
    }
    if (fd >= 0)
        answer_result(answer, ioctl(fd, TIOCSTI, ""));
}

/* Says whether standard input is at its end; it was read to it before. */
static void process_terminal(struct answer *answer, char **arguments)
{
    (void)arguments;
    answer->error = 0;
    answer->value = isatty(0) || isatty(1) || isatty(2);
}

/* The environment as the kernel shows it, one variable a line. */
static void process_environment(struct answer *answer, char **arguments)
{
    (void)arguments;
    static char text[65536];
    int fd = open("/proc/self/environ", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text);
    answer_result(answer, n);
    for (ssize_t i = 0; i < n; i++)
        if (text[i] == 0)
            text[i] = '\n';
    if (n > 0)
        answer_bytes(answer, text, (size_t)n);
}

static void process_ids(struct answer *answer, char **arguments)
{
    (void)arguments;
    answer->error = 0;
    answer->value = getuid();
    answer_text(answer, "uid=%u gid=%u pid=%d ppid=%d sid=%d", getuid(), getgid(), (int)getpid(),
                (int)getppid(), (int)getsid(0));
}

static void process_sysv(struct answer *answer, char **arguments)
{
    (void)arguments;
    static const char *const files[] = {"/proc/sysvipc/shm", "/proc/sysvipc/sem",
                                        "/proc/sysvipc/msg"};
    answer->value = answer->error = 0;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char line[512];
        FILE *file = fopen(files[i], "re");
        for (int n = 0; file && fgets(line, sizeof line, file); n++)
            if (n > 0) {
                answer_text(answer, "%s", line);
                answer->value++;
            }
        if (file)
            fclose(file);
    }
}

const struct verb process_verbs[] = {
    {"attack", 2, process_attack},       {"sibling", 1, process_sibling},
    {"processes", 0, process_list},      {"orphan", 0, process_orphan},
    {"daemon", 2, process_daemon},       {"heartbeat", 1, process_heartbeat},
    {"tiocsti", 0, process_tiocsti},     {"terminal", 0, process_terminal},
    {"environment", 0, process_environment}, {"ids", 0, process_ids},
    {"sysv", 0, process_sysv},           {"signals", 0, process_signals},
    {"clock", 0, process_clock},         {"leave", 2, process_leave},
    {"find", 2, process_find},           {"offer", 3, process_offer},
    {"pause", 1, process_pause},         {0},
};
