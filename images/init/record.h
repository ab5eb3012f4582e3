/* The exit record. See sandboxrun/init/records.py. */
#ifndef SANDBOXRUN_RECORD_H
#define SANDBOXRUN_RECORD_H

#include "frames.h"
#include "posture.h"
#include "spawn.h"

struct ending {
    enum failure failure;
    int error_number;
    int status; /* as wait4 gives it */
    bool deadline;
    bool exact;
    int64_t elapsed_us;
    uint64_t leftover, notifications, cancelled, unguarded;
};

/* Queues the record. false when it does not fit, which the queue's bounds exclude. */
bool record_put(struct queue *queue, const struct ending *ending, const struct counters *counters);

#endif
