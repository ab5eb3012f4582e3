/* Keeps exact order from costing data.
 *
 * Until a notification has been received, a signal whose handler lacks SA_RESTART turns the
 * notified call into EINTR, and programs that are not prepared for that lose what they wanted to
 * write. So the filter also asks before a handler is installed; a process that installs one of
 * that kind gets traced from then on, and wherever a signal interrupts a notified call the call is
 * made to start again after the handler. Tracing ends with the next exec and stops the
 * process only when a signal arrives. Forks are followed only where the handler is of SIGCHLD,
 * which comes unasked (dash has such a handler, and its subshells inherit it). */
#ifndef SANDBOXRUN_GUARD_H
#define SANDBOXRUN_GUARD_H

#include <linux/seccomp.h>
#include <sys/types.h>

#include "init.h"

struct guard_request {
    uint64_t id; /* of the notification to be answered */
    pid_t thread;
    bool follow_forks;
};

/* Whether this rt_sigaction installs a handler that could make other calls fail with EINTR, in a
 * process that is not traced yet. Fills in the request then. */
bool guard_needed(const struct seccomp_notif *notification, struct guard_request *request);
/* Main thread only, which is the tracer. false when the process cannot be traced. */
bool guard_attach(const struct guard_request *request);
/* Main thread only: lets a traced thread go on that has stopped with this wait status. */
void guard_continue(pid_t thread, int status);
/* A notification of this thread has been received: signals kept back for it may come now. */
void guard_send_deferred(pid_t thread);
/* Main thread only: the thread has ended. */
void guard_forget(pid_t thread);

#endif
