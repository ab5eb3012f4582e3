#include "posture.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "order.h"

extern char **environ;

/* A frame's payload being written; `full` once something did not fit. */
struct writer {
    uint8_t *bytes;
    size_t length;
    size_t section; /* where the length of the open section is */
    bool full;
};

static void put(struct writer *writer, const void *data, size_t length)
{
    if (writer->full || length > MAX_POSTURE - writer->length) {
        writer->full = true;
        return;
    }
    memcpy(writer->bytes + writer->length, data, length);
    writer->length += length;
}

static void section_begin(struct writer *writer, const char *name)
{
    put(writer, name, strlen(name) + 1);
    writer->section = writer->length;
    put(writer, "\0\0\0\0", 4);
}

static void section_end(struct writer *writer)
{
    if (writer->full)
        return;
    size_t length = writer->length - writer->section - 4;
    for (unsigned i = 0; i < 4; i++)
        writer->bytes[writer->section + i] = (uint8_t)(length >> 8 * i);
}

static void put_file(struct writer *writer, int fd)
{
    uint8_t part[4096];
    ssize_t n;
    while ((n = read(fd, part, sizeof part)) > 0)
        put(writer, part, (size_t)n);
    if (n < 0)
        writer->full = true;
}

static bool section_of_file(struct writer *writer, const char *name, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    section_begin(writer, name);
    put_file(writer, fd);
    section_end(writer);
    close(fd);
    return true;
}

static void put_fdinfo_flags(struct writer *writer, const char *number)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/self/fdinfo/%.20s", number);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    if (n < 0)
        n = 0;
    text[n] = 0;
    const char *flags = strstr(text, "flags:\t");
    if (flags)
        put(writer, flags + 7, strspn(flags + 7, "01234567"));
    put(writer, "", 1);
}

static bool section_of_descriptors(struct writer *writer)
{
    DIR *directory = opendir("/proc/self/fd");
    if (!directory)
        return false;
    section_begin(writer, "fds");
    for (struct dirent *entry; (entry = readdir(directory));) {
        char target[4096];
        if (entry->d_name[0] == '.' || atoi(entry->d_name) == dirfd(directory))
            continue;
        ssize_t n = readlinkat(dirfd(directory), entry->d_name, target, sizeof target);
        put(writer, entry->d_name, strlen(entry->d_name) + 1);
        put(writer, target, n < 0 ? 0 : (size_t)n);
        put(writer, "", 1);
        put_fdinfo_flags(writer, entry->d_name);
    }
    section_end(writer);
    closedir(directory);
    return true;
}

static void section_of_text(struct writer *writer, const char *name, const char *text)
{
    section_begin(writer, name);
    put(writer, text, strlen(text));
    section_end(writer);
}

static void section_of_env_names(struct writer *writer)
{
    section_begin(writer, "env");
    for (char **entry = environ; *entry; entry++) {
        put(writer, *entry, strcspn(*entry, "="));
        put(writer, "", 1);
    }
    section_end(writer);
}

static void sections_of_identity(struct writer *writer)
{
    char text[5 * sizeof(struct utsname)];
    struct utsname name = {0};
    uid_t uids[3] = {0};
    gid_t gids[3] = {0};
    if (uname(&name) || getresuid(uids, uids + 1, uids + 2) || getresgid(gids, gids + 1, gids + 2))
        writer->full = true;
    snprintf(text, sizeof text, "%u %u %u %u %u %u\n", uids[0], uids[1], uids[2], gids[0], gids[1],
             gids[2]);
    section_of_text(writer, "uids", text);
    snprintf(text, sizeof text, "%s\n%s\n%s\n%s\n", name.sysname, name.release, name.version,
             name.machine);
    section_of_text(writer, "uname", text);
    section_of_text(writer, "hostname", name.nodename);
    snprintf(text, sizeof text, "version=%s\nuser_notification=%d\n", INIT_VERSION,
             notification_possible());
    section_of_text(writer, "init", text);
}

static void sections_of_cgroup(struct writer *writer)
{
    static const char *const files[][2] = {
        {"cgroup.memory.limit", "/sys/fs/cgroup/memory/memory.limit_in_bytes"},
        {"cgroup.memory.memsw", "/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes"},
        {"cgroup.cpu.quota", "/sys/fs/cgroup/cpu/cpu.cfs_quota_us"},
        {"cgroup.cpu.period", "/sys/fs/cgroup/cpu/cpu.cfs_period_us"},
        {"cgroup.pids.max", "/sys/fs/cgroup/pids/pids.max"},
        {"cgroup.memory.max", "/sys/fs/cgroup/memory.max"},
        {"cgroup.memory.swap", "/sys/fs/cgroup/memory.swap.max"},
        {"cgroup.cpu.max", "/sys/fs/cgroup/cpu.max"},
        {"cgroup.pids.max", "/sys/fs/cgroup/pids.max"},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        section_of_file(writer, files[i][0], files[i][1]);
}

/* Calls that do nothing with these arguments, and what became of them: that there is a filter is in
   the status, but whose it is can only be seen by trying. */
static void section_of_calls(struct writer *writer)
{
    static const struct {
        const char *name;
        long number, arguments[3];
    } calls[] = {
        {"unshare", SYS_unshare, {0}},
        {"keyctl", SYS_keyctl, {0, -1, 0}}, /* the id of a thread keyring that need not exist */
        {"clone3", SYS_clone3, {0, 0}},
        {"io_uring_setup", SYS_io_uring_setup, {0, 0}},
        {"vsock", SYS_socket, {AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC, 0}},
    };
    char line[64];
    section_begin(writer, "calls");
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        const long *argument = calls[i].arguments;
        long result = syscall(calls[i].number, argument[0], argument[1], argument[2]);
        int fault = result < 0 ? errno : 0;
        if (result >= 0 && calls[i].number == SYS_socket)
            close((int)result);
        int length = snprintf(line, sizeof line, "%s=%d\n", calls[i].name, fault);
        put(writer, line, (size_t)length);
    }
    section_end(writer);
}

const char *posture_report(struct queue *queue)
{
    struct writer writer = {.bytes = queue_reserve(queue, MAX_POSTURE)};
    if (!writer.bytes)
        return "the queue is not empty";
    if (!section_of_descriptors(&writer))
        return "the descriptors cannot be listed";
    if (!section_of_file(&writer, "status", "/proc/self/status") ||
        !section_of_file(&writer, "mountinfo", "/proc/self/mountinfo") ||
        !section_of_file(&writer, "limits", "/proc/self/limits") ||
        !section_of_file(&writer, "cgroup", "/proc/self/cgroup"))
        return "/proc cannot be read";
    sections_of_cgroup(&writer);
    sections_of_identity(&writer);
    section_of_env_names(&writer);
    section_of_calls(&writer);
    if (writer.full)
        return "the posture cannot be read or is too large";
    queue_commit(queue, FRAME_POSTURE, writer.length);
    return NULL;
}

static int open_first(const char *one, const char *other)
{
    int fd = open(one, O_RDONLY | O_CLOEXEC);
    return fd < 0 && other ? open(other, O_RDONLY | O_CLOEXEC) : fd;
}

void counters_open(struct counters *counters)
{
    counters->peak_memory = open_first("/sys/fs/cgroup/memory/memory.max_usage_in_bytes",
                                       "/sys/fs/cgroup/memory.peak");
    counters->oom_kills = open_first("/sys/fs/cgroup/memory/memory.oom_control",
                                     "/sys/fs/cgroup/memory.events");
    counters->peak_pids = open_first("/sys/fs/cgroup/pids.peak", NULL);
}

bool counter_read(int fd, const char *key, uint64_t *value)
{
    char text[1024];
    ssize_t n = fd < 0 ? -1 : pread(fd, text, sizeof text - 1, 0);
    if (n <= 0)
        return false;
    text[n] = 0;
    char *at = text;
    size_t length = strlen(key);
    while (length && !(strncmp(at, key, length) == 0 && at[length] == ' ')) {
        at = strchr(at, '\n');
        if (!at)
            return false;
        at++;
    }
    at += length + (length > 0);
    if (*at < '0' || *at > '9')
        return false;
    errno = 0;
    *value = strtoull(at, NULL, 10);
    return errno == 0;
}

bool notification_possible(void)
{
    /* Flags are checked before the program is read: EFAULT says that all of them are known. */
    long result = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, NOTIFY_FILTER_FLAGS, NULL);
    return result < 0 && errno == EFAULT;
}
