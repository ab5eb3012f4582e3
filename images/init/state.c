#include "state.h"

#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void broken(void)
{
    _exit(EXIT_BROKEN);
}

int64_t now_us(void)
{
    struct timespec time;
    if (clock_gettime(CLOCK_MONOTONIC, &time))
        broken();
    return (int64_t)time.tv_sec * 1000000 + time.tv_nsec / 1000;
}

int wait_for(struct pollfd *fds, nfds_t count, int timeout_ms)
{
    int n = poll(fds, count, timeout_ms);
    if (n < 0 && errno != EINTR)
        broken();
    return n < 0 ? 0 : n;
}

void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

void deliver(struct init *init, int timeout_ms)
{
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
    while (queue_used(&init->relay.queue)) {
        if (!queue_flush(&init->relay.queue, STDOUT_FILENO))
            broken();
        if (queue_used(&init->relay.queue) && !wait_for(&out, 1, timeout_ms) && timeout_ms >= 0)
            return;
    }
}

void fatal(struct init *init, const char *text)
{
    pthread_mutex_lock(&init->relay.lock);
    queue_put(&init->relay.queue, FRAME_FATAL, text, strlen(text));
    deliver(init, DEADLINE_GRACE_MS);
    _exit(EXIT_BAD_REQUEST);
}
