/* The request: sections of name, NUL, u32 length, bytes. See sandboxrun/init/request.py. */
#ifndef SANDBOXRUN_REQUEST_H
#define SANDBOXRUN_REQUEST_H

#include "init.h"

enum ordering { ORDERING_ARRIVAL, ORDERING_EXACT };

struct request {
    char **argv; /* these and the texts below point into the blob */
    char **envp;
    char *cwd; /* a copy, with its NUL */
    const uint8_t *script;
    size_t script_length;
    int64_t deadline_ms;
    enum ordering ordering;
    bool stdin_open;
    bool has_script;
};

/* NULL, or what is wrong with it. The blob must outlive the request. */
const char *request_parse(uint8_t *blob, size_t length, struct request *request);
void request_free(struct request *request);

#endif
