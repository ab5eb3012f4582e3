"""How much memory the host can still give."""

from __future__ import annotations

from pathlib import Path

_MEMINFO = Path("/proc/meminfo")
_KIB = 1024


def available_bytes(meminfo: Path = _MEMINFO) -> int | None:
    """Return the kernel's estimate of memory for new programs (proc(5)); None where it has none.

    Blocks for a moment.
    """
    try:
        lines = meminfo.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * _KIB
    return None
