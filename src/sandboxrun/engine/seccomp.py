"""Our own seccomp profile: an allow-list for x86_64 and aarch64, no 32-bit and no x32 calls.

Whatever is not allowed fails with EPERM. Calls newer than the C libraries that probe for them are
named with ENOSYS, as are those whose callers know how to do without: with Docker 20.10 and crun
the profile's own default errno is ignored. Arguments are compared after masking to the 32 bits the
kernel looks at, so high bits cannot slip past a comparison.

The numbers are those of the kernel's uapi headers: sched.h, socket.h, in.h, ioctls.h.
"""

from __future__ import annotations

import errno
import functools
import json
from collections.abc import Iterable, Iterator
from typing import Final

_INT: Final = 0xFFFF_FFFF
_NAMESPACE_FLAGS: Final = 0x7E02_0000
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET."""
_AF_UNIX: Final = 1
_AF_INET: Final = 2
_AF_INET6: Final = 10
_AF_NETLINK: Final = 16
_NETLINK_ROUTE: Final = 0
_TYPE_MASK: Final = 0xF
_INET_SOCKETS: Final = ((1, 0), (1, 6), (2, 0), (2, 17))
"""Stream sockets over TCP and datagram sockets over UDP. Not SCTP, DCCP, MPTCP or raw."""
_TRACING: Final = (0x1, 0x6, 0x7, 0xC, 0x11, 0x4204, 0x4206, 0x4208)
"""The requests of ptrace that the init guards exact order with: PEEKTEXT, POKEUSER, CONT, GETREGS,
DETACH, GETREGSET, SEIZE and LISTEN. It installs a filter in the command that refuses all of them."""
_PERSONALITIES: Final = (0, _INT)
"""Plain Linux, and the question which one it is."""
_TTY_INJECTION: Final = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX: typing into a terminal on behalf of someone else."""

TRIED: Final = (
    ("clone3", errno.ENOSYS),
    ("io_uring_setup", errno.ENOSYS),
    ("keyctl", errno.EPERM),
    ("unshare", errno.EPERM),
    ("vsock", errno.EPERM),
)
"""Calls the init tries, and what becomes of them under this profile and under hardly another."""

Json = dict[str, object]

_FILES: Final = """
access chdir chmod chown close close_range copy_file_range creat dup dup2 dup3 faccessat
faccessat2 fadvise64 fallocate fchdir fchmod fchmodat fchmodat2 fchown fchownat fcntl fdatasync
fgetxattr flistxattr flock fremovexattr fsetxattr fstat fstatfs fsync ftruncate futimesat getcwd
getdents getdents64 getxattr getxattrat inotify_add_watch inotify_init inotify_init1
inotify_rm_watch lchown lgetxattr link linkat listxattr listxattrat llistxattr lremovexattr lseek
lsetxattr lstat mkdir mkdirat mknod mknodat newfstatat open openat openat2 pipe pipe2 pread64
preadv preadv2 pwrite64 pwritev pwritev2 read readahead readlink readlinkat readv removexattr
removexattrat rename renameat renameat2 rmdir sendfile setxattr setxattrat splice stat statfs
statx symlink symlinkat sync sync_file_range syncfs tee truncate umask unlink unlinkat utime
utimensat utimes vmsplice write writev
"""
_MEMORY: Final = """
brk madvise map_shadow_stack membarrier memfd_create mincore mlock mlock2 mlockall mmap mprotect
mremap mseal msync munlock munlockall munmap pkey_alloc pkey_free pkey_mprotect
"""
_PROCESSES: Final = """
arch_prctl capget capset execve execveat exit exit_group fork get_robust_list get_thread_area
getcpu getegid geteuid getgid getgroups getpgid getpgrp getpid getppid getpriority getresgid
getresuid getrlimit getrusage getsid gettid getuid ioprio_get ioprio_set kill landlock_add_rule
landlock_create_ruleset landlock_restrict_self pause pidfd_open pidfd_send_signal prctl prlimit64
restart_syscall rseq rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn
rt_sigsuspend rt_sigtimedwait rt_tgsigqueueinfo sched_get_priority_max sched_get_priority_min
sched_getaffinity sched_getattr sched_getparam sched_getscheduler sched_rr_get_interval
sched_setaffinity sched_setattr sched_setparam sched_setscheduler sched_yield seccomp
set_robust_list set_thread_area set_tid_address setfsgid setfsuid setgid setgroups setpgid
setpriority setregid setresgid setresuid setreuid setrlimit setsid setuid sigaltstack signalfd
signalfd4 sysinfo tgkill time times tkill uname vfork wait4 waitid
"""
_WAITING: Final = """
alarm clock_getres clock_gettime clock_nanosleep epoll_create epoll_create1 epoll_ctl epoll_pwait
epoll_pwait2 epoll_wait eventfd eventfd2 futex futex_requeue futex_wait futex_waitv futex_wake
getitimer getrandom gettimeofday nanosleep poll ppoll pselect6 select setitimer timer_create
timer_delete timer_getoverrun timer_gettime timer_settime timerfd_create timerfd_gettime
timerfd_settime
"""
_TALKING: Final = """
accept accept4 bind connect getpeername getsockname getsockopt listen mq_getsetattr mq_notify
mq_open mq_timedreceive mq_timedsend mq_unlink msgctl msgget msgrcv msgsnd recvfrom recvmmsg
recvmsg semctl semget semop semtimedop sendmmsg sendmsg sendto setsockopt shmat shmctl shmdt
shmget shutdown
"""
_ALLOWED: Final = (_FILES, _MEMORY, _PROCESSES, _WAITING, _TALKING)
_MISSING: Final = """
cachestat clone3 file_getattr file_setattr io_cancel io_destroy io_getevents io_pgetevents
io_setup io_submit io_uring_enter io_uring_register io_uring_setup listmount lsm_get_self_attr
lsm_list_modules lsm_set_self_attr memfd_secret modify_ldt process_madvise
set_mempolicy_home_node statmount
"""
"""Answered with ENOSYS. Among them clone3, whose flags no filter can see."""


@functools.cache
def seccomp_profile() -> str:
    """Return the profile as JSON, in the format Docker and Podman share."""
    architectures = ("SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64")
    plain = [name for names in _ALLOWED for name in names.split()]
    document: Json = {
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": errno.EPERM,
        "archMap": [{"architecture": name, "subArchitectures": []} for name in architectures],
        "syscalls": [
            _allow(plain),
            {
                "names": _MISSING.split(),
                "action": "SCMP_ACT_ERRNO",
                "errnoRet": errno.ENOSYS,
                "args": [],
            },
            _allow(["clone"], (0, _NAMESPACE_FLAGS, 0)),
            _allow(["socketpair"], (0, _INT, _AF_UNIX)),
            *_sockets(),
            _allow(["process_vm_readv"]),
            *(_allow(["ptrace"], (0, _INT, request)) for request in _TRACING),
            *(_allow(["personality"], (0, _INT, value)) for value in _PERSONALITIES),
            *(_allow(["ioctl"], (1, *masked)) for masked in other_than(_TTY_INJECTION)),
        ],
    }
    return json.dumps(document, separators=(",", ":"))


def _allow(names: Iterable[str], *comparisons: tuple[int, int, int]) -> Json:
    """Allow ``names`` when every comparison (argument, mask, value) holds."""
    arguments = [
        {"index": index, "value": mask, "valueTwo": value, "op": "SCMP_CMP_MASKED_EQ"}
        for index, mask, value in comparisons
    ]
    return {"names": list(names), "action": "SCMP_ACT_ALLOW", "args": arguments}


def _sockets() -> Iterator[Json]:
    yield _allow(["socket"], (0, _INT, _AF_UNIX))
    yield _allow(["socket"], (0, _INT, _AF_NETLINK), (2, _INT, _NETLINK_ROUTE))
    for family in (_AF_INET, _AF_INET6):
        for kind, protocol in _INET_SOCKETS:
            yield _allow(["socket"], (0, _INT, family), (1, _TYPE_MASK, kind), (2, _INT, protocol))


def other_than(values: Iterable[int]) -> list[tuple[int, int]]:
    """Return (mask, value) pairs of which one holds for every 32-bit number but ``values``.

    There is no masked "not equal": this walks the binary tree of the forbidden numbers and allows
    each subtree that contains none of them.
    """
    pairs: list[tuple[int, int]] = []
    branches = [(0, 0, sorted(values))]
    while branches:
        mask, value, inside = branches.pop()
        if not inside:
            pairs.append((mask, value))
        elif mask != _INT:
            bit = _next_bit(mask)
            for choice in (0, bit):
                kept = [number for number in inside if number & bit == choice]
                branches.append((mask | bit, value | choice, kept))
    return pairs


def _next_bit(mask: int) -> int:
    return 1 << (31 - mask.bit_count())
