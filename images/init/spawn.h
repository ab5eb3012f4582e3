/* The command's first process: set up between fork and exec, before any hostile code exists. */
#ifndef SANDBOXRUN_SPAWN_H
#define SANDBOXRUN_SPAWN_H

#include "filter.h"
#include "request.h"

enum failure { FAILED_NOT, FAILED_CWD, FAILED_EXEC, FAILED_SETUP };

struct child {
    pid_t pid;     /* 0 when there is none */
    int input;     /* -1 without stdin */
    int output;    /* read ends of its stdout and stderr */
    int error;
    int listener;  /* of the filter; -1 where the order is that of arrival */
    enum failure failure;
    int error_number;
};

void spawn(const struct request *request, const struct protected_ids *ids, struct child *child);

#endif
