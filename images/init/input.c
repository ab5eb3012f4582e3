#include "input.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Reads what stdin has now. false at its end. */
static bool read_input(struct input *input)
{
    ssize_t n = read(STDIN_FILENO, input->bytes, sizeof input->bytes);
    if (n < 0 && errno != EAGAIN && errno != EINTR)
        broken();
    input->at = input->bytes;
    input->left = n > 0 ? (size_t)n : 0;
    return n != 0;
}

static const char *append(struct blob *blob, const struct piece *piece)
{
    if (piece->length > MAX_REQUEST - blob->length)
        return "the request is too large";
    if (blob->length + piece->length > blob->capacity) {
        size_t capacity = (blob->length + piece->length) * 2;
        uint8_t *bytes = realloc(blob->bytes, capacity);
        if (!bytes)
            return "out of memory";
        blob->bytes = bytes;
        blob->capacity = capacity;
    }
    memcpy(blob->bytes + blob->length, piece->data, piece->length);
    blob->length += piece->length;
    return NULL;
}

/* Takes the request's frames from the input. 1: complete; 0: more is needed. */
static int take_request(struct init *init, struct blob *blob, uint8_t total[8], size_t *have)
{
    struct piece piece;
    int got;
    while ((got = frame_next(&init->input.reader, &init->input.at, &init->input.left, &piece))) {
        const char *wrong = NULL;
        if (got < 0)
            fatal(init, "a frame's header is malformed");
        if (piece.type == FRAME_REQUEST) {
            wrong = append(blob, &piece);
        } else if (piece.type == FRAME_REQUEST_END) {
            memcpy(total + *have, piece.data, piece.length);
            *have += piece.length;
            if (piece.last)
                return 1;
        } else {
            wrong = "a frame came before the request";
        }
        if (wrong)
            fatal(init, wrong);
    }
    return 0;
}

void receive_request(struct init *init, int64_t max_idle_ms, struct blob *blob)
{
    int64_t end = now_us() + max_idle_ms * 1000;
    uint8_t total[8] = {0};
    size_t have = 0;
    for (;;) {
        int64_t left_ms = (end - now_us()) / 1000;
        struct pollfd fds[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                               {.fd = queue_used(&init->relay.queue) ? STDOUT_FILENO : -1,
                                .events = POLLOUT}};
        if (left_ms <= 0)
            _exit(EXIT_IDLE);
        wait_for(fds, 2, left_ms > INT32_MAX ? INT32_MAX : (int)left_ms);
        if (!queue_flush(&init->relay.queue, STDOUT_FILENO))
            broken();
        if (!fds[0].revents)
            continue;
        if (!read_input(&init->input))
            _exit(EXIT_NO_REQUEST);
        if (take_request(init, blob, total, &have))
            break;
    }
    uint64_t announced = 0;
    for (unsigned i = 0; i < 8; i++)
        announced |= (uint64_t)total[i] << 8 * i;
    if (announced != blob->length)
        fatal(init, "the request's length is not the announced one");
}

void feed(struct init *init)
{
    struct input *input = &init->input;
    while (!input->ended) {
        if (input->pending.length && init->child.input >= 0) {
            ssize_t n = write(init->child.input, input->pending.data, input->pending.length);
            if (n < 0 && errno == EAGAIN)
                return;
            if (n < 0 && errno != EINTR)
                close_fd(&init->child.input); /* nobody reads: the rest is discarded */
            if (n > 0) {
                input->pending.data += n;
                input->pending.length -= (size_t)n;
            }
            continue;
        }
        input->pending.length = 0;
        struct piece piece;
        int got = frame_next(&input->reader, &input->at, &input->left, &piece);
        if (got == 0)
            return;
        if (got > 0 && piece.type == FRAME_STDIN)
            input->pending = piece;
        else if (got > 0 && piece.type == FRAME_STDIN_END)
            input->ended = true;
        else
            fatal(init, "a frame other than stdin came after the request");
    }
    close_fd(&init->child.input);
}

void on_input(struct init *init, const struct pollfd *from, const struct pollfd *to)
{
    if (to->revents & POLLERR)
        close_fd(&init->child.input);
    if (from->revents && !read_input(&init->input))
        init->input.ended = true;
    feed(init);
}
