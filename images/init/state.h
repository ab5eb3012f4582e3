/* The init's state, shared by the parts of the main thread. */
#ifndef SANDBOXRUN_STATE_H
#define SANDBOXRUN_STATE_H

#include <poll.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "frames.h"
#include "posture.h"
#include "record.h"
#include "relay.h"
#include "request.h"
#include "spawn.h"

/* What has been read from stdin. A piece of the command's stdin stays here until it is written. */
struct input {
    uint8_t bytes[STDIN_BUFFER];
    const uint8_t *at;
    size_t left;
    struct frame_reader reader;
    struct piece pending;
    bool ended;
};

struct init {
    struct relay relay;
    struct input input;
    struct child child;
    struct counters counters;
    struct ending ending;
    struct protected_ids ids;
    int64_t received_us; /* when the request was complete */
    int64_t deadline_us;
    atomic_bool deadline_passed;
    int signals; /* signalfd of SIGCHLD */
    bool child_gone;
    bool killed; /* and so has everybody else */
    bool reap_again;  /* there may be more to reap at once */
    bool nobody_left; /* no child is left */
    sem_t started, listen;
};

/* poll(2), where an error is fatal. */
int wait_for(struct pollfd *fds, nfds_t count, int timeout_ms);
void close_fd(int *fd);
/* Delivers the queue; the deadline thread, once it exists, ends this if nobody reads. */
void deliver(struct init *init, int timeout_ms);
/* Tells the host why there will be no exit record. */
_Noreturn void fatal(struct init *init, const char *text);

#endif
