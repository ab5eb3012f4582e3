/* Files, directories, mounts and devices. Nothing that exists is changed. */
#include "attempt.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { QUIET = O_NONBLOCK | O_NOCTTY | O_CLOEXEC };

static void file_read(struct answer *answer, char **arguments)
{
    static char part[65536];
    int fd = open(arguments[0], O_RDONLY | QUIET);
    answer_result(answer, fd);
    ssize_t n = 0;
    while (fd >= 0 && !answer->cut && (n = read(fd, part, sizeof part)) > 0)
        answer_bytes(answer, part, (size_t)n);
    answer_result(answer, fd < 0 ? fd : n < 0 ? n : (int64_t)answer->length);
}

/* Only opens: for writing without truncating, so that success changes nothing. */
static void file_open(struct answer *answer, char **arguments)
{
    int mode = arguments[1][0] == 'w' ? O_WRONLY : arguments[1][0] == 'b' ? O_RDWR : O_RDONLY;
    answer_result(answer, open(arguments[0], mode | QUIET));
}

static void made_name(char *name, size_t size, const char *directory)
{
    snprintf(name, size, "%s/.sandboxrun-probe-%d", directory, (int)getpid());
}

static void file_create(struct answer *answer, char **arguments)
{
    char name[4096];
    made_name(name, sizeof name, arguments[0]);
    int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    answer_result(answer, fd);
    if (fd >= 0)
        unlink(name);
}

static void file_mkdir(struct answer *answer, char **arguments)
{
    char name[4096];
    made_name(name, sizeof name, arguments[0]);
    answer_result(answer, mkdir(name, 0700));
    if (answer->error == 0)
        rmdir(name);
}

static void file_list(struct answer *answer, char **arguments)
{
    DIR *directory = opendir(arguments[0]);
    int64_t count = 0;
    answer_result(answer, directory ? 0 : -1);
    if (!directory)
        return;
    for (struct dirent *entry; (entry = readdir(directory));)
        if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..")) {
            answer_text(answer, "%s\n", entry->d_name);
            count++;
        }
    answer->value = count;
}

static void file_stat(struct answer *answer, char **arguments)
{
    struct stat found;
    answer_result(answer, stat(arguments[0], &found));
    if (answer->error == 0)
        answer_text(answer, "mode=%o uid=%u gid=%u dev=%u:%u rdev=%u:%u size=%lld ino=%llu",
                    found.st_mode, found.st_uid, found.st_gid, major(found.st_dev),
                    minor(found.st_dev), major(found.st_rdev), minor(found.st_rdev),
                    (long long)found.st_size, (unsigned long long)found.st_ino);
}

static void file_readlink(struct answer *answer, char **arguments)
{
    char target[4096];
    ssize_t n = readlink(arguments[0], target, sizeof target);
    answer_result(answer, n);
    if (n > 0)
        answer_bytes(answer, target, (size_t)n);
}

static void file_statvfs(struct answer *answer, char **arguments)
{
    struct statvfs found;
    answer_result(answer, statvfs(arguments[0], &found));
    if (answer->error == 0)
        answer_text(answer, "bytes=%llu free=%llu files=%llu flags=%lu",
                    (unsigned long long)found.f_blocks * found.f_frsize,
                    (unsigned long long)found.f_bavail * found.f_frsize,
                    (unsigned long long)found.f_files, found.f_flag);
}

/* mknod DIRECTORY c|b MAJOR MINOR: the node is useless if it cannot be opened. */
static void file_mknod(struct answer *answer, char **arguments)
{
    char name[4096];
    made_name(name, sizeof name, arguments[0]);
    mode_t kind = arguments[1][0] == 'b' ? S_IFBLK : S_IFCHR;
    dev_t device = makedev((unsigned)number(arguments[2]), (unsigned)number(arguments[3]));
    int result = mknod(name, kind | 0600, device);
    answer_result(answer, result);
    if (result)
        return;
    int fd = open(name, O_RDONLY | QUIET);
    answer_result(answer, fd);
    answer_text(answer, "made");
    unlink(name);
}

static void file_chown(struct answer *answer, char **arguments)
{
    char name[4096];
    made_name(name, sizeof name, arguments[0]);
    int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    answer_result(answer, fd < 0 ? fd : fchown(fd, (uid_t)number(arguments[1]), (gid_t)-1));
    if (fd >= 0)
        unlink(name);
}

static void file_capability(struct answer *answer, char **arguments)
{
    /* struct vfs_cap_data, revision 2: CAP_NET_RAW permitted and effective. */
    static const unsigned char raw[20] = {1, 0, 0, 2, 0, 0x20};
    char name[4096];
    made_name(name, sizeof name, arguments[0]);
    int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
    answer_result(answer, fd < 0 ? fd : fsetxattr(fd, "security.capability", raw, sizeof raw, 0));
    if (fd >= 0)
        unlink(name);
}

static void file_xattr(struct answer *answer, char **arguments)
{
    char name[4096];
    made_name(name, sizeof name, arguments[0]);
    int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
    answer_result(answer, fd < 0 ? fd : fsetxattr(fd, arguments[1], "y", 1, 0));
    if (fd >= 0)
        unlink(name);
}

/* Really mounts, where it can, and unmounts at once. */
static void file_mount(struct answer *answer, char **arguments)
{
    char name[4096];
    made_name(name, sizeof name, arguments[0]);
    mkdir(name, 0700);
    answer_result(answer, mount("none", name, arguments[1], MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL));
    if (answer->error == 0)
        umount2(name, MNT_DETACH);
    rmdir(name);
}

/* Makes a mount writable, as far as it is allowed to, and gives it its flags back. */
static void file_remount(struct answer *answer, char **arguments)
{
    struct statvfs before;
    unsigned long flags = MS_REMOUNT | MS_BIND;
    answer_result(answer, statvfs(arguments[0], &before));
    if (answer->error)
        return;
    answer_result(answer, mount(NULL, arguments[0], NULL, flags, NULL));
    if (answer->error == 0) /* the flags of statvfs and of mount have the same numbers */
        mount(NULL, arguments[0], NULL, flags | (before.f_flag & 15), NULL);
}

/* Follows ".." beyond the root, directly and through /proc/self/root: names what is there. */
static void file_above(struct answer *answer, char **arguments)
{
    (void)arguments;
    struct stat root, above;
    static const char *const ways[] = {"/../../../../../..", "/proc/self/root/../../..",
                                       "/proc/self/cwd/../../../../../../../.."};
    int64_t out = 0;
    answer_result(answer, stat("/", &root));
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (stat(ways[i], &above) == 0 && (above.st_dev != root.st_dev || above.st_ino != root.st_ino)) {
            answer_text(answer, "%s\n", ways[i]);
            out++;
        }
    answer->value = out;
}

static void file_descriptors(struct answer *answer, char **arguments)
{
    (void)arguments;
    answer_text(answer, "%s", inherited_descriptors());
    answer->value = answer->length;
}

static void file_cwd(struct answer *answer, char **arguments)
{
    (void)arguments;
    char name[4096];
    char *found = getcwd(name, sizeof name);
    answer_result(answer, found ? 0 : -1);
    answer_text(answer, "%s", found ? found : "");
}

/* A program on a mount for data; also through the loader and through /proc/self/fd. */
static void file_execute(struct answer *answer, char **arguments)
{
    char name[4096], part[65536];
    made_name(name, sizeof name, arguments[0]);
    int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    int to = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
    answer_result(answer, to);
    for (ssize_t n; to >= 0 && (n = read(from, part, sizeof part)) > 0;)
        if (write(to, part, (size_t)n) != n)
            break;
    if (to < 0)
        return;
    close(to);
    answer_result(answer, access(name, X_OK));
    unlink(name);
}

const struct verb file_verbs[] = {
    {"read", 1, file_read},
    {"open", 2, file_open},
    {"create", 1, file_create},
    {"mkdir", 1, file_mkdir},
    {"list", 1, file_list},
    {"stat", 1, file_stat},
    {"readlink", 1, file_readlink},
    {"statvfs", 1, file_statvfs},
    {"mknod", 4, file_mknod},
    {"chown", 2, file_chown},
    {"capability", 1, file_capability},
    {"xattr", 2, file_xattr},
    {"mount", 2, file_mount},
    {"remount", 1, file_remount},
    {"above", 0, file_above},
    {"descriptors", 0, file_descriptors},
    {"cwd", 0, file_cwd},
    {"execute", 1, file_execute},
    {0},
};
