#include "spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "order.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U
#endif

enum { CHILD_LAST_SIGNAL = 64 };

static const char default_path[] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/* What the child's setup reports over the status socket; `failure` FAILED_NOT brings a listener. */
struct report {
    enum failure failure;
    int error_number;
};

/* The descriptors a child is made from, all but `status` for the child's side. */
struct parts {
    int input, output, error, directory, script, status;
};

static void send_report(int status, struct report report, int listener)
{
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec vector = {&report, sizeof report};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
    if (listener >= 0) {
        memset(&control, 0, sizeof control);
        message.msg_control = &control;
        message.msg_controllen = sizeof control;
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof listener);
        memcpy(CMSG_DATA(header), &listener, sizeof listener);
    }
    if (sendmsg(status, &message, MSG_NOSIGNAL) != (ssize_t)sizeof report)
        _exit(EXIT_BROKEN);
}

_Noreturn static void give_up(int status, enum failure failure)
{
    send_report(status, (struct report){failure, errno}, -1);
    _exit(EXIT_BROKEN);
}

static void reset_signals(void)
{
    /* Past the C library, which keeps the first two real-time signals to itself. All zero is
       SIG_DFL, without flags; the kernel refuses KILL and STOP. */
    const uint64_t action[4] = {0};
    sigset_t none;
    for (int number = 1; number <= CHILD_LAST_SIGNAL; number++)
        syscall(SYS_rt_sigaction, number, action, NULL, sizeof(uint64_t));
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* execvp, but of the request's PATH, and without the C library's retry with a shell. */
static void execute(const struct request *request)
{
    const char *name = request->argv[0], *path = default_path;
    if (strchr(name, '/')) {
        execve(name, request->argv, request->envp);
        return;
    }
    for (char **entry = request->envp; *entry; entry++)
        if (strncmp(*entry, "PATH=", 5) == 0)
            path = *entry + 5;
    int found = ENOENT;
    for (;;) {
        char full[PATH_MAX];
        size_t length = strcspn(path, ":");
        int n = snprintf(full, sizeof full, "%.*s%s%s", (int)length, path, length ? "/" : "", name);
        if (n > 0 && (size_t)n < sizeof full) {
            execve(full, request->argv, request->envp);
            if (errno != ENOENT && errno != ENOTDIR && errno != EACCES) {
                return;
            }
            if (errno == EACCES)
                found = EACCES;
        }
        if (path[length] == 0)
            break;
        path += length + 1;
    }
    errno = found;
}

_Noreturn static void become_command(const struct request *request, const struct parts *parts,
                                     const struct protected_ids *ids)
{
    int status = parts->status;
    setsid();
    reset_signals();
    if (dup2(parts->input, STDIN_FILENO) < 0 || dup2(parts->output, STDOUT_FILENO) < 0 ||
        dup2(parts->error, STDERR_FILENO) < 0)
        give_up(status, FAILED_SETUP);
    if (parts->script >= 0 && dup2(parts->script, SCRIPT_FD) < 0)
        give_up(status, FAILED_SETUP);
    if (fchdir(parts->directory))
        give_up(status, FAILED_CWD);
    int listener = -1;
    if (request->ordering == ORDERING_EXACT)
        listener = filter_install(ids, true);
    if (listener < 0 && filter_install(ids, false) < 0)
        give_up(status, FAILED_SETUP);
    if (listener >= 0) {
        send_report(status, (struct report){FAILED_NOT, 0}, listener);
        close(listener);
    }
    execute(request);
    give_up(status, FAILED_EXEC);
}

/* O_PATH needs no read permission. ELOOP stands for "not canonical". */
static int open_directory(const char *path)
{
    char link[64], actual[PATH_MAX];
    int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, actual, sizeof actual);
    if (n == (ssize_t)strlen(path) && memcmp(actual, path, (size_t)n) == 0)
        return fd;
    close(fd);
    errno = ELOOP;
    return -1;
}

static int script_file(const struct request *request)
{
    int fd = memfd_create("script", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
    if (fd < 0) /* before Linux 6.3 */
        fd = memfd_create("script", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -1;
    size_t written = 0;
    while (written < request->script_length) {
        ssize_t n = write(fd, request->script + written, request->script_length - written);
        if (n <= 0)
            return -1;
        written += (size_t)n;
    }
    lseek(fd, 0, SEEK_SET);
    return fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) ? -1
                                                                                          : fd;
}

/* A pipe of which the init's end does not block. `ours` is 0 to keep the reading end, else 1. */
static int pipe_for_child(int ours, int *kept)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC))
        return -1;
    if (fcntl(ends[ours], F_SETFL, O_NONBLOCK))
        return -1;
    *kept = ends[ours];
    return ends[1 - ours];
}

/* Waits until the command's program runs, or says why it does not. */
static void receive_reports(int status, struct child *child)
{
    for (;;) {
        struct report report;
        union {
            struct cmsghdr header;
            char space[CMSG_SPACE(sizeof(int))];
        } control;
        struct iovec vector = {&report, sizeof report};
        struct msghdr message = {.msg_iov = &vector,
                                 .msg_iovlen = 1,
                                 .msg_control = &control,
                                 .msg_controllen = sizeof control};
        ssize_t n = recvmsg(status, &message, MSG_CMSG_CLOEXEC);
        if (n == 0)
            return;
        if (n != (ssize_t)sizeof report)
            broken();
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        if (header && header->cmsg_type == SCM_RIGHTS)
            memcpy(&child->listener, CMSG_DATA(header), sizeof child->listener);
        if (report.failure != FAILED_NOT) {
            child->failure = report.failure;
            child->error_number = report.error_number;
        }
    }
}

static void fail(struct child *child, enum failure failure)
{
    child->failure = failure;
    child->error_number = errno;
}

void spawn(const struct request *request, const struct protected_ids *ids, struct child *child)
{
    int sockets[2];
    *child = (struct child){.input = -1, .output = -1, .error = -1, .listener = -1};
    struct parts parts = {.script = -1, .directory = open_directory(request->cwd)};
    if (parts.directory < 0) {
        fail(child, FAILED_CWD);
        return;
    }
    parts.input = request->stdin_open ? pipe_for_child(1, &child->input)
                                      : open("/dev/null", O_RDONLY | O_CLOEXEC);
    parts.output = pipe_for_child(0, &child->output);
    parts.error = pipe_for_child(0, &child->error);
    if (request->has_script)
        parts.script = script_file(request);
    if (parts.input < 0 || parts.output < 0 || parts.error < 0 ||
        (request->has_script && parts.script < 0) ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets)) {
        fail(child, FAILED_SETUP);
        return;
    }
    parts.status = sockets[1];
    child->pid = fork();
    if (child->pid == 0)
        become_command(request, &parts, ids);
    if (child->pid < 0) {
        child->pid = 0;
        fail(child, FAILED_SETUP);
        return;
    }
    const int theirs[] = {parts.input, parts.output, parts.error, parts.directory, parts.status};
    for (size_t i = 0; i < sizeof theirs / sizeof *theirs; i++)
        close(theirs[i]);
    if (parts.script >= 0)
        close(parts.script);
    receive_reports(sockets[0], child);
    close(sockets[0]);
}
