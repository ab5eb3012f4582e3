"""Events of a run for one consumer: from any number on, live or afterwards, from any process."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Final

import anyio

from sandboxrun.model.event import Event
from sandboxrun.output.changes import Changes
from sandboxrun.output.spool import COALESCE_SECONDS
from sandboxrun.output.spool_reader import SpoolReader

FIRST_POLL_SECONDS: Final = 0.02
"""How soon another process's spool is looked at again after it changed."""
LAST_POLL_SECONDS: Final = 0.2
"""How often when it has been quiet; also how often its writer's life is checked."""


async def batches(
    path: Path,
    *,
    after: int = 0,
    changes: Changes | None = None,
    interval_seconds: float = COALESCE_SECONDS,
) -> AsyncGenerator[list[Event]]:
    """Yield the events behind number ``after`` in non-empty lists, up to the last one there is.

    The first list comes at once, the next ones at most every ``interval_seconds`` (0: as they
    come), and the end of the run is never held back. Who takes long to come back gets longer
    lists, up to a bound, and never a hole. ``changes`` is the writer's, where it is in this
    process; without it the file is looked at from time to time. Ends behind `Settled`, or where
    the spool ends whose writer is gone.

    Raises `OutputError` if the file cannot be read. Cancelling leaves nothing behind; close the
    generator (``contextlib.aclosing``) when leaving early.
    """
    with SpoolReader(path, after=after) as reader:
        poll = FIRST_POLL_SECONDS
        while True:
            seen = 0 if changes is None else changes.count
            final = changes.final if changes is not None else not reader.writer_lives
            batch = reader.read(final=final)
            if batch:
                yield batch
                poll = FIRST_POLL_SECONDS
            if reader.settled or reader.damage is not None or (final and not batch):
                return
            if batch:
                await _pause(0 if reader.behind else interval_seconds, changes)
            elif changes is not None:
                await changes.wait(seen)
            else:
                await anyio.sleep(poll)
                poll = min(2 * poll, LAST_POLL_SECONDS)


async def events(
    path: Path,
    *,
    after: int = 0,
    changes: Changes | None = None,
    interval_seconds: float = COALESCE_SECONDS,
) -> AsyncGenerator[Event]:
    """Yield the events behind number ``after`` one by one; see `batches`."""
    stream = batches(path, after=after, changes=changes, interval_seconds=interval_seconds)
    try:
        async for batch in stream:
            for event in batch:
                yield event
    finally:
        await stream.aclose()


async def _pause(seconds: float, changes: Changes | None) -> None:
    if changes is None or seconds <= 0:
        await anyio.sleep(seconds)
        return
    with anyio.move_on_after(seconds):
        await changes.wait_final()
