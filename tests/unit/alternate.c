/* Writes 0 to $N - 1, even numbers to stdout and odd ones to stderr, strictly in turn. */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static int count;
static const char *how;
static sem_t *turns;

static void put(int number)
{
    int fd = number % 2 ? 2 : 1;
    char text[32];
    int length = snprintf(text, sizeof text, "%d\n", number);
    struct iovec parts[2] = {{text, 1}, {text + 1, (size_t)length - 1}};
    if (strcmp(how, "stdio") == 0)
        fputs(text, number % 2 ? stderr : stdout);
    else if (strcmp(how, "writev") == 0 ? writev(fd, parts, 2) != length
                                        : write(fd, text, (size_t)length) != length)
        exit(3);
}

static void *every_other(void *first)
{
    for (long number = (long)first; number < count; number += 2) {
        sem_wait(&turns[number % 2]);
        put((int)number);
        sem_post(&turns[1 - number % 2]);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    if (argc != 2)
        return 2;
    how = argv[1];
    count = atoi(getenv("N"));
    setvbuf(stdout, NULL, _IOLBF, 0);
    turns = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    sem_init(&turns[0], 1, 1);
    sem_init(&turns[1], 1, 0);
    if (strcmp(how, "threads") == 0) {
        pthread_create(&thread, NULL, every_other, (void *)1L);
        every_other((void *)0L);
        pthread_join(thread, NULL);
    } else if (strcmp(how, "processes") == 0) {
        if (fork() == 0) {
            every_other((void *)1L);
            _exit(0);
        }
        every_other((void *)0L);
        wait(NULL);
    } else {
        for (int number = 0; number < count; number++)
            put(number);
    }
    return 0;
}
