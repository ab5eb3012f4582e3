#include "reap.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guard.h"

void reap(struct init *init)
{
    struct signalfd_siginfo info;
    while (read(init->signals, &info, sizeof info) > 0)
        ;
    init->reap_again = true;
    for (int i = 0; i < REAP_BATCH; i++) {
        int status;
        pid_t pid = waitpid(-1, &status, WNOHANG | __WALL);
        if (pid <= 0) {
            init->reap_again = false;
            return;
        }
        if (WIFSTOPPED(status)) {
            guard_continue(pid, status);
            continue;
        }
        guard_forget(pid);
        if (pid == init->child.pid) {
            init->child_gone = true;
            init->ending.status = status;
            init->ending.elapsed_us = now_us() - init->received_us;
            init->ending.deadline = atomic_load(&init->deadline_passed) && WIFSIGNALED(status) &&
                                    WTERMSIG(status) == SIGKILL;
        }
    }
}

uint64_t kill_rest(struct init *init)
{
    uint64_t killed = 0;
    int64_t end = now_us() + KILL_BOUND_MS * 1000;
    do
        reap(init);
    while (init->reap_again);
    for (;;) {
        pid_t pid;
        int status;
        kill(-1, SIGKILL);
        while ((pid = waitpid(-1, &status, WNOHANG | __WALL)) > 0)
            killed += !WIFSTOPPED(status);
        if (pid < 0 || now_us() > end)
            return killed;
        struct signalfd_siginfo info;
        struct pollfd signals = {.fd = init->signals, .events = POLLIN};
        wait_for(&signals, 1, 10);
        while (read(init->signals, &info, sizeof info) > 0)
            ;
    }
}
