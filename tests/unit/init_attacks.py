# ruff: noqa: PTH208, PTH123, PTH115, SIM115, T201 - an attacker calls the system as directly as it can
"""Runs inside the sandbox: everything a process of the same user can try against PID 1.

Prints one line for each attempt: its name and "ok", an errno name, or what happened.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import platform
import signal
import sys
from collections.abc import Callable, Iterator

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long
NUMBERS = {
    "x86_64": {
        "prlimit64": 302,
        "sched_setaffinity": 203,
        "sched_setscheduler": 144,
        "sched_setparam": 142,
        "sched_setattr": 314,
        "setpriority": 141,
        "ioprio_set": 251,
        "ptrace": 101,
        "process_vm_readv": 310,
        "process_vm_writev": 311,
        "pidfd_open": 434,
        "pidfd_getfd": 438,
        "pidfd_send_signal": 424,
        "kcmp": 312,
        "move_pages": 279,
        "migrate_pages": 256,
        "rt_sigqueueinfo": 129,
        "tkill": 200,
        "perf_event_open": 298,
        "process_madvise": 440,
        "get_robust_list": 274,
        "setpgid": 109,
    },
    "aarch64": {
        "prlimit64": 261,
        "sched_setaffinity": 122,
        "sched_setscheduler": 119,
        "sched_setparam": 118,
        "sched_setattr": 274,
        "setpriority": 140,
        "ioprio_set": 30,
        "ptrace": 117,
        "process_vm_readv": 270,
        "process_vm_writev": 271,
        "pidfd_open": 434,
        "pidfd_getfd": 438,
        "pidfd_send_signal": 424,
        "kcmp": 272,
        "move_pages": 239,
        "migrate_pages": 238,
        "rt_sigqueueinfo": 138,
        "tkill": 130,
        "perf_event_open": 241,
        "process_madvise": 440,
        "get_robust_list": 100,
        "setpgid": 154,
    },
}[platform.machine()]
INIT = [int(name) for name in os.listdir("/proc/1/task")]
BIG = 1 << 32


def call(name: str, *arguments: object) -> str:
    ctypes.set_errno(0)
    converted = [
        ctypes.c_long(argument) if isinstance(argument, int) else argument for argument in arguments
    ]
    result = LIBC.syscall(ctypes.c_long(NUMBERS[name]), *converted)
    return "ok" if result >= 0 else errno.errorcode[ctypes.get_errno()]


def say(name: str, result: object) -> None:
    print(f"{name}\t{result}", flush=True)


def encodings(pid: int) -> Iterator[int]:
    yield pid
    yield pid | BIG
    yield pid | (0x7FFFFFFF << 32)


def priorities(pid: int, own: bool) -> None:
    nothing = (ctypes.c_ulong * 2)(0, 0)
    mask = (ctypes.c_ulong * 16)(1)
    parameter = ctypes.c_int(0)
    attributes = (ctypes.c_uint32 * 12)(48, 5)
    for raw in [pid] if own else encodings(pid):
        say("prlimit64", call("prlimit64", raw, 7, nothing if not own else None, nothing))
        say("sched_setaffinity", call("sched_setaffinity", raw, 128, mask))
        say("sched_setscheduler", call("sched_setscheduler", raw, 5, ctypes.byref(parameter)))
        say("sched_setparam", call("sched_setparam", raw, ctypes.byref(parameter)))
        say("sched_setattr", call("sched_setattr", raw, attributes, 0))
        say("setpriority", call("setpriority", 0, raw, 19))
        say("ioprio_set", call("ioprio_set", 1, raw, (3 << 13)))


def groups() -> None:
    for which in (1, 1 | BIG):
        say("setpriority group", call("setpriority", which, os.getpgid(1), 19))
        say("ioprio_set group", call("ioprio_set", which + 1, os.getpgid(1), 3 << 13))
    for which in (2, 2 | BIG):
        for user in (0, os.getuid(), os.getuid() | BIG):
            say("setpriority user", call("setpriority", which, user, 19))
            say("ioprio_set user", call("ioprio_set", which + 1, user, 3 << 13))


def signals() -> None:
    info = (ctypes.c_int * 32)(0, 0, -1)
    pidfd = os.pidfd_open(1)
    for number in range(1, 65):
        for _ in range(50):
            os.kill(1, number)
            for tid in INIT:
                call("tkill", tid, number)
            call("rt_sigqueueinfo", 1, number, info)
            call("pidfd_send_signal", pidfd, number, None, 0)
    for _ in range(20_000):
        os.kill(1, signal.SIGCHLD)
    say("signals", "sent")


def intrusions() -> None:
    for tid in INIT:
        for request in (16, 0x4206):
            say("ptrace", call("ptrace", request, tid, 0, 0))
        say("get_robust_list", call("get_robust_list", tid, ctypes.c_void_p(), ctypes.c_void_p()))
    vector = (ctypes.c_ulong * 2)(0, 8)
    say("process_vm_readv", call("process_vm_readv", 1, vector, 1, vector, 1, 0))
    say("process_vm_writev", call("process_vm_writev", 1, vector, 1, vector, 1, 0))
    pidfd = os.pidfd_open(1)
    for number in range(3):
        say("pidfd_getfd", call("pidfd_getfd", pidfd, number, 0))
    say("process_madvise", call("process_madvise", pidfd, vector, 1, 21, 0))
    say("kcmp", call("kcmp", 1, os.getpid(), 2, 0, 0))
    say("move_pages", call("move_pages", 1, 0, None, None, None, 0))
    say("setpgid", call("setpgid", 1, os.getpgrp()))
    say("perf_event_open", call("perf_event_open", (ctypes.c_uint32 * 32)(1, 128), 1, -1, -1, 0))


def proc_files() -> None:
    for tid in INIT:
        base = f"/proc/1/task/{tid}"
        for name in ("mem", "environ", "maps", "auxv", "syscall", "stack", "io", "personality"):
            say(f"read {name}", attempt(lambda n=name, b=base: open(f"{b}/{n}").read()))
        for name in ("exe", "cwd", "root"):
            say(f"readlink {name}", attempt(lambda n=name, b=base: os.readlink(f"{b}/{n}")))
        say("list fd", attempt(lambda b=base: os.listdir(f"{b}/fd")))
    for name in ("oom_score_adj", "oom_adj", "comm", "coredump_filter", "timerslack_ns", "mem"):
        say(f"write {name}", attempt(lambda n=name: overwrite(f"/proc/1/{n}")))
    for name in ("autogroup", "clear_refs", "sched", "setgroups", "uid_map", "attr/current"):
        say(f"write {name}", attempt(lambda n=name: overwrite(f"/proc/1/{n}")))
    for number in range(12):
        say("open fd", attempt(lambda n=number: os.open(f"/proc/1/fd/{n}", os.O_RDWR)))


def overwrite(path: str) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, b"1")
    finally:
        os.close(descriptor)


def attempt(action: Callable[[], object]) -> str:
    try:
        action()
    except FileNotFoundError:
        return "ENOENT"
    except OSError as error:
        return errno.errorcode[error.errno]
    return "ok"


def pipes() -> None:
    for number in (0, 1, 2):
        fcntl.fcntl(number, fcntl.F_SETOWN, 1)
        attempt(lambda n=number: fcntl.fcntl(n, 10, 40))  # F_SETSIG
        flags = fcntl.fcntl(number, fcntl.F_GETFL)
        fcntl.fcntl(number, fcntl.F_SETFL, flags | os.O_NONBLOCK | os.O_ASYNC)
    for number in (1, 2):
        for size in (4096, 1 << 20, 65536):
            attempt(lambda n=number, s=size: fcntl.fcntl(n, 1031, s))
    say("pipes", "tampered")
    for number in (1, 2):
        flags = fcntl.fcntl(number, fcntl.F_GETFL)
        fcntl.fcntl(number, fcntl.F_SETFL, flags & ~(os.O_NONBLOCK | os.O_ASYNC))
    hoard = []
    while len(hoard) < 200 and attempt(lambda: hoard.append(os.pipe())) == "ok":
        attempt(lambda: fcntl.fcntl(hoard[-1][1], 1031, 1 << 20))
    say("hoard", "done")


def pending_signals() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {60})
    info = (ctypes.c_int * 32)(60, 0, -1)
    sent = 0
    while sent < 200_000 and call("rt_sigqueueinfo", os.getpid(), 60, info) == "ok":
        sent += 1
    say("pending", "full")


if __name__ == "__main__":
    match sys.argv[1]:
        case "priorities":
            for thread in INIT:
                priorities(thread, own=False)
            groups()
        case "own":
            priorities(0, own=True)
            priorities(os.getpid(), own=True)
            child = os.fork()
            if child == 0:
                signal.pause()
            priorities(child, own=True)
            os.kill(child, signal.SIGKILL)
        case "intrusions":
            intrusions()
            proc_files()
        case "signals":
            signals()
        case "pipes":
            pipes()
        case "pending":
            pending_signals()
    say("end", "reached")
