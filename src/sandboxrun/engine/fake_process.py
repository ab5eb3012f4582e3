"""The processes and streams of the fake engine: programs written in Python."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import anyio
import anyio.lowlevel

from sandboxrun.engine.protocol import StreamChunk
from sandboxrun.engine.spec import ContainerSpec
from sandboxrun.errors import EngineError

_CLOSED: Final = "The attached streams were closed on this side."
KILLED_EXIT: Final = 137
"""What engines report of a container that SIGKILL ended."""


class Pipe:
    """An unbounded queue with an end, and a reader that waits."""

    def __init__(self) -> None:
        self._items: deque[StreamChunk] = deque()
        self._changed = anyio.Event()
        self._ended = False
        self._broken: str | None = None

    def put(self, item: StreamChunk) -> None:
        """Add to the queue. What comes after the end is dropped, as by a closed pipe."""
        if not self._ended and item.data:
            self._items.append(item)
            self._wake()

    def end(self) -> None:
        """Let the reader see the end once it has taken everything."""
        self._ended = True
        self._wake()

    def cut(self, reason: str) -> None:
        """Let the reader fail once it has taken everything."""
        self._broken = reason
        self._wake()

    @property
    def ready(self) -> bool:
        """Whether `take` would return at once."""
        return bool(self._items) or self._ended or self._broken is not None

    async def take(self) -> list[StreamChunk]:
        """Return everything that is there; wait for something, or return nothing at the end."""
        await anyio.lowlevel.checkpoint()
        while not self._items:
            if self._broken is not None:
                raise EngineError(self._broken)
            if self._ended:
                return []
            await self._changed.wait()
        taken = list(self._items)
        self._items.clear()
        return taken

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


class FakeProcess:
    """What a program sees: its spec, stdin, stdout and stderr."""

    def __init__(self, spec: ContainerSpec) -> None:
        self.spec = spec
        self.stdin = Pipe()
        self.output = Pipe()

    async def read(self) -> bytes:
        """Return what has arrived on stdin; empty at its end."""
        return b"".join(chunk.data for chunk in await self.stdin.take())

    def write(self, data: bytes) -> None:
        """Write to stdout."""
        self.output.put(StreamChunk(stderr=False, data=data))

    def write_error(self, data: bytes) -> None:
        """Write to stderr."""
        self.output.put(StreamChunk(stderr=True, data=data))


Program: TypeAlias = Callable[[FakeProcess], Awaitable[int]]
"""Runs inside a fake container and returns its exit code. Killed means cancelled."""


class FakeAttachment:
    """An `Attachment` to a fake process."""

    def __init__(self, process: FakeProcess) -> None:
        self._process = process
        self._closed = False

    async def receive(self) -> list[StreamChunk]:
        """See `Attachment.receive`."""
        self._require_open()
        return await self._process.output.take()

    async def send(self, data: bytes) -> None:
        """See `Attachment.send`."""
        await anyio.lowlevel.checkpoint()
        self._require_open()
        self._process.stdin.put(StreamChunk(stderr=False, data=data))

    async def close_send(self) -> None:
        """See `Attachment.close_send`."""
        await anyio.lowlevel.checkpoint()
        self._require_open()
        self._process.stdin.end()

    def pending(self) -> bool:
        """See `Attachment.pending`."""
        return self._closed or self._process.output.ready

    def close(self) -> None:
        """See `Attachment.close`. The container's stdin is open once: it ends with this."""
        self._closed = True
        self._process.stdin.end()
        self._process.output.cut(_CLOSED)

    def _require_open(self) -> None:
        if self._closed:
            raise EngineError(_CLOSED)
