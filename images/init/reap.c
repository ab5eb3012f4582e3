#include "reap.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
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
            init->nobody_left = pid < 0;
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

static bool is_zombie(const char *pid)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = 0;
    const char *name_end = strrchr(text, ')');
    return !name_end || name_end[1] != ' ' || name_end[2] == 'Z' || name_end[2] == 'X';
}

/* Counts the living processes but the init. A wait would count traced threads and report twice. */
static uint64_t count_processes(void)
{
    char entries[4096];
    uint64_t count = 0;
    long n;
    int directory = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (directory >= 0 && (n = syscall(SYS_getdents64, directory, entries, sizeof entries)) > 0)
        for (long at = 0; at < n;) {
            /* struct linux_dirent64: ino, off, reclen, type, name */
            const char *name = entries + at + 19;
            uint16_t length;
            memcpy(&length, entries + at + 16, sizeof length);
            count += atoi(name) > 1 && !is_zombie(name);
            at += length;
        }
    close_fd(&directory);
    return count;
}

uint64_t kill_rest(struct init *init)
{
    int64_t end = now_us() + KILL_BOUND_MS * 1000;
    do
        reap(init);
    while (init->reap_again);
    uint64_t count = init->nobody_left ? 0 : count_processes();
    while (!init->nobody_left && now_us() < end) {
        struct pollfd signals = {.fd = init->signals, .events = POLLIN};
        kill(-1, SIGKILL);
        reap(init);
        if (!init->nobody_left && !init->reap_again)
            wait_for(&signals, 1, KILL_AGAIN_MS);
    }
    return count;
}
