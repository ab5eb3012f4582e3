/* Writes numbered lines to stderr while signals come in, without being prepared for EINTR.
 * signals restart|interrupt stdio LINES MICROSECONDS      one thread, a timer
 * signals restart|interrupt threads LINES MICROSECONDS    eight threads signalled in turn
 * signals restart|interrupt plain|old SIGNAL 0            installs a handler, tells whether traced */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum { THREADS = 8 };

static int lines, microseconds;
static volatile sig_atomic_t ticks;
static volatile int ready, stop;
static int finished;
static pthread_t threads[THREADS];

static void handler(int number)
{
    (void)number;
    ticks++;
}

static void *writer(void *unused)
{
    (void)unused;
    while (!ready)
        usleep(1000);
    for (int i = 0; i < lines; i++)
        if (write(2, "line\n", 5) != 5)
            exit(3);
    __sync_add_and_fetch(&finished, 1);
    while (!stop) /* its id must stay valid for pthread_kill */
        usleep(1000);
    return NULL;
}

static void *sender(void *unused)
{
    (void)unused;
    while (!stop) {
        for (int i = 0; i < THREADS; i++)
            pthread_kill(threads[i], SIGUSR1);
        usleep((useconds_t)microseconds);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    struct sigaction action;
    pthread_t thread;
    if (argc != 5)
        return 2;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags = strcmp(argv[1], "restart") == 0 ? SA_RESTART : 0;
    lines = atoi(argv[3]);
    microseconds = atoi(argv[4]);
    if (strcmp(argv[2], "plain") == 0 || strcmp(argv[2], "old") == 0) {
        struct sigaction old;
        char line[256];
        FILE *status = fopen("/proc/self/status", "r");
        sigaction(lines, &action, strcmp(argv[2], "old") == 0 ? &old : NULL);
        while (fgets(line, sizeof line, status))
            if (strncmp(line, "TracerPid:", 10) == 0)
                return line[11] == '1';
        return 2;
    }
    if (strcmp(argv[2], "stdio") == 0) {
        struct itimerval timer = {{0, microseconds}, {0, microseconds}}, none = {{0, 0}, {0, 0}};
        sigaction(SIGALRM, &action, NULL);
        setitimer(ITIMER_REAL, &timer, NULL);
        for (int i = 0; i < lines; i++)
            if (fprintf(stderr, "%d\n", i) < 0)
                return 3;
        setitimer(ITIMER_REAL, &none, NULL);
        printf("%d\n", ticks > 0);
        return 0;
    }
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, writer, NULL);
    sigaction(SIGUSR1, &action, NULL); /* after the threads: each of them must be guarded */
    ready = 1;
    pthread_create(&thread, NULL, sender, NULL);
    while (__sync_add_and_fetch(&finished, 0) < THREADS)
        usleep(1000);
    stop = 1;
    pthread_join(thread, NULL);
    printf("%d\n", ticks > 0);
    return 0;
}
