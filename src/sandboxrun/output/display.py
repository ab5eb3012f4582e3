"""A run's output for the human who is watching it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Final

import anyio
import anyio.lowlevel

from sandboxrun.model.event import Event, Output, Stream
from sandboxrun.output.run_log import RunLog
from sandboxrun.output.spool_reader import SpoolReader

PATIENCE_SECONDS: Final = 0.25
"""How long what is decided waits for its turn before it is shown out of it."""
_STREAMS: Final[tuple[Stream, ...]] = ("stdout", "stderr")


async def display(
    log: RunLog, *, patience_seconds: float = PATIENCE_SECONDS
) -> AsyncGenerator[tuple[Stream, bytes]]:
    """Yield what the command writes, from the beginning to the end, each byte once.

    The order is that of the log, with one exception. When one stream has stopped inside what may
    be a secret, the other would wait for it: here it does so for ``patience_seconds``, then it is
    shown first. What is held back itself is never shown undecided.

    Raises `OutputError`. Cancelling leaves nothing; close the generator when leaving early.
    """
    shown = _Shown(log)
    with SpoolReader(log.path) as reader:
        while True:
            seen, final = log.changes.count, log.changes.final
            batch = reader.read(final=final)
            for part in shown.news(batch):
                yield part
            if reader.settled or reader.damage is not None or (final and not batch):
                return
            if batch:
                await anyio.lowlevel.checkpoint()
                continue
            with anyio.move_on_after(patience_seconds) as waiting:
                await log.changes.wait(seen)
            if waiting.cancelled_caught:
                for part in shown.early():
                    yield part


class _Shown:
    """How much of each stream was shown, in its turn or before."""

    def __init__(self, log: RunLog) -> None:
        self._log = log
        self._shown: dict[Stream, int] = {"stdout": 0, "stderr": 0}
        self._read: dict[Stream, int] = {"stdout": 0, "stderr": 0}

    def news(self, batch: list[Event]) -> list[tuple[Stream, bytes]]:
        """Return what of ``batch`` was not shown before."""
        return [
            (event.stream, new)
            for event in batch
            if isinstance(event, Output) and (new := self._new(event.stream, event.data))
        ]

    def early(self) -> list[tuple[Stream, bytes]]:
        """Return what could be shown though it is not its turn."""
        parts: list[tuple[Stream, bytes]] = []
        waiting = self._log.capture.waiting()
        for stream in _STREAMS:
            passed = self._log.capture.passed_bytes(stream)
            # Else something that was passed on is still on its way through the spool.
            if self._shown[stream] >= passed:
                new = waiting[stream][self._shown[stream] - passed :]
                self._shown[stream] += len(new)
                parts.append((stream, new))
        return [part for part in parts if part[1]]

    def _new(self, stream: Stream, data: bytes) -> bytes:
        known = max(self._shown[stream] - self._read[stream], 0)
        self._read[stream] += len(data)
        self._shown[stream] = max(self._shown[stream], self._read[stream])
        return data[known:]
