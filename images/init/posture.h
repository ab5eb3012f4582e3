/* What the init finds about its own confinement, and the counters of its cgroup. */
#ifndef SANDBOXRUN_POSTURE_H
#define SANDBOXRUN_POSTURE_H

#include "frames.h"

/* Queues the posture frame. NULL, or what went wrong. */
const char *posture_report(struct queue *queue);

/* Counters that the exit record quotes; opened before any hostile code exists. -1: not readable. */
struct counters {
    int peak_memory;
    int oom_kills;
    int peak_pids;
};

void counters_open(struct counters *counters);
/* The first number of a file of one number; of `key N` lines with key. false: not readable. */
bool counter_read(int fd, const char *key, uint64_t *value);

/* Whether this kernel and runtime let a filter notify us without costing data (Linux 5.19). */
bool notification_possible(void);

#endif
