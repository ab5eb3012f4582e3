"""HTTP calls to the engine, each with its own deadline for the whole of it.

A peer that accepts and never answers, or drips, ends at the deadline. Calls wait for nobody but
the engine: there are as many connections as calls at once, so a kill or an inspection never
stands behind anything else.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlencode

import anyio
from tenacity import (
    AsyncRetrying,
    retry_if_exception_type,
    stop_after_attempt,
    wait_random_exponential,
)

from sandboxrun.engine.address import TcpAddress, UnixAddress
from sandboxrun.engine.faults import connection_fault, status_fault, timeout_fault
from sandboxrun.engine.http_connection import Head, HttpConnection
from sandboxrun.errors import EngineError

ATTEMPTS: Final = 3
"""Tries of an idempotent call whose connection broke."""
_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 1.0
_IDLE: Final = 16
"""Connections kept for the next calls."""
_PIECE: Final = 64 * 1024
_FIRST_ERROR: Final = 400


@dataclass(frozen=True, slots=True)
class Call:
    """One request. ``path`` starts after the version and is already quoted."""

    what: str
    """For messages: what was being done."""
    method: str
    path: str
    params: Mapping[str, str] | None = None
    document: object = None
    body: bytes | None = None
    content_type: str | None = None
    seconds: float = 15.0
    attempts: int = 1
    """More than one only for idempotent calls."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete answer."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    """Names in lower case."""


class Transport:
    """The way to one engine. ``prefix`` comes before every path."""

    def __init__(self, address: UnixAddress | TcpAddress, prefix: str = "") -> None:
        self._address = address
        self._prefix = prefix
        self._idle: list[HttpConnection] = []
        self._closed = False
        self._retrying = AsyncRetrying(
            stop=stop_after_attempt(ATTEMPTS),
            wait=wait_random_exponential(multiplier=_FIRST_PAUSE, max=_LONGEST_PAUSE),
            retry=retry_if_exception_type(ConnectionError),
            sleep=anyio.sleep,
            reraise=True,
        )

    async def ask(self, call: Call) -> Answer:
        """Return the answer, whatever its status.

        Raises `EngineTimeoutError`, `EngineUnavailableError` or `EngineError`. Cancelling drops
        the answer; the engine may still carry the call out.
        """
        with self._bounded(call):
            if call.attempts == 1:
                return await self._exchange(call, None)
            # A copy, because the state of the tries is kept in the object.
            return await self._retrying.copy()(self._exchange, call, None)

    async def demand(self, call: Call) -> bytes:
        """Return the body of a successful answer. Raises the fault of any other. See `ask`."""
        answer = await self.ask(call)
        if answer.status >= _FIRST_ERROR:
            raise status_fault(call.what, answer.status, answer.body)
        return answer.body

    async def download(self, call: Call, limit: int) -> Answer:
        """Return an answer of at most ``limit`` bytes. Raises `EngineError` beyond. See `ask`."""
        with self._bounded(call):
            return await self._exchange(call, limit)

    async def upload(self, call: Call, pieces: AsyncIterator[bytes]) -> Answer:
        """Send ``pieces`` as the body. ``call.seconds`` bounds the whole. See `ask`."""
        with self._bounded(call):
            async with self._asked(call, pieces) as (connection, head):
                return Answer(head.status, await _whole(connection), head.headers)

    async def lines(self, call: Call) -> AsyncGenerator[bytes, None]:
        """Yield the lines of a streamed answer; ``call.seconds`` bounds the wait for each.

        Raises the fault of an error status. See `ask`.
        """
        async with self._streamed(call) as (connection, head):
            if head.status >= _FIRST_ERROR:
                with self._bounded(call):
                    raise status_fault(call.what, head.status, await _whole(connection))
            rest = b""
            while True:
                with self._bounded(call):
                    piece = await connection.read()
                if not piece:
                    break
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    yield line
            if rest:
                yield rest

    def close(self) -> None:
        """Close idle connections, and each other one at its end."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    async def _exchange(self, call: Call, limit: int | None) -> Answer:
        async with self._asked(call, call.body) as (connection, head):
            if limit is not None and head.status >= _FIRST_ERROR:
                # A refusal is not what the limit is for.
                limit = max(limit, _PIECE)
            body = await _whole(connection, call.what, limit)
            return Answer(head.status, body, head.headers)

    @asynccontextmanager
    async def _asked(
        self, call: Call, body: bytes | AsyncIterator[bytes] | None
    ) -> AsyncIterator[tuple[HttpConnection, Head]]:
        connection = self._kept(call) or await HttpConnection.dial(self._address)
        try:
            yield connection, await self._sent(connection, call, body)
        except BaseException:
            connection.close()
            raise
        if not self._closed and len(self._idle) < _IDLE and connection.renew():
            self._idle.append(connection)
        else:
            connection.close()

    @asynccontextmanager
    async def _streamed(self, call: Call) -> AsyncIterator[tuple[HttpConnection, Head]]:
        """Ask on a connection of its own; only the head is bounded here."""
        with self._bounded(call):
            connection = await HttpConnection.dial(self._address)
        try:
            with self._bounded(call):
                head = await self._sent(connection, call, call.body)
            yield connection, head
        finally:
            connection.close()

    async def _sent(
        self, connection: HttpConnection, call: Call, body: bytes | AsyncIterator[bytes] | None
    ) -> Head:
        headers = [] if call.content_type is None else [("Content-Type", call.content_type)]
        if call.document is not None:
            headers = [("Content-Type", "application/json")]
            body = json.dumps(call.document).encode()
        target = self._prefix + call.path
        if call.params:
            target += "?" + urlencode(call.params)
        return await connection.ask(call.method, target, headers, body)

    def _kept(self, call: Call) -> HttpConnection | None:
        """Return an idle connection, for calls that may be repeated if it turns out to be dead."""
        while call.attempts > 1 and self._idle:
            connection = self._idle.pop()
            if connection.is_usable():
                return connection
            connection.close()
        return None

    @contextmanager
    def _bounded(self, call: Call) -> Iterator[None]:
        try:
            with anyio.fail_after(call.seconds):
                yield
        except TimeoutError as error:
            raise timeout_fault(call.what, call.seconds) from error
        except OSError as error:
            raise connection_fault(call.what, self._address.url, error) from error


async def _whole(connection: HttpConnection, what: str = "", limit: int | None = None) -> bytes:
    body = bytearray()
    while piece := await connection.read():
        body += piece
        if limit is not None and len(body) > limit:
            raise EngineError(f"{what}: more than {limit} bytes.")
    return bytes(body)
