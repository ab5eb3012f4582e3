"""Keeping the spools of all runs within bounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sandboxrun.errors import OutputError
from sandboxrun.output.spool_reader import SpoolReader

SUFFIX: Final = ".spool"


@dataclass(frozen=True, slots=True)
class SpoolPolicy:
    """How long and how much."""

    lifetime_seconds: float = 30 * 24 * 3600.0
    """Since the last event."""
    budget_bytes: int = 4 * 1024**3
    """Size of all spools together, those being written included."""


@dataclass(frozen=True, slots=True)
class _Spool:
    path: Path
    written_at: float
    bytes: int


def spool_path(directory: Path, run_id: str) -> Path:
    """Return where the spool of a run is."""
    return directory / f"{run_id}{SUFFIX}"


def collect_spools(
    directory: Path, policy: SpoolPolicy, *, now: float, may_go: Callable[[str], bool]
) -> list[str]:
    """Remove spools that are too old or too many, oldest first, and return their run ids.

    ``now`` is seconds since the epoch; ``may_go`` says whether a run is settled. A spool that is
    being written stays whatever it says. Blocks for some system calls a spool. Raises
    `OutputError` when one cannot be removed.
    """
    spools = sorted(_spools(directory), key=lambda spool: (spool.written_at, spool.path.name))
    size = sum(spool.bytes for spool in spools)
    removed: list[str] = []
    for spool in spools:
        old = now - spool.written_at > policy.lifetime_seconds
        run_id = spool.path.name.removesuffix(SUFFIX)
        if (old or size > policy.budget_bytes) and may_go(run_id) and not _is_written(spool.path):
            try:
                spool.path.unlink(missing_ok=True)
            except OSError as error:
                raise OutputError(f"{spool.path}: {error.strerror}.") from error
            size -= spool.bytes
            removed.append(run_id)
    return removed


def _spools(directory: Path) -> list[_Spool]:
    found: list[_Spool] = []
    for path in directory.glob(f"*{SUFFIX}"):
        try:
            status = path.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue
        found.append(_Spool(path, status.st_mtime, status.st_size))
    return found


def _is_written(path: Path) -> bool:
    try:
        with SpoolReader(path) as reader:
            return reader.writer_lives
    except OutputError:
        # Damaged, or gone meanwhile: nobody writes it.
        return False
