/* The single reader of the child's pipes: keeps their order and feeds the output queue. */
#ifndef SANDBOXRUN_RELAY_H
#define SANDBOXRUN_RELAY_H

#include <pthread.h>

#include "frames.h"
#include "guard.h"

struct source {
    int fd; /* -1 once every writer has gone */
    uint8_t type;
    size_t owed; /* bytes of the current snapshot still to be queued */
};

/* Everything below `lock` is touched with it held. It is never held while waiting. */
struct relay {
    pthread_mutex_t lock;
    struct queue queue;
    struct source output, error;
    int listener; /* -1: order of arrival */
    int wake;     /* eventfd: the main thread has something to do */
    uint64_t waiting[MAX_WAITING]; /* notifications to answer */
    size_t waiting_count;
    size_t covered; /* of these, how many the current snapshot answers */
    struct guard_request guards[MAX_WAITING]; /* processes to be traced before they go on */
    size_t guard_count;
    uint64_t notifications, cancelled, unguarded;
};

/* Queues what is in the pipes, as far as the queue has room, and answers notifications. */
void relay_pull(struct relay *relay);
/* Main thread only: traces the processes that are to be guarded, and lets them go on. */
void relay_guard(struct relay *relay);
/* Whether the pipes should be read when they become readable. */
bool relay_has_room(const struct relay *relay);
/* Whether nothing is left to be queued. */
bool relay_is_drained(struct relay *relay);
/* Stops watching a pipe all writers of which have gone and which is empty. */
void relay_hangup(struct source *source);
/* Thread: receives notifications at once, so that no signal can cancel them. */
void relay_listen(struct relay *relay);

#endif
