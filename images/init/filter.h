/* The child's seccomp filter. */
#ifndef SANDBOXRUN_FILTER_H
#define SANDBOXRUN_FILTER_H

#include <sys/types.h>

#include "init.h"

/* The thread ids (and process group) the filter keeps the child's hands off. */
struct protected_ids {
    uint32_t ids[MAX_INIT_TIDS + 1];
    size_t count;
};

/* Installs the filter in the calling process. With `notify`, returns the listener's descriptor.
 * -1 and errno when it cannot be installed. */
int filter_install(const struct protected_ids *protected_ids, bool notify);

#endif
