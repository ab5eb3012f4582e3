"""Limits, as they are set; `resources` tries whether they hold."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from sandboxrun.checks.attempt import Attempt, Observation
from sandboxrun.checks.judging import judged_by, listed, reads, refused
from sandboxrun.checks.probe import (
    Excuse,
    Group,
    Judge,
    Probe,
    Seen,
    Severity,
    Verdict,
    held,
    opened,
)
from sandboxrun.checks.surroundings import Surroundings
from sandboxrun.engine.hardening import MEMLOCK_BYTES, MSGQUEUE_BYTES
from sandboxrun.errors import ProtocolError
from sandboxrun.init.proc import parse_limits
from sandboxrun.model.limits import MIB, Limits

_RLIMITS: Final = Attempt("read", ("/proc/self/limits",))
_V1: Final = "/sys/fs/cgroup"
_PERIOD: Final = 100_000
_UNBOUNDED: Final = 2**62
_PAGE: Final = 4096
_RAISED: Final = ("1", "4", "6", "7", "8", "11", "12", "13", "14")
"""FSIZE, CORE, NPROC, NOFILE, MEMLOCK, SIGPENDING, MSGQUEUE, NICE and RTPRIO, by their numbers."""
_NUMBERS: Final = re.compile(r"(\w+)=(\d+)")


def _rlimit(name: str, most: Callable[[Limits], int]) -> Judge:
    def judge(found: Observation, seen: Seen) -> Verdict:
        try:
            limits = {each.name: each.hard for each in parse_limits(found.text)}
        except ProtocolError as fault:
            return opened(fault.message)
        value, bound = limits.get(name), most(seen.around.limits)
        if value is None or value > bound:
            return opened(f"{'unlimited' if value is None else value}, promised at most {bound}")
        return held(str(value))

    return judged_by(judge)


def _cgroup(wanted: Callable[[Surroundings], int]) -> Judge:
    """Return a judge of a limit that is in one file with cgroup v1 and in another with v2."""

    def judge(attempts: tuple[Attempt, ...], seen: Seen) -> Verdict:
        found = [seen(each).text.strip() for each in attempts if seen(each).succeeded]
        bound = wanted(seen.around)
        values = [
            int(text.split()[0])
            for text in found
            if text.split()[:1] and text.split()[0].isdecimal()
        ]
        if not values or min(values) > bound:
            return opened(f"{listed(found) or 'nothing readable'}, promised at most {bound}")
        return held(str(min(values)))

    return judge


def _swap(attempts: tuple[Attempt, ...], seen: Seen) -> Verdict:
    both, swap, own = (seen(each) for each in attempts)
    memory = seen.around.limits.memory_bytes
    if both.succeeded and both.text.strip().isdecimal():
        more = int(both.text) - memory
        return opened(f"{more} bytes of swap") if more > 0 else held("none on top of memory")
    if swap.succeeded:
        return held("none") if swap.text.strip() == "0" else opened(swap.text.strip())
    # A kernel without swap accounting: no swap is what is left to be seen.
    return (
        held("no swap accounting and no swap") if _no_swap(own) else opened("swap is not limited")
    )


def _no_swap(meminfo: Observation) -> bool:
    return re.search(r"^SwapTotal:\s+0 kB$", meminfo.text, re.MULTILINE) is not None


def _quota(around: Surroundings) -> int:
    return int(min(around.limits.cpus, float(around.engine.cpus)) * _PERIOD)


def _oom(found: Observation, _: Seen) -> Verdict:
    value = found.text.strip()
    return held(value) if value.isdecimal() else opened(value)


def _size(name: str, most: Callable[[Surroundings], int]) -> Judge:
    def judge(found: Observation, seen: Seen) -> Verdict:
        numbers = {key: int(value) for key, value in _NUMBERS.findall(found.text)}
        value, bound = numbers.get(name, _UNBOUNDED), most(seen.around)
        if value == 0 or value > bound:
            return opened(f"{value} {name}, promised at most {bound}")
        return held(f"{value} {name}")

    return judged_by(judge)


def _pages(size: int) -> int:
    return -(-size // _PAGE) * _PAGE


def _probe(
    name: str,
    severity: Severity,
    promise: str,
    judge: Judge,
    *attempts: Attempt,
    excuses: tuple[Excuse, ...] = (),
) -> Probe:
    return Probe(
        id=f"lim.{name}",
        group=Group.LIMITS,
        severity=severity,
        promise=promise,
        attempts=attempts,
        judge=judge,
        excuses=excuses,
    )


def _statvfs(path: str) -> Attempt:
    return Attempt("statvfs", (path,))


UNBOUNDED_WORKSPACE: Final = (
    "the store's file system has no quota for a directory: only the size of one file is bounded"
)
_D: Final = Severity.DOS
LIMITS: Final = (
    _probe(
        "memory",
        _D,
        "Memory is limited.",
        _cgroup(lambda around: around.limits.memory_bytes),
        *reads(f"{_V1}/memory/memory.limit_in_bytes", f"{_V1}/memory.max"),
    ),
    _probe(
        "swap",
        _D,
        "There is no swap on top of it.",
        _swap,
        *reads(
            f"{_V1}/memory/memory.memsw.limit_in_bytes", f"{_V1}/memory.swap.max", "/proc/meminfo"
        ),
    ),
    _probe(
        "pids",
        _D,
        "Processes and threads are limited.",
        _cgroup(lambda around: around.limits.pids),
        *reads(f"{_V1}/pids/pids.max", f"{_V1}/pids.max"),
    ),
    _probe(
        "cpu",
        _D,
        "CPU time is limited.",
        _cgroup(_quota),
        *reads(f"{_V1}/cpu/cpu.cfs_quota_us", f"{_V1}/cpu.max"),
    ),
    _probe(
        "nofile",
        _D,
        "Open files are limited.",
        _rlimit("nofile", lambda limits: limits.open_files),
        _RLIMITS,
    ),
    _probe(
        "fsize",
        _D,
        "The size of a file is limited.",
        _rlimit("fsize", lambda limits: limits.disk_bytes),
        _RLIMITS,
    ),
    _probe(
        "core",
        Severity.HARDENING,
        "There are no core dumps.",
        _rlimit("core", lambda _: 0),
        _RLIMITS,
    ),
    _probe(
        "memlock",
        _D,
        "Locked memory is limited.",
        _rlimit("memlock", lambda _: MEMLOCK_BYTES),
        _RLIMITS,
    ),
    _probe(
        "msgqueue",
        _D,
        "Message queues are limited.",
        _rlimit("msgqueue", lambda _: MSGQUEUE_BYTES),
        _RLIMITS,
    ),
    _probe(
        "raised",
        _D,
        "No limit can be raised.",
        refused,
        *(Attempt("raise", (number,)) for number in _RAISED),
    ),
    _probe(
        "oom_score",
        _D,
        "The kernel ends the sandbox before the engine.",
        judged_by(_oom),
        *reads("/proc/self/oom_score_adj"),
    ),
    _probe(
        "tmp_bytes",
        _D,
        "/tmp has a size.",
        _size("bytes", lambda around: _pages(around.limits.tmp_bytes)),
        _statvfs("/tmp"),
    ),
    _probe(
        "tmp_inodes",
        _D,
        "/tmp has a number of files.",
        _size("files", lambda around: around.limits.tmp_inodes),
        _statvfs("/tmp"),
    ),
    _probe(
        "shm_bytes",
        _D,
        "/dev/shm has a size.",
        _size("bytes", lambda around: _pages(around.limits.shm_bytes)),
        _statvfs("/dev/shm"),
    ),
    _probe(
        "workspace_bounded",
        _D,
        "The workspace is no larger than the disk limit.",
        _size("bytes", lambda around: around.limits.disk_bytes + 64 * MIB),
        _statvfs("."),
        excuses=(Excuse(lambda _: True, UNBOUNDED_WORKSPACE),),
    ),
)
