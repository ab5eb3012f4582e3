"""What one run says while it runs: its spool, its preview and a digest of its output."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import anyio

from sandboxrun.errors import OutputError
from sandboxrun.model.event import Event, Exited, Settled, Step, Stream, Truncated
from sandboxrun.model.output_limit import OnOutputLimit
from sandboxrun.model.preview import Preview
from sandboxrun.output.capture import Capture, OutputPolicy
from sandboxrun.output.changes import Changes
from sandboxrun.output.events import events
from sandboxrun.output.redact import Redaction
from sandboxrun.output.spool import SpoolWriter


class RunLog:
    """The writing end of one run's output. Close it when the run is settled."""

    def __init__(
        self,
        path: Path,
        redaction: Redaction,
        *,
        policy: OutputPolicy | None = None,
        on_limit: Callable[[], object] | None = None,
    ) -> None:
        """Create the spool. Raises `OutputError` when that is not possible.

        ``on_limit`` is called once, when the output limit is passed and the policy says that the
        run shall end.
        """
        self.path = path
        self.capture = Capture(redaction, OutputPolicy() if policy is None else policy)
        self._redaction = redaction
        self._on_limit = on_limit
        self._spool = SpoolWriter(path)
        self._opened = anyio.Event()
        self._announced = False
        self._finished = False
        self.fault: OutputError | None = None
        """The first failure to write output down, for want of space say. What the command wrote
        since then is counted and previewed, and the run goes on."""

    @property
    def changes(self) -> Changes:
        """Wakes consumers in this process."""
        return self._spool.changes

    @property
    def output_bytes(self) -> int:
        """How many bytes the command wrote so far, both streams together."""
        return self.capture.total_bytes

    def keep_at_most(self, limit_bytes: int) -> None:
        """Keep no more than this of the output. Only before there is any."""
        policy = self.capture.policy
        self.capture.policy = replace(policy, limit_bytes=min(policy.limit_bytes, limit_bytes))

    def event(self, step: Step) -> None:
        """Put an event at the end.

        Raises `OutputError` when it cannot be written, unless the command has ended: then there is
        nothing left to refuse, and ``fault`` tells it.
        """
        if not isinstance(step, Exited | Settled):
            self._spool.append(step)
            return
        self.finish_output()
        try:
            self._spool.append(step)
        except OutputError as fault:
            self.fault = fault if self.fault is None else self.fault

    def output(self, stream: Stream, data: bytes) -> None:
        """Take what the command wrote. Never raises for want of space; see ``fault``."""
        self._append(self.capture.feed(stream, data))
        if self.capture.limit_reached and not self._announced:
            self._announced = True
            self._announce_limit()

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
                self._keeping(self._spool.close_event)

    def preview(self, *, rest: str | None = None) -> Preview:
        """Return the preview; no output may follow. ``rest`` says where the complete output is."""
        self.finish_output()
        return self.capture.preview(rest=rest)

    def text(self, text: str) -> str:
        """Return ``text`` as it may be shown beside the output: without secrets."""
        return self._redaction.text(text)

    def output_digest(self) -> str:
        """Return the SHA-256 (hex) of the output as it is kept, both streams in their order."""
        self.finish_output()
        return self._spool.output_digest()

    def events(self, after: int = 0) -> AsyncGenerator[Event]:
        """Yield the events behind number ``after``, live; see `sandboxrun.output.events.events`."""
        return events(self.path, after=after, changes=self.changes)

    def close(self) -> None:
        """Let go of the spool. Safe to call twice."""
        try:
            self._spool.close()
        except OutputError as fault:
            self.fault = fault

    def finish_output(self) -> None:
        """Say that the command writes no more, so that ``fault`` is known. Safe to call twice."""
        if not self._finished:
            self._finished = True
            self._append(self.capture.finish())
            self._keeping(self._spool.finish_output)

    def _append(self, parts: list[tuple[Stream, bytes]]) -> None:
        for stream, data in parts:
            self._keeping(partial(self._spool.append_output, stream, data))
        if parts:
            self._opened.set()

    def _announce_limit(self) -> None:
        policy = self.capture.policy
        discarding = policy.on_limit is OnOutputLimit.DISCARD
        truncated = Truncated(
            kept_bytes=self._spool.output_bytes,
            limit_bytes=policy.limit_bytes,
            discarding=discarding,
        )
        self._keeping(partial(self._spool.append, truncated))
        if not discarding and self._on_limit is not None:
            self._on_limit()

    def _keeping(self, write: Callable[[], object]) -> None:
        """Write, unless it failed before: what is kept shall be a prefix of what was written."""
        if self.fault is None:
            try:
                write()
            except OutputError as fault:
                self.fault = fault
