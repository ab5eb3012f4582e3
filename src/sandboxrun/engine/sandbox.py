"""One container for one command, and the conversation with the init inside it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import TypeAlias

import anyio

from sandboxrun.engine.protocol import Attachment, ContainerState, Engine, Phase
from sandboxrun.engine.spec import ContainerSpec
from sandboxrun.errors import EngineError, ProtocolError, SandboxrunError
from sandboxrun.init.posture import Posture
from sandboxrun.init.records import ExitRecord
from sandboxrun.init.request import InitRequest
from sandboxrun.init.session import (
    End,
    EndReason,
    Event,
    Exited,
    Fatal,
    InitSession,
    Output,
    PostureReceived,
)

READY_SECONDS = 60.0
"""A container that has not reported its posture by then has failed to start."""
KILL_SECONDS = 10.0
"""How long the engine may take to confirm a kill before the container is removed by force."""
DRAIN_SECONDS = 5.0
"""How long output that was written before the end may take to arrive after it."""
END_SECONDS = 15.0
"""How long the engine may take to notice that a container has ended."""
REMOVE_SECONDS = 20.0
"""How long a removal may take; what is left is removed by the next recovery."""
_NOISE_LIMIT = 4096
"""Bytes kept of what the OCI runtime printed instead of the init."""

Sink: TypeAlias = Callable[[Output], None]


class Sandbox:
    """A created container with its streams attached. Owned by `open_sandbox`."""

    def __init__(self, engine: Engine, container: str, attachment: Attachment) -> None:
        self.container = container
        self.record: ExitRecord | None = None
        self.fatal: str | None = None
        self.end: End | None = None
        self.state: ContainerState | None = None
        self.removed = False
        """Whether the engine said that the container is gone."""
        self._engine = engine
        self._attachment = attachment
        self._session = InitSession()
        self.posture: Posture | None = None
        """What the init found, once it has reported."""
        self._noise = b""

    async def start(self) -> Posture:
        """Start the container and return the posture its init reports.

        Raises `EngineError` when it does not start. Cancelling may leave it started; it is
        removed with the sandbox.
        """
        await self._engine.start(self.container)
        with anyio.move_on_after(READY_SECONDS):
            while self.posture is None and self.end is None:
                await self._receive()
        if self.posture is None:
            raise EngineError(f"The container did not report its posture. {self._said()}".strip())
        return self.posture

    async def run(self, request: InitRequest, stdin: bytes | None, sink: Sink) -> None:
        """Send ``request`` and hand every piece of output to ``sink`` until the exit record.

        Raises `EngineError` for a broken connection and `ProtocolError` for an init that does
        not keep to the protocol. Cancelling leaves the command running: `finish` ends it.
        """
        frames = self._session.request(request)
        fault: SandboxrunError | None = None
        async with anyio.create_task_group() as group:
            group.start_soon(self._feed, frames, stdin)
            try:
                await self._drain(sink)
            except SandboxrunError as error:
                fault = error
            group.cancel_scope.cancel()
        if fault is not None:
            raise fault

    def is_waiting(self) -> bool:
        """Return whether it was started, and its init still waits for a request."""
        return self.posture is not None and self.end is None and not self._attachment.pending()

    @property
    def is_over(self) -> bool:
        """Whether nothing runs in it any more: its init, or else the engine, has said so."""
        stopped = self.state is not None and self.state.phase is Phase.STOPPED
        return self.record is not None or stopped

    async def finish(self, sink: Sink) -> None:
        """Make sure that nothing runs any more, and take what was written until then.

        An exit record is written after everything is dead, so nothing else is waited for.
        Without one the container is killed, and the engine asked: its answer is ``state``, None
        when it knows no such container or does not answer. Bounded by the constants above;
        shielded, so cancelling waits for it.
        """
        with anyio.CancelScope(shield=True):
            if self.record is None:
                # Both at once: engines do not answer a kill while nobody reads the attach stream.
                async with anyio.create_task_group() as group:
                    group.start_soon(self._drain_rest, sink)
                    await self._kill()
                self.state = await self._ended()
            self._attachment.close()

    async def contradiction(self) -> str | None:
        """Ask the engine about a container whose init has reported its end; None if it agrees.

        Bounded; shielded, so cancelling waits for it.
        """
        if self.record is None:
            return None
        with anyio.CancelScope(shield=True):
            try:
                self.state = await self._engine.wait_ended(
                    self.container, timeout_seconds=END_SECONDS
                )
            except EngineError as fault:
                return f"The init reported its end, but the engine: {fault.message}"
        return None

    async def _ended(self) -> ContainerState | None:
        try:
            return await self._engine.wait_ended(self.container, timeout_seconds=END_SECONDS)
        except EngineError:
            # An engine that does not say is part of the verdict: nothing is known.
            return None

    async def _kill(self) -> None:
        with anyio.move_on_after(KILL_SECONDS):
            try:
                await self._engine.kill(self.container)
            except EngineError:
                # Removal by force follows in any case, and the verdict does not need this answer.
                return

    async def _drain_rest(self, sink: Sink) -> None:
        with anyio.move_on_after(KILL_SECONDS + DRAIN_SECONDS):
            try:
                await self._drain(sink)
            except (EngineError, ProtocolError):
                # The stream of a killed container may be cut anywhere; the cause is known already.
                return

    async def _drain(self, sink: Sink) -> None:
        # Nothing comes behind the exit record; the engine closes the stream tens of milliseconds
        # later, when the container is gone.
        while self.end is None and self.record is None:
            for event in await self._receive():
                if isinstance(event, Output):
                    sink(event)
        if self.end is None:
            return
        if self.end.remainder is not None:
            sink(self.end.remainder)
        if self.end.reason is EndReason.FATAL:
            raise ProtocolError(f"The init gave up: {self.fatal}")

    async def _receive(self) -> list[Event]:
        chunks = await self._attachment.receive()
        if not chunks:
            self.end = self._session.eof()
            return []
        events: list[Event] = []
        for chunk in chunks:
            if chunk.stderr:
                self._noise = (self._noise + chunk.data)[:_NOISE_LIMIT]
            else:
                events += self._session.receive(chunk.data)
        for event in events:
            if isinstance(event, PostureReceived):
                self.posture = event.posture
            elif isinstance(event, Exited):
                self.record = event.record
            elif isinstance(event, Fatal):
                self.fatal = event.text
        return events

    async def _feed(self, frames: Iterator[bytes], stdin: bytes | None) -> None:
        try:
            for frame in frames:
                await self._attachment.send(frame)
            if stdin is not None:
                for frame in self._session.stdin(stdin):
                    await self._attachment.send(frame)
                await self._attachment.send(self._session.stdin_end())
        except EngineError:
            # A command may end before it has read its input. If the connection is really gone,
            # the reading side says so.
            return

    def _said(self) -> str:
        if self.fatal is not None:
            return self.fatal
        return self._noise.decode("utf-8", "backslashreplace").strip()


@asynccontextmanager
async def open_sandbox(engine: Engine, spec: ContainerSpec) -> AsyncIterator[Sandbox]:
    """Create a container, attach to it, and remove it by name at the end, whatever happened.

    Raises `ImageUnusableError` or `EngineError`. Removal is shielded and bounded; what could not
    be removed in time carries the labels by which the next recovery finds it.
    """
    sandbox: Sandbox | None = None
    try:
        # Shielded, bounded by the call's own deadline: an abandoned creation may be carried out
        # after the removal below has found nothing to remove.
        with anyio.CancelScope(shield=True):
            container = await engine.create(spec)
        async with engine.attach(container) as attachment:
            sandbox = Sandbox(engine, container, attachment)
            yield sandbox
    finally:
        with anyio.CancelScope(shield=True), anyio.move_on_after(REMOVE_SECONDS):
            removed = await _remove(engine, spec.name)
            if sandbox is not None:
                sandbox.removed = removed


async def _remove(engine: Engine, name: str) -> bool:
    try:
        return await engine.remove(name, timeout_seconds=REMOVE_SECONDS)
    except EngineError:
        # The labels stay with it; recovery removes what the engine could not remove now.
        return False
