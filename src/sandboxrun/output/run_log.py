"""What one run says while it runs: its spool, its preview and a digest of its output."""

from __future__ import annotations

import hashlib
import time
from collections.abc import AsyncGenerator
from pathlib import Path

import anyio

from sandboxrun.model.event import Event, Step, Stream
from sandboxrun.model.preview import Preview
from sandboxrun.output.changes import Changes
from sandboxrun.output.events import events
from sandboxrun.output.preview import PreviewBuilder
from sandboxrun.output.spool import SpoolWriter


class RunLog:
    """The writing end of one run's output. Close it when the run is settled."""

    def __init__(self, path: Path) -> None:
        """Create the spool. Raises `OutputError` when that is not possible."""
        self.path = path
        self._spool = SpoolWriter(path)
        self._preview = PreviewBuilder()
        self._digest = hashlib.sha256()
        self._bytes = 0
        self._opened = anyio.Event()

    @property
    def changes(self) -> Changes:
        """Wakes consumers in this process."""
        return self._spool.changes

    @property
    def output_bytes(self) -> int:
        """How many bytes the command wrote so far, both streams together."""
        return self._bytes

    def event(self, step: Step) -> None:
        """Put an event at the end. Raises `OutputError` when it cannot be written."""
        self._spool.append(step)

    def output(self, stream: Stream, data: bytes) -> None:
        """Put output at the end. Raises `OutputError` when it cannot be written."""
        self._bytes += len(data)
        self._digest.update(data)
        self._spool.append_output(stream, data)
        self._preview.feed(data)
        self._opened.set()

    async def complete_events(self) -> None:
        """Complete events when their time is over, until cancelled. Cancelling leaves nothing."""
        while True:
            due = self._spool.due
            if due is None:
                self._opened = anyio.Event()
                await self._opened.wait()
                continue
            await anyio.sleep(max(due - time.monotonic(), 0.0))
            if self._spool.due == due:
                self._spool.close_event()

    def preview(self) -> Preview:
        """Return the preview; no output may follow."""
        return self._preview.finish()

    def output_digest(self) -> str:
        """Return the SHA-256 (hex) of the output, both streams in their order."""
        return self._digest.hexdigest()

    def events(self, after: int = 0) -> AsyncGenerator[Event]:
        """Yield the events behind number ``after``, live; see `sandboxrun.output.events.events`."""
        return events(self.path, after=after, changes=self.changes)

    def close(self) -> None:
        """Let go of the spool. Safe to call twice."""
        self._spool.close()
