#ifndef SANDBOXRUN_ATTEMPT_H
#define SANDBOXRUN_ATTEMPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MAX_TEXT = 256 * 1024, MAX_ARGUMENTS = 8 };

/* What became of one attempt. `error` is an errno, 0 when the attempt succeeded. */
struct answer {
    int64_t value;
    int32_t error;
    uint32_t cut; /* whether text was left out */
    uint32_t length;
    char text[MAX_TEXT];
};

/* One thing that can be tried. It runs in a process of its own, which ends afterwards. */
struct verb {
    const char *name;
    int arguments; /* how many it needs */
    void (*run)(struct answer *answer, char **arguments);
};

extern const struct verb call_verbs[], file_verbs[], foreign_verbs[], network_verbs[],
    process_verbs[], resource_verbs[], walk_verbs[];

/* Sets value and error as of a system call that returned `result`. */
void answer_result(struct answer *answer, int64_t result);

/* Adds to the text; what does not fit is cut. */
void answer_bytes(struct answer *answer, const void *bytes, size_t length);
__attribute__((format(printf, 2, 3))) void answer_text(struct answer *answer, const char *format,
                                                       ...);

/* The descriptors this program was started with, one a line; taken before it opened any. */
const char *inherited_descriptors(void);

/* Whether PID 1 is this program's parent or itself: then it is a sandbox's, and no host's init. */
bool init_is_ours(void);

int64_t number(const char *text);

#endif
