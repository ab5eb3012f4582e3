#include "record.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>

struct lines {
    char text[2048];
    size_t length;
};

__attribute__((format(printf, 2, 3))) static void line(struct lines *lines, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(lines->text + lines->length, sizeof lines->text - lines->length, format,
                      arguments);
    va_end(arguments);
    if (n < 0 || (size_t)n >= sizeof lines->text - lines->length)
        broken();
    lines->length += (size_t)n;
}

static void kind_lines(struct lines *lines, const struct ending *ending)
{
    static const char *const failures[] = {[FAILED_CWD] = "cwd_failed",
                                           [FAILED_EXEC] = "exec_failed",
                                           [FAILED_SETUP] = "setup_failed"};
    if (ending->failure != FAILED_NOT)
        line(lines, "kind=%s\nerrno=%d\n", failures[ending->failure], ending->error_number);
    else if (ending->deadline)
        line(lines, "kind=deadline\n");
    else if (WIFSIGNALED(ending->status))
        line(lines, "kind=signaled\nsignal=%d\ncore=%d\n", WTERMSIG(ending->status),
             WCOREDUMP(ending->status) ? 1 : 0);
    else
        line(lines, "kind=exited\ncode=%d\n", WEXITSTATUS(ending->status));
}

static void counter_line(struct lines *lines, const char *name, int fd, const char *key)
{
    uint64_t value;
    if (counter_read(fd, key, &value) && value <= INT64_MAX)
        line(lines, "%s=%" PRIu64 "\n", name, value);
}

static int64_t microseconds(struct timeval time)
{
    return (int64_t)time.tv_sec * 1000000 + time.tv_usec;
}

bool record_put(struct queue *queue, const struct ending *ending, const struct counters *counters)
{
    struct lines lines = {.length = 0};
    struct rusage usage = {0};
    if (getrusage(RUSAGE_CHILDREN, &usage))
        broken();
    kind_lines(&lines, ending);
    line(&lines, "elapsed_us=%" PRId64 "\nutime_us=%" PRId64 "\nstime_us=%" PRId64 "\n",
         ending->elapsed_us, microseconds(usage.ru_utime), microseconds(usage.ru_stime));
    line(&lines, "maxrss_kb=%ld\nleftover=%" PRIu64 "\n", usage.ru_maxrss, ending->leftover);
    counter_line(&lines, "peak_memory", counters->peak_memory, "");
    counter_line(&lines, "peak_pids", counters->peak_pids, "");
    counter_line(&lines, "oom_kills", counters->oom_kills, "oom_kill");
    line(&lines, "ordering=%s\n", ending->exact ? "exact" : "arrival");
    if (ending->exact)
        line(&lines, "notifications=%" PRIu64 "\nnotify_cancelled=%" PRIu64 "\nunguarded=%" PRIu64
                     "\n",
             ending->notifications, ending->cancelled, ending->unguarded);
    return queue_put(queue, FRAME_EXIT, lines.text, lines.length);
}
