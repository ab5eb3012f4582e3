"""Which process a daemon is: a pid means nothing without its start time and the boot it is of."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_STATE_FIELD: Final = 0
_START_FIELD: Final = 19
"""Counted from the field after the program's name in /proc/PID/stat; see proc(5)."""
_BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"
_DEAD: Final = frozenset({"Z", "X", "x"})


@dataclass(frozen=True, slots=True)
class DaemonRecord:
    """One process of one boot, and the mark of the namespace it and its helpers live in."""

    pid: int
    start_time: int
    """Clock ticks since the boot."""
    boot_id: str
    mark: str
    """Source of a mount that exists only in the daemon's mount namespace. Unlike the number of
    the namespace it is never reused."""

    def as_json(self) -> dict[str, object]:
        """Return the record for `read_record`."""
        return {
            "pid": self.pid,
            "start_time": self.start_time,
            "boot_id": self.boot_id,
            "mark": self.mark,
        }


def this_process(mark: str) -> DaemonRecord:
    """Return the record of the calling process; executing another program does not change it."""
    return DaemonRecord(
        pid=os.getpid(),
        start_time=start_time(os.getpid()) or 0,
        boot_id=boot_id(),
        mark=mark,
    )


def read_record(path: Path) -> DaemonRecord | None:
    """Return the record in ``path``; None when there is none or it was cut short."""
    try:
        document = json.loads(path.read_text())
        return DaemonRecord(
            pid=int(document["pid"]),
            start_time=int(document["start_time"]),
            boot_id=str(document["boot_id"]),
            mark=str(document["mark"]),
        )
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def is_alive(record: DaemonRecord) -> bool:
    """Return whether that very process still runs."""
    return record.boot_id == boot_id() and start_time(record.pid) == record.start_time


def boot_id() -> str:
    """Return the identity of this boot."""
    return Path(_BOOT_ID).read_text().strip()


def start_time(pid: int) -> int | None:
    """Return when a process started, in ticks since the boot; None when it does not run."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split(" ")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[_STATE_FIELD] in _DEAD else int(fields[_START_FIELD])


def parent(pid: int) -> int | None:
    """Return a process's parent; None when it does not run."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split(" ")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return int(fields[1])


def bears(pid: int, mark: str) -> bool:
    """Return whether a process lives in the mount namespace that bears ``mark``."""
    try:
        mounts = Path(f"/proc/{pid}/mountinfo").read_text()
    except OSError:
        # It ended meanwhile: the file of a zombie cannot be read either.
        return False
    return bool(mark) and f" - tmpfs {mark} " in mounts
