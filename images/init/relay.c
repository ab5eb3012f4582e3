#include "relay.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "order.h"

enum { NOTIFICATION_SPACE = 1024 };

static size_t available(const struct source *source)
{
    int bytes = 0;
    if (source->fd < 0)
        return 0;
    if (ioctl(source->fd, FIONREAD, &bytes) || bytes < 0)
        broken();
    return (size_t)bytes;
}

bool relay_has_room(const struct relay *relay)
{
    return queue_used(&relay->queue) + HEADER_BYTES + MAX_FROM_INIT <= OUTPUT_HIGH;
}

/* Queues what is owed of one pipe. false when the queue is full. The buffer offered is never
 * smaller than a page, so a pipe in packet mode loses nothing. */
static bool pull(struct relay *relay, struct source *source)
{
    while (source->owed) {
        if (!relay_has_room(relay))
            return false;
        size_t length = source->owed < MAX_FROM_INIT ? source->owed : MAX_FROM_INIT;
        uint8_t *room = queue_reserve(&relay->queue, MAX_FROM_INIT);
        if (!room)
            broken();
        ssize_t n = read(source->fd, room, length);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno != EAGAIN)
            broken();
        if (n <= 0) { /* a process read its own output back */
            source->owed = 0;
            break;
        }
        queue_commit(&relay->queue, source->type, (size_t)n);
        source->owed -= (size_t)n;
    }
    return true;
}

static void let_go(struct relay *relay, uint64_t id)
{
    struct seccomp_notif_resp response = {.id = id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
    if (ioctl(relay->listener, SECCOMP_IOCTL_NOTIF_SEND, &response) && errno != ENOENT)
        broken(); /* ENOENT: the caller was killed meanwhile */
}

static void answer(struct relay *relay)
{
    for (size_t i = 0; i < relay->covered; i++)
        let_go(relay, relay->waiting[i]);
    relay->waiting_count -= relay->covered;
    memmove(relay->waiting, relay->waiting + relay->covered,
            relay->waiting_count * sizeof *relay->waiting);
    relay->covered = 0;
}

/* One snapshot: first the length of stdout, then that of stderr; then stderr is read, then stdout.
 * So what was written to stderr before anything taken from stdout is queued before it. What was
 * written to stdout before a stderr write is queued before it because that write waits for us. */
void relay_pull(struct relay *relay)
{
    for (;;) {
        if (!relay->output.owed && !relay->error.owed) {
            relay->covered = relay->waiting_count;
            relay->output.owed = available(&relay->output);
            relay->error.owed = available(&relay->error);
            if (!relay->output.owed && !relay->error.owed && !relay->covered)
                return;
        }
        if (!pull(relay, &relay->error) || !pull(relay, &relay->output))
            return;
        answer(relay);
        if (!relay->waiting_count)
            return;
    }
}

bool relay_is_drained(struct relay *relay)
{
    return !relay->output.owed && !relay->error.owed && !available(&relay->output) &&
           !available(&relay->error);
}

void relay_hangup(struct source *source)
{
    if (source->fd >= 0 && !source->owed && !available(source)) {
        close(source->fd);
        source->fd = -1;
    }
}

static void wake_main(struct relay *relay)
{
    static const uint64_t one = 1;
    if (write(relay->wake, &one, sizeof one) != (ssize_t)sizeof one && errno != EAGAIN)
        broken();
}

/* Whether every process under the filter has gone. */
static bool nobody_left(int listener)
{
    struct pollfd poll_listener = {.fd = listener};
    return poll(&poll_listener, 1, 0) == 1 && (poll_listener.revents & POLLHUP);
}

/* Thousands of callers are waiting because the host does not read: receive no more for now. */
static void wait_for_room(struct relay *relay)
{
    static const struct timespec moment = {.tv_nsec = 1000000};
    while (relay->waiting_count == MAX_WAITING || relay->guard_count == MAX_WAITING) {
        pthread_mutex_unlock(&relay->lock);
        nanosleep(&moment, NULL);
        pthread_mutex_lock(&relay->lock);
    }
}

static void take(struct relay *relay, const struct seccomp_notif *notification)
{
    guard_send_deferred((pid_t)notification->pid);
    if (notification->data.nr == SYS_rt_sigaction) {
        struct guard_request request;
        /* Without the lock: reading another process's memory may have to wait for it. */
        if (!guard_needed(notification, &request)) {
            let_go(relay, notification->id);
            return;
        }
        pthread_mutex_lock(&relay->lock);
        relay->guards[relay->guard_count++] = request;
    } else {
        pthread_mutex_lock(&relay->lock);
        relay->notifications++;
        relay->waiting[relay->waiting_count++] = notification->id;
        relay_pull(relay);
    }
    wake_main(relay);
    wait_for_room(relay);
    pthread_mutex_unlock(&relay->lock);
}

void relay_guard(struct relay *relay)
{
    pthread_mutex_lock(&relay->lock);
    for (size_t i = 0; i < relay->guard_count; i++) {
        if (!guard_attach(&relay->guards[i]))
            relay->unguarded++;
        let_go(relay, relay->guards[i].id);
    }
    relay->guard_count = 0;
    pthread_mutex_unlock(&relay->lock);
}

void relay_listen(struct relay *relay)
{
    /* The writer's processor is handed over to us and back (Linux 6.6); without it, it is slower. */
    ioctl(relay->listener, SECCOMP_IOCTL_NOTIF_SET_FLAGS, SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP);
    union {
        struct seccomp_notif notification;
        uint8_t space[NOTIFICATION_SPACE]; /* newer kernels may have more to say */
    } received;
    for (;;) {
        memset(&received, 0, sizeof received);
        int failed = ioctl(relay->listener, SECCOMP_IOCTL_NOTIF_RECV, &received) ? errno : 0;
        if (failed && failed != EINTR && failed != ENOENT)
            broken();
        if (failed == ENOENT && nobody_left(relay->listener))
            return;
        if (failed == ENOENT) { /* a signal interrupted the caller before we were here */
            pthread_mutex_lock(&relay->lock);
            relay->cancelled++;
            pthread_mutex_unlock(&relay->lock);
        } else if (!failed) {
            take(relay, &received.notification);
        }
    }
}
