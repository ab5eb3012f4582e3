"""Which process owns a run, and whether it still lives.

A pid alone is reused. A pid with the start time of its process is unique within one boot, and
the kernel's boot id tells boots apart (proc(5): ``/proc/PID/stat`` field 22,
``/proc/sys/kernel/random/boot_id``).
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Self

_TEXT = re.compile(r"(\d+)\.(\d+)\.([0-9a-f-]{36})\.(\d+)", re.ASCII)
_STATE_FIELD = 0
_START_FIELD = 19
"""Index of field 22 among the fields after the command name."""


@dataclass(frozen=True, slots=True)
class Owner:
    """One process of one boot.

    ``start_ticks`` counts clock ticks from boot to the start of the process. ``pid_namespace``
    is the inode of the namespace ``pid`` is a number of.
    """

    pid: int
    start_ticks: int
    boot_id: str
    pid_namespace: int

    @classmethod
    def current(cls) -> Self:
        """Return the calling process. Blocks for three small reads of procfs."""
        pid = os.getpid()
        ticks = _start_ticks(pid)
        if ticks is None:
            raise RuntimeError("/proc does not show the calling process; is procfs mounted?")
        return cls(pid, ticks, _boot_id(), _pid_namespace())

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read back `str(owner)`. Raises `ValueError` when it is not such a text."""
        match = _TEXT.fullmatch(text)
        if match is None:
            raise ValueError(f"not an owner: {text!r}")
        pid, ticks, boot_id, namespace = match.groups()
        return cls(int(pid), int(ticks), boot_id, int(namespace))

    def __str__(self) -> str:
        return f"{self.pid}.{self.start_ticks}.{self.boot_id}.{self.pid_namespace}"

    def is_alive(self) -> bool:
        """Say whether the process can still act on what it owns.

        Another boot: dead. A zombie: dead, it runs no code any more. A pid of a namespace that is
        not ours cannot be looked up from here, so it counts as alive until the machine reboots:
        taking a run away from a living owner is worse than leaving one behind.
        """
        if self.boot_id != _boot_id():
            return False
        if self.pid_namespace != _pid_namespace():
            return True
        return _start_ticks(self.pid) == self.start_ticks


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def _pid_namespace() -> int:
    return Path("/proc/self/ns/pid").stat().st_ino


def _start_ticks(pid: int) -> int | None:
    """Return the start time of a process that runs, None for one that is gone or a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command name may hold anything, closing parentheses included: fields follow the last.
    fields = stat.rpartition(b")")[2].split()
    if fields[_STATE_FIELD] in (b"Z", b"X"):
        return None
    return int(fields[_START_FIELD])
