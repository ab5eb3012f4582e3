"""Every resource taken up to its limit, each in a run of its own: it is the limit that ends it.

Bounds are a little above the limit that is promised, so that where there is none the host is asked
for little more than it promised anyway.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Final

from sandboxrun.checks.attempt import Attempt
from sandboxrun.checks.probe import (
    Excuse,
    Group,
    Judge,
    Probe,
    Seen,
    Severity,
    Verdict,
    held,
    not_applicable,
    opened,
)
from sandboxrun.checks.probes.limits import UNBOUNDED_WORKSPACE
from sandboxrun.checks.surroundings import Surroundings
from sandboxrun.model.limits import MIB

_SECONDS: Final = 60.0
_DISK_SECONDS: Final = 240.0
_MORE: Final = 200
_MORE_MIB: Final = 64
_MORE_FILES: Final = 2000
_WORKSPACE_FILES: Final = 30_000
_CPU_SECONDS: Final = 4
_CPU_SLACK: Final = 1.2
"""A quota is enforced by period; the first may be used whole."""
_TERMINALS: Final = 4000
_SHARED_POOL: Final = frozenset({errno.ENOSPC, errno.EIO, errno.ENFILE})
"""How a pool that belongs to the whole machine says that it is empty."""


def _bounded(attempts: tuple[Attempt, ...], seen: Seen) -> Verdict:
    """Something stopped it before it had all it asked for."""
    if not attempts:
        return not_applicable("this host has not enough of it to try")
    found = seen(attempts[0])
    if found.ended_by_limit:
        return held(f"the run was ended: {found.end}")
    if not found.answered:
        return opened(f"{attempts[0]}: {found}")
    if found.error or found.text:
        how = found.text or errno.errorcode.get(found.error, str(found.error))
        return held(f"stopped at {found.value} by {how}")
    return opened(f"took {found.value} without being stopped")


def _from_a_pool(attempts: tuple[Attempt, ...], seen: Seen) -> Verdict:
    found = seen(attempts[0])
    if found.error in _SHARED_POOL:
        return opened(f"took {found.value}, all that the machine had for others, too")
    return _bounded(attempts, seen)


def _share(attempts: tuple[Attempt, ...], seen: Seen) -> Verdict:
    found = seen(attempts[0])
    bound = min(seen.around.limits.cpus, float(seen.around.engine.cpus)) * 100
    if not found.succeeded:
        return opened(str(found))
    if found.value > bound * _CPU_SLACK:
        return opened(f"{found.value} % of a CPU, promised at most {bound:g} %")
    return held(f"{found.value} % of a CPU, promised at most {bound:g} %")


def _memory(kind: str) -> Callable[[Surroundings], tuple[Attempt, ...]]:
    def attempts(around: Surroundings) -> tuple[Attempt, ...]:
        wanted = around.limits.memory_bytes // MIB + _MORE_MIB
        if around.host is not None and wanted * MIB > around.host.memory_bytes // 2:
            return ()
        return (Attempt("memory", (kind, str(wanted)), _SECONDS),)

    return attempts


def _counted(
    verb: str, *arguments: str, most: Callable[[Surroundings], int], seconds: float = _SECONDS
) -> Callable[[Surroundings], tuple[Attempt, ...]]:
    def attempts(around: Surroundings) -> tuple[Attempt, ...]:
        return (Attempt(verb, (*arguments, str(most(around))), seconds),)

    return attempts


def _cpu(around: Surroundings) -> tuple[Attempt, ...]:
    processes = around.engine.cpus + 1
    return (Attempt("cpu", (str(processes), str(_CPU_SECONDS)), _SECONDS),)


def _probe(
    name: str,
    promise: str,
    judge: Judge,
    attempts: Callable[[Surroundings], tuple[Attempt, ...]],
    excuses: tuple[Excuse, ...] = (),
) -> Probe:
    return Probe(
        id=f"res.{name}",
        group=Group.RESOURCES,
        severity=Severity.DOS,
        promise=promise,
        attempts=attempts,
        judge=judge,
        resource=True,
        excuses=excuses,
    )


def _pids(around: Surroundings) -> int:
    return around.limits.pids + _MORE


def _files(around: Surroundings) -> int:
    return around.limits.open_files + _MORE


def _pipes(around: Surroundings) -> int:
    """Each has two ends."""
    return _files(around) // 2


_UNBOUNDED: Final = (Excuse(lambda _: True, UNBOUNDED_WORKSPACE),)
RESOURCES: Final = (
    _probe(
        "fork_bomb", "A fork bomb is stopped.", _bounded, _counted("processes-bomb", most=_pids)
    ),
    _probe("processes", "Processes are stopped.", _bounded, _counted("take-processes", most=_pids)),
    _probe("threads", "Threads are stopped.", _bounded, _counted("take-threads", most=_pids)),
    _probe("memory_anonymous", "Memory is stopped.", _bounded, _memory("anonymous")),
    _probe("memory_memfd", "Memory of nameless files is stopped.", _bounded, _memory("memfd")),
    _probe("memory_sysv", "Shared memory of System V is stopped.", _bounded, _memory("sysv")),
    _probe("memory_shm", "/dev/shm is stopped.", _bounded, _memory("/dev/shm")),
    _probe("memory_tmp", "/tmp is stopped.", _bounded, _memory("/tmp")),
    _probe(
        "disk_file",
        "A single file is stopped, also a sparse one.",
        _bounded,
        _counted("one-file", ".", most=lambda around: around.limits.disk_bytes + MIB),
    ),
    _probe(
        "disk_workspace",
        "The workspace is stopped.",
        _bounded,
        _counted(
            "fill",
            ".",
            most=lambda around: around.limits.disk_bytes // MIB + _MORE_MIB,
            seconds=_DISK_SECONDS,
        ),
        _UNBOUNDED,
    ),
    _probe(
        "disk_root",
        "The root takes nothing at all.",
        _bounded,
        _counted("fill", "/var/tmp", most=lambda _: _MORE_MIB),
    ),
    _probe(
        "inodes_tmp",
        "Files in /tmp are stopped.",
        _bounded,
        _counted("inodes", "/tmp", most=lambda around: around.limits.tmp_inodes + _MORE_FILES),
    ),
    _probe(
        "inodes_shm",
        "Files in /dev/shm are stopped.",
        _bounded,
        _counted("inodes", "/dev/shm", most=lambda around: around.limits.tmp_inodes + _MORE_FILES),
    ),
    _probe(
        "inodes_workspace",
        "Files in the workspace are stopped.",
        _bounded,
        _counted("inodes", ".", most=lambda _: _WORKSPACE_FILES, seconds=_DISK_SECONDS),
        _UNBOUNDED,
    ),
    _probe(
        "descriptors", "Open files are stopped.", _bounded, _counted("take", "file", most=_files)
    ),
    _probe(
        "pipes",
        "Pipes and their buffers are stopped.",
        _bounded,
        _counted("take", "pipe", most=_pipes),
    ),
    _probe("sockets", "Sockets are stopped.", _bounded, _counted("take", "inet", most=_files)),
    _probe("inotify", "Watches are stopped.", _bounded, _counted("take", "inotify", most=_files)),
    _probe(
        "terminals",
        "Terminals are stopped before others have none left.",
        _from_a_pool,
        _counted("take", "terminal", most=lambda _: _TERMINALS),
        (
            Excuse(
                lambda _: True,
                "engines mount devpts without a maximum of its own; the host keeps a reserve",
            ),
        ),
    ),
    _probe(
        "queues",
        "Message queues are stopped.",
        _bounded,
        _counted("queues", most=lambda _: 64 * 1024),
    ),
    _probe("timers", "Timers are stopped.", _bounded, _counted("timers", most=lambda _: 1_000_000)),
    _probe("cpu_share", "No more CPU time is used than promised.", _share, _cpu),
)
