"""Ending a daemon and everything that belongs to it, and nothing else."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from sandboxrun.engine.daemon_record import (
    DaemonRecord,
    bears,
    boot_id,
    is_alive,
    parent,
    start_time,
)

TERM_SECONDS: Final = 15.0
"""How long a daemon may take to stop its containers and itself."""
KILL_SECONDS: Final = 5.0
_PAUSE: Final = 0.02
_ROUNDS: Final = 20
_MNT_DETACH: Final = 2


def stop(record: DaemonRecord) -> bool:
    """End the daemon, its helpers and their containers; return whether all are gone.

    Blocking; bounded by the constants above.
    """
    if is_alive(record):
        # Containers first: a daemon would wait ten seconds for each that ignores SIGTERM.
        for process in _family(record.mark, containers_only=True):
            _signal(*process, signal.SIGKILL)
        _signal(record.pid, record.start_time, signal.SIGTERM)
        if not _ended_within(record, TERM_SECONDS):
            _signal(record.pid, record.start_time, signal.SIGKILL)
            _ended_within(record, KILL_SECONDS)
    return _end_helpers(record) and not is_alive(record)


def _end_helpers(record: DaemonRecord) -> bool:
    """Kill what still lives in the daemon's mount namespace, and its children."""
    if record.boot_id != boot_id():
        return True
    for _ in range(_ROUNDS):
        left = list(_family(record.mark))
        if not left:
            return True
        for process in left:
            _signal(*process, signal.SIGKILL)
        time.sleep(_PAUSE)
    return False


def _family(mark: str, *, containers_only: bool = False) -> Iterator[tuple[int, int]]:
    """Yield pid and start of every process of the namespace and of every descendant of one.

    Shims and monitors live in the daemon's namespace, containers are their children.
    """
    pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]
    parents = {pid: parent(pid) for pid in pids}
    inside = {pid for pid in pids if bears(pid, mark)}
    for pid in pids:
        if containers_only and pid in inside:
            continue
        ancestor: int | None = pid
        while ancestor is not None and ancestor not in inside:
            ancestor = parents.get(ancestor)
        started = start_time(pid)
        if ancestor is not None and started is not None:
            yield pid, started


def _signal(pid: int, started: int, number: signal.Signals) -> None:
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        # Checked once the descriptor exists: from here on the pid cannot mean another process.
        if start_time(pid) == started:
            signal.pidfd_send_signal(descriptor, number)
    except ProcessLookupError:
        return
    finally:
        os.close(descriptor)


def _ended_within(record: DaemonRecord, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while is_alive(record):
        if time.monotonic() > deadline:
            return False
        time.sleep(_PAUSE)
    return True


def unmount_below(directory: Path) -> None:
    """Unmount whatever is mounted below ``directory`` in this namespace, deepest first."""
    libc = ctypes.CDLL(None, use_errno=True)
    for point in reversed(mounts_below(Path("/proc/self/mountinfo").read_text(), directory)):
        libc.umount2(os.fsencode(point), _MNT_DETACH)


def mounts_below(mountinfo: str, directory: Path) -> list[str]:
    """Return the mount points below ``directory``, in the order they were mounted."""
    points = [line.split(" ")[4] for line in mountinfo.splitlines()]
    decoded = [point.encode().decode("unicode_escape") for point in points]
    return [point for point in decoded if point.startswith(f"{directory}/")]
