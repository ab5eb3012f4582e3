/* Entries for programs of another ABI, which a filter of native calls does not see. */
#include "attempt.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__x86_64__)
enum { X32_BIT = 0x40000000, I386_GETPID = 20, I386_SOCKET = 359, I386_SOCKETCALL = 102 };

static long int80(long number, long first, long second, long third)
{
    long result;
    __asm__ volatile("int $0x80"
                     : "=a"(result)
                     : "a"(number), "b"(first), "c"(second), "d"(third)
                     : "memory", "r8", "r9", "r10", "r11");
    return (int)result;
}

static void report(struct answer *answer, long result)
{
    answer->value = result;
    answer->error = result < 0 && result > -4096 ? (int32_t)-result : 0;
}

static void foreign_getpid(struct answer *answer, char **arguments)
{
    (void)arguments;
    report(answer, int80(I386_GETPID, 0, 0, 0));
}

static void foreign_socket(struct answer *answer, char **arguments)
{
    report(answer, int80(I386_SOCKET, number(arguments[0]), number(arguments[1]), 0));
}

/* socketcall takes its arguments from memory, where no filter looks. */
static void foreign_socketcall(struct answer *answer, char **arguments)
{
    enum { MAP_32 = 0x40 };
    uint32_t *low = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_32, -1, 0);
    if (low == MAP_FAILED) {
        answer_result(answer, -1);
        return;
    }
    low[0] = (uint32_t)number(arguments[0]);
    low[1] = (uint32_t)number(arguments[1]);
    report(answer, int80(I386_SOCKETCALL, 1, (long)(uintptr_t)low, 0));
}

static void foreign_x32(struct answer *answer, char **arguments)
{
    (void)arguments;
    answer_result(answer, syscall(X32_BIT | 39 /* getpid */));
}
#else
static void absent(struct answer *answer, char **arguments)
{
    (void)arguments;
    answer->value = -1;
    answer->error = ENOSYS;
    answer_text(answer, "this machine has no such entry");
}
#define foreign_getpid absent
#define foreign_socket absent
#define foreign_socketcall absent
#define foreign_x32 absent
#endif

const struct verb foreign_verbs[] = {
    {"int80", 0, foreign_getpid},
    {"int80-socket", 2, foreign_socket},
    {"int80-socketcall", 2, foreign_socketcall},
    {"x32", 0, foreign_x32},
    {0},
};
