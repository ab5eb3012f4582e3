/* Takes of one resource as much as it gets, up to a bound, and gives it back. */
#include "attempt.h"

#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MIB = 1024 * 1024, LIFETIME_SECONDS = 60, FILE_MIB = 256 };

static void pause_ms(long milliseconds)
{
    struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    nanosleep(&time, NULL);
}

/* Of this attempt's process group, so that one signal ends all of them. */
static void take_processes(struct answer *answer, char **arguments)
{
    int64_t bound = number(arguments[0]);
    setpgid(0, 0);
    signal(SIGTERM, SIG_IGN);
    answer->value = answer->error = 0;
    while (answer->value < bound) {
        pid_t child = fork();
        if (child == 0) {
            signal(SIGTERM, SIG_DFL);
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            alarm(LIFETIME_SECONDS);
            for (;;)
                pause();
        }
        if (child < 0) {
            answer->error = errno;
            break;
        }
        answer->value++;
    }
    kill(0, SIGTERM);
    while (wait(NULL) > 0)
        ;
}

/* fork of fork of fork: the count is kept in memory all of them share. */
static void take_bomb(struct answer *answer, char **arguments)
{
    int64_t bound = number(arguments[0]);
    _Atomic int64_t *made = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    _Atomic int *failed = (void *)(made + 1);
    if (made == MAP_FAILED)
        return;
    setpgid(0, 0);
    signal(SIGTERM, SIG_IGN);
    pid_t first = fork();
    if (first == 0) {
        signal(SIGTERM, SIG_DFL);
        alarm(LIFETIME_SECONDS);
        while (*made < bound && !*failed) {
            pid_t child = fork();
            if (child < 0)
                *failed = errno;
            else if (child > 0)
                (*made)++;
        }
        for (;;)
            pause();
    }
    for (int i = 0; i < 300 && *made < bound && !*failed; i++)
        pause_ms(50);
    answer->value = *made;
    answer->error = *failed;
    kill(0, SIGTERM);
    waitpid(first, NULL, 0);
    munmap((void *)made, 4096);
}

static void *idle(void *nothing)
{
    for (;;)
        pause_ms(1000);
    return nothing;
}

static void take_threads(struct answer *answer, char **arguments)
{
    int64_t bound = number(arguments[0]);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    answer->value = answer->error = 0;
    while (answer->value < bound) {
        pthread_t thread;
        int fault = pthread_create(&thread, &small, idle, NULL);
        if (fault) {
            answer->error = fault;
            return; /* they end with this process */
        }
        answer->value++;
    }
}

/* The attempt's own process must not be the one the kernel chooses. */
static void offer_to_the_killer(void)
{
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0 && write(fd, "1000", 4) == 4)
        close(fd);
}

static int memory_file(const char *kind, char *name, size_t size)
{
    name[0] = 0;
    if (strcmp(kind, "memfd") == 0)
        return memfd_create("probe", MFD_CLOEXEC);
    snprintf(name, size, "%s/.sandboxrun-probe-%d", kind, (int)getpid());
    return open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
}

static void grow_anonymous(_Atomic int64_t *reached, int64_t bound)
{
    for (; *reached < bound; (*reached)++) {
        char *more = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (more == MAP_FAILED)
            _exit(errno);
        memset(more, 1, MIB);
    }
}

static void grow_sysv(_Atomic int64_t *reached, int64_t bound)
{
    int segment = shmget(IPC_PRIVATE, (size_t)bound * MIB, IPC_CREAT | 0600);
    if (segment < 0)
        _exit(errno);
    char *memory = shmat(segment, NULL, 0);
    shmctl(segment, IPC_RMID, NULL); /* it goes with the last that uses it */
    if (memory == (void *)-1)
        _exit(errno);
    for (; *reached < bound; (*reached)++)
        memset(memory + *reached * MIB, 1, MIB);
}

static void grow_file(_Atomic int64_t *reached, int64_t bound, int fd)
{
    static char data[MIB];
    memset(data, 1, sizeof data);
    for (; *reached < bound; (*reached)++)
        if (write(fd, data, MIB) != MIB)
            _exit(errno ? errno : ENOSPC);
}

/* memory KIND MIB: anonymous, sysv, memfd, or a directory. value: MiB; a text where it was killed. */
static void take_memory(struct answer *answer, char **arguments)
{
    const char *kind = arguments[0];
    int64_t bound = number(arguments[1]);
    char name[512] = "";
    int status, fd = -1;
    _Atomic int64_t *reached =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    bool anonymous = strcmp(kind, "anonymous") == 0, sysv = strcmp(kind, "sysv") == 0;
    if (!anonymous && !sysv && (fd = memory_file(kind, name, sizeof name)) < 0) {
        answer_result(answer, -1);
        return;
    }
    pid_t child = fork();
    if (child == 0) {
        offer_to_the_killer();
        signal(SIGXFSZ, SIG_IGN);
        if (anonymous)
            grow_anonymous(reached, bound);
        else if (sysv)
            grow_sysv(reached, bound);
        else
            grow_file(reached, bound, fd);
        _exit(0);
    }
    waitpid(child, &status, 0);
    answer->value = *reached;
    answer->error = WIFEXITED(status) ? WEXITSTATUS(status) : ENOMEM;
    if (WIFSIGNALED(status))
        answer_text(answer, "signal %d", WTERMSIG(status));
    if (name[0])
        unlink(name);
}

/* fill DIRECTORY MIB: in files of some hundred MiB, because one has a limit of its own. */
static void take_disk(struct answer *answer, char **arguments)
{
    static char data[MIB];
    int64_t bound = number(arguments[1]);
    int files = 0;
    char name[512];
    memset(data, 1, sizeof data);
    signal(SIGXFSZ, SIG_IGN);
    answer->value = answer->error = 0;
    int fd = -1;
    while (answer->value < bound && !answer->error) {
        if (fd < 0) {
            snprintf(name, sizeof name, "%s/.sandboxrun-fill-%d", arguments[0], files++);
            fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        }
        ssize_t n = fd < 0 ? -1 : write(fd, data, MIB);
        if (n != MIB)
            answer->error = n < 0 ? errno : ENOSPC;
        else if (++answer->value % FILE_MIB == 0) {
            close(fd);
            fd = -1;
        }
    }
    while (files-- > 0) {
        snprintf(name, sizeof name, "%s/.sandboxrun-fill-%d", arguments[0], files);
        unlink(name);
    }
}

static void take_one_file(struct answer *answer, char **arguments)
{
    char name[512];
    snprintf(name, sizeof name, "%s/.sandboxrun-probe-%d", arguments[0], (int)getpid());
    signal(SIGXFSZ, SIG_IGN);
    int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    answer_result(answer, fd < 0 ? fd : ftruncate(fd, (off_t)number(arguments[1])));
    if (fd >= 0)
        unlink(name);
}

static void take_inodes(struct answer *answer, char **arguments)
{
    int64_t bound = number(arguments[1]), made = 0;
    char base[512], name[600];
    snprintf(base, sizeof base, "%s/.sandboxrun-inodes", arguments[0]);
    answer_result(answer, mkdir(base, 0700));
    if (answer->error && answer->error != EEXIST)
        return;
    answer->error = 0;
    for (; made < bound; made++) {
        snprintf(name, sizeof name, "%s/%lld", base, (long long)made);
        int fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (fd < 0) {
            answer->error = errno;
            break;
        }
        close(fd);
    }
    answer->value = made;
    while (made-- > 0) {
        snprintf(name, sizeof name, "%s/%lld", base, (long long)made);
        unlink(name);
    }
    rmdir(base);
}

static int one_descriptor(const char *kind)
{
    int ends[2];
    if (strcmp(kind, "file") == 0)
        return open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (strcmp(kind, "pipe") == 0) {
        if (pipe2(ends, O_CLOEXEC | O_NONBLOCK))
            return -1;
        fcntl(ends[1], F_SETPIPE_SZ, MIB);
        return ends[1];
    }
    if (strcmp(kind, "unix") == 0)
        return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (strcmp(kind, "inet") == 0)
        return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (strcmp(kind, "inotify") == 0)
        return inotify_init1(IN_CLOEXEC);
    if (strcmp(kind, "epoll") == 0)
        return epoll_create1(EPOLL_CLOEXEC);
    if (strcmp(kind, "event") == 0)
        return eventfd(0, EFD_CLOEXEC);
    if (strcmp(kind, "timer") == 0)
        return timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    if (strcmp(kind, "memfd") == 0)
        return memfd_create("probe", MFD_CLOEXEC);
    if (strcmp(kind, "terminal") == 0)
        return open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
    errno = ENOSYS;
    return -1;
}

/* take KIND N: descriptors; they are closed by the end of this process. */
static void take_descriptors(struct answer *answer, char **arguments)
{
    int64_t bound = number(arguments[1]);
    answer->value = answer->error = 0;
    while (answer->value < bound) {
        if (one_descriptor(arguments[0]) < 0) {
            answer->error = errno;
            return;
        }
        answer->value++;
    }
}

static void take_timers(struct answer *answer, char **arguments)
{
    int64_t bound = number(arguments[0]);
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    timer_t timer;
    answer->value = answer->error = 0;
    while (answer->value < bound) {
        if (timer_create(CLOCK_MONOTONIC, &event, &timer)) {
            answer->error = errno;
            return;
        }
        answer->value++;
    }
}

/* queues BYTES: POSIX message queues, of 8 KiB each. value: KiB. */
static void take_queues(struct answer *answer, char **arguments)
{
    int64_t bound = number(arguments[0]);
    struct mq_attr wanted = {.mq_maxmsg = 8, .mq_msgsize = 1024};
    char name[64];
    int made = 0;
    answer->value = answer->error = 0;
    while (answer->value < bound) {
        snprintf(name, sizeof name, "/sandboxrun-probe-%d", made);
        mqd_t queue = mq_open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600, &wanted);
        if (queue == (mqd_t)-1) {
            answer->error = errno;
            break;
        }
        made++;
        answer->value += 8;
    }
    while (made-- > 0) {
        snprintf(name, sizeof name, "/sandboxrun-probe-%d", made);
        mq_unlink(name);
    }
}

static void take_semaphores(struct answer *answer, char **arguments)
{
    int64_t bound = number(arguments[0]);
    int *sets = calloc((size_t)bound, sizeof *sets);
    answer->value = answer->error = 0;
    while (sets && answer->value < bound) {
        int set = semget(IPC_PRIVATE, 250, IPC_CREAT | 0600);
        if (set < 0) {
            answer->error = errno;
            break;
        }
        sets[answer->value++] = set;
    }
    for (int64_t i = 0; sets && i < answer->value; i++)
        semctl(sets[i], 0, IPC_RMID);
}

/* locks N: on one file, of a byte each. */
static void take_locks(struct answer *answer, char **arguments)
{
    int64_t bound = number(arguments[1]);
    char name[512];
    snprintf(name, sizeof name, "%s/.sandboxrun-probe-%d", arguments[0], (int)getpid());
    int fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    answer_result(answer, fd);
    if (fd < 0)
        return;
    unlink(name);
    answer->value = 0;
    while (answer->value < bound) {
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET,
                             .l_start = answer->value * 2, .l_len = 1};
        if (fcntl(fd, F_SETLK, &lock)) {
            answer->error = errno;
            return;
        }
        answer->value++;
    }
}

static double seconds_of(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* cpu PROCESSES SECONDS: value is what they used of the CPU, in percent of one. */
static void take_cpu(struct answer *answer, char **arguments)
{
    int64_t count = number(arguments[0]);
    double length = (double)number(arguments[1]), used = 0;
    double *times = mmap(NULL, (size_t)count * sizeof *times, PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (times == MAP_FAILED) {
        answer_result(answer, -1);
        return;
    }
    double start = seconds_of(CLOCK_MONOTONIC);
    for (int64_t i = 0; i < count; i++)
        if (fork() == 0) {
            while (seconds_of(CLOCK_MONOTONIC) - start < length)
                ;
            times[i] = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
            _exit(0);
        }
    while (wait(NULL) > 0)
        ;
    double elapsed = seconds_of(CLOCK_MONOTONIC) - start;
    for (int64_t i = 0; i < count; i++)
        used += times[i];
    answer->error = 0;
    answer->value = (int64_t)(used / elapsed * 100);
}

/* raise NAME: a resource limit above what it is. */
static void take_raise(struct answer *answer, char **arguments)
{
    struct {
        uint64_t soft, hard;
    } limit;
    int resource = (int)number(arguments[0]);
    answer_result(answer, syscall(SYS_prlimit64, 0, resource, NULL, &limit));
    if (answer->error)
        return;
    if (limit.hard == UINT64_MAX) {
        answer_text(answer, "there is no limit");
        return;
    }
    limit.hard++;
    answer_result(answer, syscall(SYS_prlimit64, 0, resource, &limit, NULL));
}

const struct verb resource_verbs[] = {
    {"processes-bomb", 1, take_bomb},
    {"take-processes", 1, take_processes},
    {"take-threads", 1, take_threads},
    {"memory", 2, take_memory},
    {"fill", 2, take_disk},
    {"one-file", 2, take_one_file},
    {"inodes", 2, take_inodes},
    {"take", 2, take_descriptors},
    {"timers", 1, take_timers},
    {"queues", 1, take_queues},
    {"semaphores", 1, take_semaphores},
    {"locks", 2, take_locks},
    {"cpu", 2, take_cpu},
    {"raise", 1, take_raise},
    {0},
};
