#include "frames.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static uint32_t get_u32(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
           (uint32_t)bytes[3] << 24;
}

static bool header_is_valid(const uint8_t *header)
{
    uint32_t length = get_u32(header + 4);
    if (header[1] || header[2] || header[3])
        return false;
    switch (header[0]) {
    case FRAME_REQUEST:
    case FRAME_STDIN:
        return length <= MAX_TO_INIT;
    case FRAME_REQUEST_END:
        return length == 8;
    case FRAME_STDIN_END:
        return length == 0;
    default:
        return false;
    }
}

int frame_next(struct frame_reader *reader, const uint8_t **data, size_t *length,
               struct piece *piece)
{
    if (reader->have < HEADER_BYTES) {
        size_t take = HEADER_BYTES - reader->have;
        if (take > *length)
            take = *length;
        memcpy(reader->header + reader->have, *data, take);
        reader->have += take;
        *data += take;
        *length -= take;
        if (reader->have < HEADER_BYTES)
            return 0;
        if (!header_is_valid(reader->header))
            return -1;
        reader->left = get_u32(reader->header + 4);
        if (*length == 0 && reader->left > 0)
            return 0;
    } else if (*length == 0) {
        return 0;
    }
    piece->type = reader->header[0];
    piece->data = *data;
    piece->length = reader->left < *length ? reader->left : *length;
    reader->left -= (uint32_t)piece->length;
    *data += piece->length;
    *length -= piece->length;
    piece->last = reader->left == 0;
    if (piece->last)
        reader->have = 0;
    return 1;
}

uint8_t *queue_reserve(struct queue *queue, size_t length)
{
    size_t used = queue_used(queue);
    if (used + HEADER_BYTES + length > QUEUE_BYTES)
        return NULL;
    if (queue->tail + HEADER_BYTES + length > QUEUE_BYTES) {
        memmove(queue->bytes, queue->bytes + queue->head, used);
        queue->head = 0;
        queue->tail = used;
    }
    return queue->bytes + queue->tail + HEADER_BYTES;
}

void queue_commit(struct queue *queue, uint8_t type, size_t length)
{
    uint8_t *header = queue->bytes + queue->tail;
    memset(header, 0, HEADER_BYTES);
    header[0] = type;
    for (unsigned i = 0; i < 4; i++)
        header[4 + i] = (uint8_t)(length >> 8 * i);
    queue->tail += HEADER_BYTES + length;
}

bool queue_put(struct queue *queue, uint8_t type, const void *data, size_t length)
{
    uint8_t *room = queue_reserve(queue, length);
    if (!room)
        return false;
    memcpy(room, data, length);
    queue_commit(queue, type, length);
    return true;
}

bool queue_flush(struct queue *queue, int fd)
{
    while (queue_used(queue)) {
        ssize_t n = write(fd, queue->bytes + queue->head, queue_used(queue));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN;
        queue->head += (size_t)n;
    }
    queue->head = queue->tail = 0;
    return true;
}
