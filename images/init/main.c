/* PID 1 of a sandbox: receives one command over stdin, runs it, relays its output, reports how it
 * ended. Hostile code of the same user runs beside it, so: it is undumpable, needs no new memory,
 * descriptor, thread or process once that code exists, handles no signal, and ends the container
 * rather than go on after an error that should not happen. It never writes to fd 2. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "input.h"
#include "reap.h"
#include "state.h"

/* The backstop. It shares nothing with the main thread that could make it wait. */
static void *deadline_thread(void *argument)
{
    struct init *init = argument;
    struct timespec end = {.tv_sec = init->deadline_us / 1000000,
                           .tv_nsec = init->deadline_us % 1000000 * 1000};
    struct timespec grace = {.tv_sec = DEADLINE_GRACE_MS / 1000,
                             .tv_nsec = DEADLINE_GRACE_MS % 1000 * 1000000L};
    init->ids.ids[1] = (uint32_t)syscall(SYS_gettid);
    sem_post(&init->started);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) == EINTR)
        ;
    atomic_store(&init->deadline_passed, true);
    kill(-1, SIGKILL);
    nanosleep(&grace, NULL);
    _exit(EXIT_DEADLINE);
}

static void *listener_thread(void *argument)
{
    struct init *init = argument;
    init->ids.ids[2] = (uint32_t)syscall(SYS_gettid);
    sem_post(&init->started);
    while (sem_wait(&init->listen))
        ;
    relay_listen(&init->relay);
    while (true) /* the thread's id stays taken */
        pause();
    return NULL;
}

static void start_thread(struct init *init, void *(*body)(void *))
{
    pthread_t thread;
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) ||
        pthread_attr_setstacksize(&attributes, THREAD_STACK) ||
        pthread_create(&thread, &attributes, body, init))
        fatal(init, "a thread cannot be started");
    while (sem_wait(&init->started))
        ;
}

/* All of the init's ids are known before the filter that names them is made. */
static void start_threads(struct init *init)
{
    init->ids.ids[0] = (uint32_t)getpid();
    start_thread(init, deadline_thread);
    start_thread(init, listener_thread);
    init->ids.count = 3;
    pid_t group = getpgrp();
    if (group > 0) /* 0: outside the namespace, where the child cannot name it */
        init->ids.ids[init->ids.count++] = (uint32_t)group;
}

/* One round of the relay; what it must wait for goes into the first three polled descriptors.
 * Returns whether everybody is gone and nothing is left to be relayed. */
static bool relay_round(struct init *init, struct pollfd fds[3])
{
    struct relay *relay = &init->relay;
    pthread_mutex_lock(&relay->lock);
    if (fds[0].revents & (POLLHUP | POLLERR))
        relay_hangup(&relay->error);
    if (fds[1].revents & (POLLHUP | POLLERR))
        relay_hangup(&relay->output);
    if (!queue_flush(&relay->queue, STDOUT_FILENO))
        broken();
    relay_pull(relay);
    if (!queue_flush(&relay->queue, STDOUT_FILENO))
        broken();
    bool room = relay_has_room(relay);
    fds[0] = (struct pollfd){.fd = room ? relay->error.fd : -1, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = room ? relay->output.fd : -1, .events = POLLIN};
    fds[2] = (struct pollfd){.fd = queue_used(&relay->queue) ? STDOUT_FILENO : -1,
                             .events = POLLOUT};
    bool done = init->killed && relay_is_drained(relay);
    pthread_mutex_unlock(&relay->lock);
    return done;
}

static void clear_wake(int wake)
{
    uint64_t count;
    if (read(wake, &count, sizeof count) < 0 && errno != EAGAIN)
        broken();
}

static void relay_until_gone(struct init *init)
{
    struct pollfd fds[7] = {0};
    for (;;) {
        if (relay_round(init, fds))
            return;
        fds[3] = (struct pollfd){.fd = init->signals, .events = POLLIN};
        fds[4] = (struct pollfd){.fd = init->relay.wake, .events = POLLIN};
        fds[5] = (struct pollfd){.fd = init->input.ended || init->input.pending.length
                                           ? -1
                                           : STDIN_FILENO,
                                 .events = POLLIN};
        fds[6] = (struct pollfd){.fd = init->child.input,
                                 .events = init->input.pending.length ? POLLOUT : 0};
        wait_for(fds, 7, init->reap_again ? 0 : -1);
        if (fds[4].revents) {
            clear_wake(init->relay.wake);
            relay_guard(&init->relay);
        }
        if (fds[5].revents || fds[6].revents)
            on_input(init, &fds[5], &fds[6]);
        if (fds[3].revents || init->reap_again)
            reap(init);
        if (init->child_gone && !init->killed) {
            init->ending.leftover = kill_rest(init);
            init->input.ended = true;
            close_fd(&init->child.input);
            init->killed = true;
        }
    }
}

static void run(struct init *init, const struct request *request)
{
    start_threads(init);
    spawn(request, &init->ids, &init->child);
    init->ending.failure = init->child.failure;
    init->ending.error_number = init->child.error_number;
    init->input.ended = !request->stdin_open;
}

static void relay_child(struct init *init)
{
    init->relay.output = (struct source){.fd = init->child.output, .type = FRAME_STDOUT};
    init->relay.error = (struct source){.fd = init->child.error, .type = FRAME_STDERR};
    init->relay.listener = init->child.listener;
    init->ending.exact = init->child.listener >= 0;
    if (init->ending.exact)
        sem_post(&init->listen);
    feed(init);
    reap(init);
    init->reap_again = true; /* look once without waiting */
    relay_until_gone(init);
}

static void prepare(struct init *init)
{
    sigset_t chld;
    sigemptyset(&chld);
    sigaddset(&chld, SIGCHLD);
    /* No other signal is blocked: what is blocked is never ignored, and could fill a queue. */
    sigprocmask(SIG_SETMASK, &chld, NULL);
    signal(SIGPIPE, SIG_IGN);
    if (pthread_mutex_init(&init->relay.lock, NULL))
        broken();
    init->relay.queue.bytes = malloc(QUEUE_BYTES);
    if (!init->relay.queue.bytes || fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK) ||
        fcntl(STDOUT_FILENO, F_SETFL, O_NONBLOCK | O_WRONLY))
        broken();
    if (getpid() != 1)
        fatal(init, "the init must be PID 1 of its namespace");
    const char *wrong = posture_report(&init->relay.queue);
    if (wrong)
        fatal(init, wrong);
    syscall(SYS_close_range, 3U, ~0U, 0U); /* what the engine leaked is in the posture */
    init->signals = signalfd(-1, &chld, SFD_CLOEXEC | SFD_NONBLOCK);
    init->relay.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (init->signals < 0 || init->relay.wake < 0 || sem_init(&init->started, 0, 0) ||
        sem_init(&init->listen, 0, 0))
        fatal(init, "the init's own descriptors cannot be made");
    counters_open(&init->counters);
}

static struct init the_init;

int main(int argc, char **argv)
{
    struct init *init = &the_init;
    int64_t max_idle_ms = DEFAULT_MAX_IDLE_MS;
    if (argc == 2 && strcmp(argv[1], "--version") == 0)
        return puts("sandboxrun-init " INIT_VERSION) < 0;
    if (argc == 3 && strcmp(argv[1], "--max-idle-ms") == 0)
        max_idle_ms = atoll(argv[2]);
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0))
        broken();
    prepare(init);

    struct blob blob = {0};
    struct request request;
    receive_request(init, max_idle_ms, &blob);
    init->received_us = now_us();
    const char *wrong = request_parse(blob.bytes, blob.length, &request);
    if (wrong)
        fatal(init, wrong);
    init->deadline_us = init->received_us + request.deadline_ms * 1000;
    run(init, &request);
    request_free(&request);
    free(blob.bytes);
    if (init->child.pid > 0)
        relay_child(init);
    if (init->ending.failure != FAILED_NOT)
        init->ending.elapsed_us = now_us() - init->received_us;
    pthread_mutex_lock(&init->relay.lock);
    init->ending.notifications = init->relay.notifications;
    init->ending.cancelled = init->relay.cancelled;
    init->ending.unguarded = init->relay.unguarded;
    if (!record_put(&init->relay.queue, &init->ending, &init->counters))
        broken();
    deliver(init, -1);
    _exit(EXIT_DONE);
}
