"""Files of runs whose rows are gone."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

import anyio.to_thread

from sandboxrun.state.directory import usable
from sandboxrun.state.store import Store

_YOUNG_SECONDS: Final = 3600.0
"""A run's file exists for a moment before its row does: younger ones are let be."""


async def sweep(store: Store, *, gone: Collection[str]) -> int:
    """Remove the spool files of the runs ``gone`` and of runs no row knows; return how many.

    A spool file is named for its run, with one ending. Raises `StateError`. Cancellation leaves
    the rest for the next time.
    """
    spool = store.directory.spool
    young = time.time() - _YOUNG_SECONDS
    found = await anyio.to_thread.run_sync(_candidates, spool, frozenset(gone), young)
    known = await store.read(lambda tx: _known(tx, found))
    leftover = [path for run_id, path in found.items() if run_id not in known]
    return await anyio.to_thread.run_sync(_remove, leftover)


def _candidates(spool: Path, gone: Collection[str], young: float) -> dict[str, Path]:
    with usable(spool):
        return {
            path.stem: path
            for path in spool.iterdir()
            if path.stem in gone or path.lstat().st_mtime < young
        }


def _known(tx: sqlite3.Connection, run_ids: Iterable[str]) -> set[str]:
    query = "SELECT 1 FROM runs WHERE run_id = ?"
    return {run_id for run_id in run_ids if tx.execute(query, (run_id,)).fetchone() is not None}


def _remove(paths: Iterable[Path]) -> int:
    count = 0
    for path in paths:
        with usable(path), suppress(FileNotFoundError, IsADirectoryError):
            path.unlink()
            count += 1
    return count
