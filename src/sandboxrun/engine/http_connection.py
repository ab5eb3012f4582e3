"""One HTTP/1.1 connection to an engine: h11 speaks the protocol, the event loop moves the bytes."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import h11

from sandboxrun.engine import dialing
from sandboxrun.engine.address import TcpAddress, UnixAddress

_HEAD_BYTES: Final = 256 * 1024
Headers = list[tuple[str, str]]


class BrokenAnswerError(ConnectionError):
    """The engine closed the connection, or sent something that is not HTTP, before its end."""


@dataclass(slots=True)
class Head:
    """The beginning of an answer."""

    status: int
    headers: dict[str, str]
    """Names in lower case."""


class HttpConnection:
    """A connection for one exchange after the other. Owned by whoever dialled it."""

    def __init__(self, sock: socket.socket, host: str) -> None:
        self._socket = sock
        self._host = host
        self._protocol = h11.Connection(h11.CLIENT, max_incomplete_event_size=_HEAD_BYTES)

    @classmethod
    async def dial(cls, address: UnixAddress | TcpAddress) -> HttpConnection:
        """Connect. Raises `OSError`. Cancelling leaves nothing."""
        host = "engine" if isinstance(address, UnixAddress) else address.host
        return cls(await dialing.dial(address), host)

    async def ask(
        self, method: str, target: str, headers: Headers, body: bytes | AsyncIterable[bytes] | None
    ) -> Head:
        """Send a request and return the head of its answer; `read` gives the rest.

        A body of unknown length is sent in chunks. Raises `OSError`. Cancelled, the connection
        is of no more use.
        """
        fields = [("Host", self._host), *headers]
        if isinstance(body, bytes):
            fields.append(("Content-Length", str(len(body))))
        elif body is not None:
            fields.append(("Transfer-Encoding", "chunked"))
        elif method != "GET":
            fields.append(("Content-Length", "0"))
        await self._send(h11.Request(method=method, target=target, headers=fields))
        # An engine that refuses early answers, and does not read the rest.
        with suppress(OSError):
            await self._send_body(body)
        return await self._head()

    async def read(self) -> bytes:
        """Return the next piece of the body, empty at its end. Raises `OSError`. See `ask`."""
        while isinstance(event := await self._event(), h11.Data):
            if event.data:
                return bytes(event.data)
        return b""

    def renew(self) -> bool:
        """Make ready for another exchange; False where this was the last one."""
        if self._protocol.our_state is not h11.DONE or self._protocol.their_state is not h11.DONE:
            return False
        self._protocol.start_next_cycle()
        return True

    def is_usable(self) -> bool:
        """Return whether the engine has not closed an idle connection."""
        return not dialing.is_readable(self._socket)

    def close(self) -> None:
        """Close at once."""
        self._socket.close()

    async def _send_body(self, body: bytes | AsyncIterable[bytes] | None) -> None:
        if isinstance(body, bytes):
            await self._send(h11.Data(data=body))
        elif body is not None:
            async for piece in body:
                if piece:
                    await self._send(h11.Data(data=piece))
        await self._send(h11.EndOfMessage())

    async def _send(self, event: h11.Request | h11.Data | h11.EndOfMessage) -> None:
        data = self._protocol.send(event)
        if data:
            await dialing.send(self._socket, data)

    async def _head(self) -> Head:
        while True:
            event = await self._event()
            if isinstance(event, h11.Response):
                fields = {name.decode("latin-1"): value for name, value in event.headers}
                return Head(
                    event.status_code,
                    {name: value.decode("latin-1") for name, value in fields.items()},
                )

    async def _event(self) -> h11.Event:
        while True:
            try:
                event = self._protocol.next_event()
            except h11.RemoteProtocolError as error:
                raise BrokenAnswerError(str(error)) from error
            if event is h11.NEED_DATA:
                self._protocol.receive_data(await dialing.receive(self._socket))
            elif isinstance(event, h11.Event) and not isinstance(event, h11.ConnectionClosed):
                return event
            else:
                raise BrokenAnswerError("the engine closed the connection")
