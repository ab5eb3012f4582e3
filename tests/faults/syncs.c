/* Counts the syncs a process makes: preloaded, and asked through ctypes. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>

static atomic_int syncs;

int sync_count(void) { return atomic_load(&syncs); }

static int counted(const char *name, int fd)
{
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    atomic_fetch_add(&syncs, 1);
    return real(fd);
}

int fsync(int fd) { return counted("fsync", fd); }
int fdatasync(int fd) { return counted("fdatasync", fd); }
