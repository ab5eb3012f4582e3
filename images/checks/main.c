/* Tries from inside what a sandbox promises to prevent, and reports what became of it.
 *
 * stdin: one attempt a line, "TIMEOUT_MS<TAB>VERB<TAB>ARGUMENT…". stdout: one JSON object for each,
 * in order, and a last one with their number. Every attempt runs in a process of its own, so that
 * one that is killed, hangs or changes itself does not end the others. Nothing is judged here.
 *
 * It is meant to be harmless also where nothing is prevented: calls are made with arguments that
 * change nothing, whatever is made is removed, and resources are taken up to a bound and given back.
 */
#include "attempt.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_REQUEST = 1024 * 1024, FIRST_TIMEOUT_MS = 10000 };

static char request[MAX_REQUEST + 1];
static char descriptors[16384];
static bool parent_is_init;

void answer_result(struct answer *answer, int64_t result)
{
    answer->value = result;
    answer->error = result < 0 ? errno : 0;
}

void answer_bytes(struct answer *answer, const void *bytes, size_t length)
{
    if (length > MAX_TEXT - answer->length) {
        answer->cut = 1;
        length = MAX_TEXT - answer->length;
    }
    memcpy(answer->text + answer->length, bytes, length);
    answer->length += (uint32_t)length;
}

void answer_text(struct answer *answer, const char *format, ...)
{
    char line[4096];
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (n > 0)
        answer_bytes(answer, line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
}

bool init_is_ours(void)
{
    return parent_is_init;
}

int64_t number(const char *text)
{
    return strtoll(text, NULL, 0);
}

const char *inherited_descriptors(void)
{
    return descriptors;
}

static void list_descriptors(void)
{
    DIR *directory = opendir("/proc/self/fd");
    size_t used = 0;
    if (!directory)
        return;
    for (struct dirent *entry; (entry = readdir(directory));) {
        char target[1024];
        struct stat found;
        int fd = atoi(entry->d_name);
        if (entry->d_name[0] == '.' || fd == dirfd(directory))
            continue;
        ssize_t n = readlinkat(dirfd(directory), entry->d_name, target, sizeof target - 1);
        target[n < 0 ? 0 : n] = 0;
        const char *kind = fstat(fd, &found)            ? "gone"
                           : S_ISDIR(found.st_mode)     ? "directory"
                           : S_ISREG(found.st_mode)     ? "file"
                           : S_ISFIFO(found.st_mode)    ? "pipe"
                           : S_ISSOCK(found.st_mode)    ? "socket"
                           : S_ISCHR(found.st_mode)     ? "device"
                                                        : "other";
        int length = snprintf(descriptors + used, sizeof descriptors - used, "%d %s %s\n", fd, kind,
                              target);
        if (length > 0 && used + (size_t)length < sizeof descriptors)
            used += (size_t)length;
    }
    closedir(directory);
}

static const struct verb *find_verb(const char *name)
{
    const struct verb *const tables[] = {call_verbs,    file_verbs,     foreign_verbs, network_verbs,
                                         process_verbs, resource_verbs, walk_verbs};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        for (const struct verb *verb = tables[i]; verb->name; verb++)
            if (strcmp(verb->name, name) == 0)
                return verb;
    return NULL;
}

static void print_text(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)text[i];
        if (byte == '"' || byte == '\\')
            printf("\\%c", byte);
        else if (byte == '\n')
            fputs("\\n", stdout);
        else if (byte < 0x20 || byte >= 0x7f)
            printf("\\u%04x", byte); /* a byte as a character of Latin-1 */
        else
            putchar(byte);
    }
}

static void print_answer(long index, const struct answer *answer, const char *end)
{
    printf("{\"n\":%ld,\"end\":\"%s\",\"value\":%lld,\"errno\":%d,\"cut\":%s,\"text\":\"", index, end,
           (long long)answer->value, answer->error, answer->cut ? "true" : "false");
    print_text(answer->text, answer->length);
    puts("\"}");
    fflush(stdout);
}

static int64_t now_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

/* Waits for the child's one byte; "done" when it came. */
static const char *await(int done, pid_t child, int64_t timeout_ms, char *space, size_t size)
{
    int64_t deadline = now_ms() + timeout_ms;
    struct pollfd fds = {.fd = done, .events = POLLIN};
    char byte;
    int status;
    while (poll(&fds, 1, (int)(deadline > now_ms() ? deadline - now_ms() : 0)) < 0 && errno == EINTR)
        ;
    bool finished = (fds.revents & POLLIN) && read(done, &byte, 1) == 1;
    bool hung = !finished && !(fds.revents & POLLHUP);
    if (hung)
        kill(child, SIGKILL);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (finished)
        return "done";
    if (hung)
        return "timeout";
    if (WIFSIGNALED(status))
        snprintf(space, size, "signal %d", WTERMSIG(status));
    else
        snprintf(space, size, "exit %d", WEXITSTATUS(status));
    return space;
}

static void try_verb(long index, const struct verb *verb, char **arguments, int64_t timeout_ms,
                     struct answer *answer)
{
    int done[2];
    char space[32];
    answer->value = -1;
    answer->error = 0;
    answer->cut = answer->length = 0;
    fflush(stdout);
    if (pipe2(done, 02000000 /* O_CLOEXEC */)) {
        print_answer(index, answer, "no pipe");
        return;
    }
    pid_t child = fork();
    if (child == 0) {
        close(done[0]);
        verb->run(answer, arguments);
        _exit(write(done[1], "", 1) == 1 ? 0 : 1);
    }
    close(done[1]);
    print_answer(index, answer,
                 child < 0 ? "no process" : await(done[0], child, timeout_ms, space, sizeof space));
    close(done[0]);
}

static void try_line(long index, char *line, struct answer *answer)
{
    char *fields[MAX_ARGUMENTS + 3] = {0};
    int count = 0;
    for (char *field; count < MAX_ARGUMENTS + 2 && (field = strsep(&line, "\t"));)
        fields[count++] = field;
    const struct verb *verb = count < 2 ? NULL : find_verb(fields[1]);
    if (!verb || count - 2 < verb->arguments) {
        answer->value = -1;
        answer->error = ENOSYS;
        answer->cut = answer->length = 0;
        print_answer(index, answer, "unknown");
        return;
    }
    int64_t timeout_ms = number(fields[0]);
    try_verb(index, verb, fields + 2, timeout_ms > 0 ? timeout_ms : FIRST_TIMEOUT_MS, answer);
}

int main(void)
{
    list_descriptors();
    parent_is_init = getppid() == 1 || getpid() == 1;
    size_t length = 0;
    ssize_t n;
    while (length < MAX_REQUEST && (n = read(0, request + length, MAX_REQUEST - length)) > 0)
        length += (size_t)n;
    request[length] = 0;
    /* Shared with the children, which write their answers into it. */
    struct answer *answer = mmap(NULL, sizeof *answer, PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (answer == MAP_FAILED)
        return 1;
    long index = 0;
    char *rest = request;
    for (char *line; (line = strsep(&rest, "\n"));)
        if (*line)
            try_line(index++, line, answer);
    printf("{\"attempts\":%ld}\n", index);
    return fflush(stdout) ? 1 : 0;
}
