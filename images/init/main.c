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

#include "frames.h"
#include "posture.h"
#include "record.h"
#include "relay.h"
#include "request.h"
#include "spawn.h"

/* What has been read from stdin. A piece of the command's stdin stays here until it is written. */
struct input {
    uint8_t bytes[STDIN_BUFFER];
    const uint8_t *at;
    size_t left;
    struct frame_reader reader;
    struct piece pending;
    bool ended;
};

struct init {
    struct relay relay;
    struct input input;
    struct child child;
    struct counters counters;
    struct ending ending;
    struct protected_ids ids;
    int64_t received_us; /* when the request was complete */
    int64_t deadline_us;
    atomic_bool deadline_passed;
    int signals; /* signalfd of SIGCHLD */
    bool child_gone;
    bool reap_again;
    sem_t started, listen;
};

static struct init the_init;

void broken(void)
{
    _exit(EXIT_BROKEN);
}

int64_t now_us(void)
{
    struct timespec time;
    if (clock_gettime(CLOCK_MONOTONIC, &time))
        broken();
    return (int64_t)time.tv_sec * 1000000 + time.tv_nsec / 1000;
}

static int wait_for(struct pollfd *fds, nfds_t count, int timeout_ms)
{
    int n = poll(fds, count, timeout_ms);
    if (n < 0 && errno != EINTR)
        broken();
    return n < 0 ? 0 : n;
}

/* Delivers the queue; the deadline thread, once it exists, ends this if nobody reads. */
static void deliver(struct init *init, int timeout_ms)
{
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
    while (queue_used(&init->relay.queue)) {
        if (!queue_flush(&init->relay.queue, STDOUT_FILENO))
            broken();
        if (queue_used(&init->relay.queue) && !wait_for(&out, 1, timeout_ms) && timeout_ms >= 0)
            return;
    }
}

_Noreturn static void fatal(struct init *init, const char *text)
{
    queue_put(&init->relay.queue, FRAME_FATAL, text, strlen(text));
    deliver(init, DEADLINE_GRACE_MS);
    _exit(EXIT_BAD_REQUEST);
}

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

struct blob {
    uint8_t *bytes;
    size_t length, capacity;
};

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

static void receive_request(struct init *init, int64_t max_idle_ms, struct blob *blob)
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

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* Moves frames of stdin to the command until either side must be waited for. */
static void feed(struct init *init)
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

static void on_input(struct init *init, const struct pollfd *from, const struct pollfd *to)
{
    if (to->revents & POLLERR)
        close_fd(&init->child.input);
    if (from->revents && !read_input(&init->input))
        init->input.ended = true;
    feed(init);
}

/* Reaps zombies. Notes how the command's first process ended. */
static void reap(struct init *init)
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
        if (pid == init->child.pid) {
            init->child_gone = true;
            init->ending.status = status;
            init->ending.elapsed_us = now_us() - init->received_us;
            init->ending.deadline = atomic_load(&init->deadline_passed) && WIFSIGNALED(status) &&
                                    WTERMSIG(status) == SIGKILL;
        }
    }
}

/* Kills whatever is left. Zombies that were there before are not counted. */
static uint64_t kill_rest(struct init *init)
{
    uint64_t killed = 0;
    int64_t end = now_us() + KILL_BOUND_MS * 1000;
    do
        reap(init);
    while (init->reap_again);
    for (;;) {
        pid_t pid;
        kill(-1, SIGKILL);
        while ((pid = waitpid(-1, NULL, WNOHANG | __WALL)) > 0)
            killed++;
        if (pid < 0 || now_us() > end)
            return killed;
        struct signalfd_siginfo info;
        struct pollfd signals = {.fd = init->signals, .events = POLLIN};
        wait_for(&signals, 1, 10);
        while (read(init->signals, &info, sizeof info) > 0)
            ;
    }
}

/* One round of the relay; what must be waited for goes into the five polled descriptors. */
static void relay_round(struct init *init, struct pollfd fds[5])
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
    pthread_mutex_unlock(&relay->lock);
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
    bool killed = false;
    for (;;) {
        relay_round(init, fds);
        if (killed && relay_is_drained(&init->relay))
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
        if (fds[4].revents)
            clear_wake(init->relay.wake);
        if (fds[5].revents || fds[6].revents)
            on_input(init, &fds[5], &fds[6]);
        if (fds[3].revents || init->reap_again)
            reap(init);
        if (init->child_gone && !killed) {
            init->ending.leftover = kill_rest(init);
            init->input.ended = true;
            close_fd(&init->child.input);
            killed = true;
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
        sem_init(&init->listen, 0, 0) || pthread_mutex_init(&init->relay.lock, NULL))
        fatal(init, "the init's own descriptors cannot be made");
    counters_open(&init->counters);
}

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
    if (!record_put(&init->relay.queue, &init->ending, &init->counters))
        broken();
    deliver(init, -1);
    _exit(EXIT_DONE);
}
