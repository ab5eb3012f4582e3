"""Blocking HTTP calls to the engine, each on a thread, each with its own deadline.

The HTTP client has a timeout for each socket operation; the caller has a deadline for the whole
call. A peer that accepts and never answers, or drips, ends at the deadline: the thread is left to
its own timeout and its result is dropped.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, TypeVar

import anyio
import anyio.from_thread
import anyio.to_thread
import requests
from tenacity import (
    AsyncRetrying,
    retry_if_exception_type,
    stop_after_attempt,
    wait_random_exponential,
)

from sandboxrun.engine.faults import client_fault, connection_fault, status_fault, timeout_fault
from sandboxrun.errors import EngineError

ATTEMPTS: Final = 3
"""Tries of an idempotent call whose connection broke."""
_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 1.0
_GRACE: Final = 1.0
"""The client's own timeout is this much later than the caller's deadline, in seconds."""
_THREADS: Final = 32
_CONTROL_THREADS: Final = 32
_BULK_THREADS: Final = 8
_PIECE: Final = 64 * 1024
_FIRST_ERROR: Final = 400
T = TypeVar("T")


class Lane(Enum):
    """Which threads carry a call. Kill and inspect must never wait behind anything else."""

    GENERAL = auto()
    CONTROL = auto()
    BULK = auto()
    """Archives, builds and imports."""


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
    lane: Lane = Lane.GENERAL
    attempts: int = 1
    """More than one only for idempotent calls."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete answer."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


class Transport:
    """The client's session and the threads that use it."""

    def __init__(self, session: requests.Session, base: str, url: str) -> None:
        self._session = session
        self._base = base
        self._url = url
        self._limiters = {
            Lane.GENERAL: anyio.CapacityLimiter(_THREADS),
            Lane.CONTROL: anyio.CapacityLimiter(_CONTROL_THREADS),
            Lane.BULK: anyio.CapacityLimiter(_BULK_THREADS),
        }
        self._retrying = AsyncRetrying(
            stop=stop_after_attempt(ATTEMPTS),
            wait=wait_random_exponential(multiplier=_FIRST_PAUSE, max=_LONGEST_PAUSE),
            retry=retry_if_exception_type(requests.ConnectionError),
            sleep=anyio.sleep,
            reraise=True,
        )

    async def ask(self, call: Call) -> Answer:
        """Return the answer, whatever its status.

        Raises `EngineTimeoutError`, `EngineUnavailableError` or `EngineError`. Cancelling drops
        the answer; the engine may still carry the call out.
        """

        def exchange() -> Answer:
            with self._open(call, stream=False) as response:
                return Answer(response.status_code, response.content, response.headers)

        if call.attempts == 1:
            return await self.on_thread(call, exchange)
        try:
            with anyio.fail_after(call.seconds):
                # A copy, because the state of the tries is kept in the object.
                return await self._retrying.copy()(self._raw, call, exchange)
        except TimeoutError as error:
            raise timeout_fault(call.what, call.seconds) from error
        except requests.RequestException as error:
            raise client_fault(call.what, self._url, call.seconds, error) from error

    async def demand(self, call: Call) -> bytes:
        """Return the body of a successful answer. Raises the fault of any other. See `ask`."""
        answer = await self.ask(call)
        if answer.status >= _FIRST_ERROR:
            raise status_fault(call.what, answer.status, answer.body)
        return answer.body

    async def download(self, call: Call, limit: int) -> Answer:
        """Return an answer of at most ``limit`` bytes. Raises `EngineError` beyond. See `ask`."""

        def exchange() -> Answer:
            with self._open(call, stream=True) as response:
                body = bytearray()
                for piece in response.iter_content(_PIECE):
                    body += piece
                    # A refusal is not what the limit is for.
                    if len(body) > (limit if response.ok else max(limit, _PIECE)):
                        raise EngineError(f"{call.what}: more than {limit} bytes.")
                return Answer(response.status_code, bytes(body))

        return await self.on_thread(call, exchange)

    async def upload(self, call: Call, pieces: AsyncIterator[bytes]) -> Answer:
        """Send ``pieces`` as the body. ``call.seconds`` bounds the whole. See `ask`."""

        def body() -> Iterator[bytes]:
            while True:
                piece = anyio.from_thread.run(_next_or_none, pieces)
                if piece is None:
                    return
                if piece:
                    yield piece

        def exchange() -> Answer:
            with self._open(call, stream=False, data=body()) as response:
                return Answer(response.status_code, response.content)

        return await self.on_thread(call, exchange)

    async def lines(self, call: Call) -> AsyncGenerator[bytes, None]:
        """Yield the lines of a streamed answer; ``call.seconds`` bounds the wait for each.

        Raises the fault of an error status. See `ask`.
        """
        response = await self.on_thread(call, lambda: self._open(call, stream=True))
        try:
            if response.status_code >= _FIRST_ERROR:
                body = await self.on_thread(call, lambda: response.content)
                raise status_fault(call.what, response.status_code, body)
            source = response.iter_lines(_PIECE)
            while (line := await self.on_thread(call, lambda: next(source, None))) is not None:
                yield line
        finally:
            response.close()

    async def on_thread(self, call: Call, work: Callable[[], T]) -> T:
        """Run blocking ``work`` for ``call``. Raises its faults as ours. See `ask`."""
        try:
            with anyio.fail_after(call.seconds):
                return await self._raw(call, work)
        except TimeoutError as error:
            raise timeout_fault(call.what, call.seconds) from error
        except requests.RequestException as error:
            raise client_fault(call.what, self._url, call.seconds, error) from error
        except OSError as error:
            raise connection_fault(call.what, self._url, error) from error

    async def _raw(self, call: Call, work: Callable[[], T]) -> T:
        return await anyio.to_thread.run_sync(
            work, abandon_on_cancel=True, limiter=self._limiters[call.lane]
        )

    def _open(
        self, call: Call, *, stream: bool, data: Iterator[bytes] | None = None
    ) -> requests.Response:
        headers = {"Content-Type": call.content_type} if call.content_type else None
        return self._session.request(
            call.method,
            self._base + call.path,
            params=call.params,
            json=call.document,
            data=call.body if data is None else data,
            headers=headers,
            timeout=call.seconds + _GRACE,
            allow_redirects=False,
            stream=stream,
        )

    def close(self) -> None:
        """Close idle connections."""
        self._session.close()


async def _next_or_none(pieces: AsyncIterator[bytes]) -> bytes | None:
    return await anext(pieces, None)
