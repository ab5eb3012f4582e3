/* Frames in both directions. The layout is documented in sandboxrun/init/frames.py. */
#ifndef SANDBOXRUN_FRAMES_H
#define SANDBOXRUN_FRAMES_H

#include "init.h"

enum frame_type {
    FRAME_POSTURE = 'P',
    FRAME_STDOUT = 'O',
    FRAME_STDERR = 'E',
    FRAME_EXIT = 'X',
    FRAME_FATAL = 'F',
    FRAME_REQUEST = 'q',
    FRAME_REQUEST_END = 'Q',
    FRAME_STDIN = 'i',
    FRAME_STDIN_END = 'I',
};

/* Incoming: a part of a frame's payload, as much of it as has arrived. */
struct piece {
    uint8_t type;
    const uint8_t *data;
    size_t length;
    bool last; /* this completes the frame */
};

struct frame_reader {
    uint8_t header[HEADER_BYTES];
    size_t have;
    uint32_t left;
};

/* 1: a piece; 0: all input used; -1: not the protocol. Advances *data and *length. */
int frame_next(struct frame_reader *reader, const uint8_t **data, size_t *length,
               struct piece *piece);

/* Outgoing: a bounded queue of whole frames. */
struct queue {
    uint8_t *bytes;
    size_t head, tail;
};

static inline size_t queue_used(const struct queue *queue) { return queue->tail - queue->head; }

/* Where a frame's payload of up to `length` bytes may be put; NULL when there is no room. */
uint8_t *queue_reserve(struct queue *queue, size_t length);
/* Makes a frame of the `length` bytes put there. */
void queue_commit(struct queue *queue, uint8_t type, size_t length);
bool queue_put(struct queue *queue, uint8_t type, const void *data, size_t length);
/* Writes what fd takes now. false when the other side is gone or fails. */
bool queue_flush(struct queue *queue, int fd);

#endif
