/* What comes in over stdin: the request, then the command's own stdin. */
#ifndef SANDBOXRUN_INPUT_H
#define SANDBOXRUN_INPUT_H

#include "state.h"

struct blob {
    uint8_t *bytes;
    size_t length, capacity;
};

/* Waits for the whole request; ends the process when none comes. */
void receive_request(struct init *init, int64_t max_idle_ms, struct blob *blob);
/* Moves frames of stdin to the command until either side must be waited for. */
void feed(struct init *init);
/* The same, after polling stdin (`from`) and the command's stdin (`to`). */
void on_input(struct init *init, const struct pollfd *from, const struct pollfd *to);

#endif
