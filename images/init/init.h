/* Bounds, exit codes and small promises shared by all parts of the init. */
#ifndef SANDBOXRUN_INIT_H
#define SANDBOXRUN_INIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INIT_VERSION "1"

/* Exit codes of the init itself. The command's own result is in the exit record only. */
enum {
    EXIT_DONE = 0,
    EXIT_BAD_REQUEST = 113, /* what came in is not the protocol; a fatal frame says what */
    EXIT_NO_REQUEST = 114,  /* stdin ended before a request: the orchestrator is gone */
    EXIT_BROKEN = 115,      /* a system call failed that never fails unless someone attacks us */
    EXIT_DEADLINE = 116,    /* the deadline passed and the output could not be delivered */
    EXIT_IDLE = 117,        /* no request came within the slot's life */
};

enum {
    HEADER_BYTES = 8,
    MAX_TO_INIT = 1024 * 1024,   /* payload, host to init */
    MAX_FROM_INIT = 64 * 1024,   /* payload, init to host, the posture excepted */
    MAX_POSTURE = 1024 * 1024,
    MAX_REQUEST = 32 * 1024 * 1024,
    MAX_STRINGS = 1024 * 1024,   /* arguments, and again environment entries */
    QUEUE_BYTES = MAX_POSTURE + 128 * 1024,
    OUTPUT_HIGH = 512 * 1024,    /* no more is read from the child while this much is queued */
    STDIN_BUFFER = 64 * 1024,
    THREAD_STACK = 256 * 1024, /* more than any C library's minimum */
    MAX_INIT_TIDS = 4,
    MAX_WAITING = 8192,          /* notifications held while the host does not read */
    REAP_BATCH = 256,            /* zombies reaped before output is looked at again */
    KILL_AGAIN_MS = 10,
    KILL_BOUND_MS = 5000,        /* for what was killed to be gone */
    DEADLINE_GRACE_MS = 1000,    /* for output and record to leave after the deadline */
    DEFAULT_MAX_IDLE_MS = 600000,
    SCRIPT_FD = 63,              /* also in sandboxrun/init/request.py */
};

/* The posture plus a terminating margin must fit the queue before anything else is queued. */
_Static_assert(QUEUE_BYTES >= MAX_POSTURE + HEADER_BYTES, "the posture fits the queue");
_Static_assert(QUEUE_BYTES >= OUTPUT_HIGH + MAX_FROM_INIT + HEADER_BYTES, "the record fits");

/* Ends the init at once; the kernel then kills everything in its PID namespace. */
_Noreturn void broken(void);

int64_t now_us(void);

#endif
