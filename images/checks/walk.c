/* Looks at every file there is, and for a token wherever it could have been left. */
#include "attempt.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { MAX_DEPTH = 64, MAX_ENTRIES = 2000000, SMALL_FILE = 65536, PATH_SIZE = 4096 };

struct walk {
    struct answer *answer;
    const char *token; /* NULL to look at kinds, else what to look for in content */
    char path[PATH_SIZE];
    long entries;
};

/* Where nothing but the kernel's own and the image's programs are. */
static bool left_out(const struct walk *walk)
{
    static const char *const always[] = {"/proc", "/sys"};
    static const char *const programs[] = {"/usr", "/lib", "/lib64", "/bin", "/sbin"};
    for (size_t i = 0; i < sizeof always / sizeof *always; i++)
        if (strcmp(walk->path, always[i]) == 0)
            return true;
    for (size_t i = 0; walk->token && i < sizeof programs / sizeof *programs; i++)
        if (strcmp(walk->path, programs[i]) == 0)
            return true;
    return false;
}

static bool named_like_a_secret(const char *path)
{
    static const char *const patterns[] = {
        "*/.ssh/id_*",         "*/.aws/credentials",      "*/.netrc",           "*/.pgpass",
        "*/.docker/config.json", "*/.kube/config",        "*/.npmrc",           "*/.pypirc",
        "*/.git-credentials",  "*/.config/gcloud/*",      "*/.azure/*",         "*/.vault-token",
        "*/.bash_history",     "*/.python_history",       "*/.config/gh/*",     "*/.gnupg/*",
        "/run/secrets/*",      "/var/run/secrets/*",      "/etc/ssh/ssh_host_*_key",
        "/root/*",
    };
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        if (fnmatch(patterns[i], path, 0) == 0)
            return true;
    return false;
}

static bool contains(const char *data, size_t length, const char *token)
{
    return memmem(data, length, token, strlen(token)) != NULL;
}

static bool file_contains(const char *path, const char *token)
{
    static char data[SMALL_FILE];
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, data, sizeof data);
    if (fd >= 0)
        close(fd);
    return n > 0 && contains(data, (size_t)n, token);
}

static void report(struct walk *walk, const char *kind, const struct stat *found)
{
    answer_text(walk->answer, "%s\t%s\t%o\t%u\t%u:%u\n", kind, walk->path, found->st_mode & 07777,
                found->st_uid, major(found->st_rdev), minor(found->st_rdev));
    walk->answer->value++;
}

static void look_at(struct walk *walk, const struct stat *found)
{
    char capability[32];
    if (walk->token) {
        if (contains(walk->path, strlen(walk->path), walk->token) ||
            (S_ISREG(found->st_mode) && file_contains(walk->path, walk->token)))
            report(walk, "token", found);
        return;
    }
    if (S_ISSOCK(found->st_mode))
        report(walk, "socket", found);
    if (S_ISCHR(found->st_mode) || S_ISBLK(found->st_mode))
        report(walk, S_ISBLK(found->st_mode) ? "block" : "character", found);
    if (S_ISREG(found->st_mode) && (found->st_mode & (S_ISUID | S_ISGID)))
        report(walk, "setid", found);
    if (S_ISREG(found->st_mode) &&
        lgetxattr(walk->path, "security.capability", capability, sizeof capability) > 0)
        report(walk, "capability", found);
    if (!S_ISDIR(found->st_mode) && named_like_a_secret(walk->path) &&
        access(walk->path, R_OK) == 0)
        report(walk, "secret", found);
    /* What is in a writable directory needs no mention of its own. */
    if (!S_ISLNK(found->st_mode) && access(walk->path, W_OK) == 0) {
        char *slash = strrchr(walk->path, '/');
        *slash = 0;
        bool above = access(walk->path[0] ? walk->path : "/", W_OK) == 0;
        *slash = '/';
        if (!above && (S_ISDIR(found->st_mode) || S_ISREG(found->st_mode)))
            report(walk, S_ISDIR(found->st_mode) ? "writable-directory" : "writable-file", found);
    }
}

static void descend(struct walk *walk, int depth)
{
    size_t length = strlen(walk->path);
    DIR *directory = opendir(length ? walk->path : "/");
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        struct stat found;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            length + strlen(entry->d_name) + 2 > PATH_SIZE || walk->entries++ > MAX_ENTRIES)
            continue;
        snprintf(walk->path + length, PATH_SIZE - length, "/%s", entry->d_name);
        if (!left_out(walk) && lstat(walk->path, &found) == 0) {
            look_at(walk, &found);
            if (S_ISDIR(found.st_mode) && depth < MAX_DEPTH)
                descend(walk, depth + 1);
        }
        walk->path[length] = 0;
    }
    if (directory)
        closedir(directory);
}

static void walk_kinds(struct answer *answer, char **arguments)
{
    (void)arguments;
    static struct walk walk;
    walk.answer = answer;
    answer->value = answer->error = 0;
    if (access("/", W_OK) == 0)
        answer_text(answer, "writable-directory\t/\t0\t0\t0:0\n");
    descend(&walk, 0);
}

static void scan_processes(struct answer *answer, const char *token)
{
    static const char *const files[] = {"environ", "cmdline", "comm", "mountinfo", "cgroup"};
    DIR *directory = opendir("/proc");
    for (struct dirent *entry; directory && (entry = readdir(directory));)
        for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
            char path[512];
            if (entry->d_name[0] < '0' || entry->d_name[0] > '9')
                continue;
            snprintf(path, sizeof path, "/proc/%s/%s", entry->d_name, files[i]);
            if (file_contains(path, token)) {
                answer_text(answer, "token\t%s\n", path);
                answer->value++;
            }
        }
    if (directory)
        closedir(directory);
}

/* scan TOKEN: in the environment and command line of every process, in names, in small files. */
static void walk_token(struct answer *answer, char **arguments)
{
    static struct walk walk;
    walk.answer = answer;
    walk.token = arguments[0];
    answer->value = answer->error = 0;
    scan_processes(answer, arguments[0]);
    descend(&walk, 0);
}

static bool anything_readable(char *path, int depth)
{
    struct stat found;
    size_t length = strlen(path);
    bool yes = false;
    if (lstat(path, &found))
        return false;
    if (S_ISREG(found.st_mode)) {
        char byte;
        int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        /* In /sys reading may mean doing something, so there opening says enough. */
        bool sys = strncmp(path, "/sys/", 5) == 0;
        yes = fd >= 0 && (sys || read(fd, &byte, 1) == 1);
        if (fd >= 0)
            close(fd);
        return yes;
    }
    DIR *directory = S_ISDIR(found.st_mode) && depth < MAX_DEPTH ? opendir(path) : NULL;
    for (struct dirent *entry; directory && !yes && (entry = readdir(directory));) {
        if (entry->d_name[0] == '.' || length + strlen(entry->d_name) + 2 > PATH_SIZE)
            continue;
        snprintf(path + length, PATH_SIZE - length, "/%s", entry->d_name);
        yes = anything_readable(path, depth + 1);
        path[length] = 0;
    }
    if (directory)
        closedir(directory);
    return yes;
}

static void name_readable(struct answer *answer, const char *parent, bool skip_numbers)
{
    DIR *directory = opendir(parent);
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        char path[PATH_SIZE];
        bool number = entry->d_name[0] >= '0' && entry->d_name[0] <= '9';
        if (entry->d_name[0] == '.' || (skip_numbers && number))
            continue;
        snprintf(path, sizeof path, "%s/%s", parent, entry->d_name);
        if (strcmp(path, "/sys/devices/virtual") == 0)
            name_readable(answer, path, false);
        else if (anything_readable(path, 0)) {
            answer_text(answer, "%s\n", path);
            answer->value++;
        }
    }
    if (directory)
        closedir(directory);
}

/* Everything of the kernel's that can be read, by its place: /proc/X, /sys/X/Y, and a level deeper
 * for what has no device. Links in /sys are not followed: what they lead to has a place of its own. */
static void walk_visible(struct answer *answer, char **arguments)
{
    (void)arguments;
    answer->value = answer->error = 0;
    name_readable(answer, "/proc", true);
    DIR *directory = opendir("/sys");
    for (struct dirent *entry; directory && (entry = readdir(directory));)
        if (entry->d_name[0] != '.') {
            char path[PATH_SIZE];
            snprintf(path, sizeof path, "/sys/%s", entry->d_name);
            name_readable(answer, path, false);
        }
    if (directory)
        closedir(directory);
}

const struct verb walk_verbs[] = {
    {"walk", 0, walk_kinds}, {"scan", 1, walk_token}, {"visible", 0, walk_visible}, {0}};
