"""What a run consumed, as far as the init could read it."""

from __future__ import annotations

from sandboxrun.init.records import ExitRecord
from sandboxrun.model.outcome import Usage


def usage_of(record: ExitRecord | None) -> Usage:
    """Return the usage; everything is unknown without a record."""
    if record is None:
        return Usage()
    return Usage(
        cpu_seconds=(record.utime_us + record.stime_us) / 1_000_000,
        peak_memory_bytes=record.peak_memory,
        peak_pids=record.peak_pids,
        oom_kills=record.oom_kills,
        leftover_processes=record.leftover,
    )
