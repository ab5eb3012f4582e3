"""The attached streams of one container, over a connection of their own.

The engine's client library polls its attach socket without a timeout and needs a thread for each
stream. This one hijacks the connection itself and lets the event loop wait, so a stream costs no
thread and closing it takes effect at once.
"""

from __future__ import annotations

import errno
import socket
from typing import Final

import anyio
import anyio.lowlevel

from sandboxrun.engine import dialing
from sandboxrun.engine.address import TcpAddress, UnixAddress
from sandboxrun.engine.faults import connection_fault, status_fault, timeout_fault
from sandboxrun.engine.multiplex import Demultiplexer
from sandboxrun.engine.protocol import StreamChunk
from sandboxrun.errors import EngineError

_READ_BYTES: Final = 256 * 1024
_HEAD_BYTES: Final = 64 * 1024
_UPGRADED: Final = frozenset({101, 200})
_END_OF_HEAD: Final = b"\r\n\r\n"
_WHAT: Final = "attach"


class SocketAttachment:
    """An `Attachment` on a connected, non-blocking socket that carries the multiplexed stream."""

    def __init__(self, sock: socket.socket, url: str, early: bytes = b"") -> None:
        self._socket = sock
        self._url = url
        self._early = early
        self._demultiplexer = Demultiplexer()
        self._buffer = bytearray(_READ_BYTES)
        self._ended = False
        self._closed = False

    async def receive(self) -> list[StreamChunk]:
        """See `Attachment.receive`."""
        await anyio.lowlevel.checkpoint()
        while not self._ended:
            chunks = self._demultiplexer.feed(await self._read())
            if self._ended:
                self._demultiplexer.finish()
            elif chunks:
                return chunks
        return []

    async def _read(self) -> bytes | memoryview:
        if self._early:
            early, self._early = self._early, b""
            return early
        while True:
            self._require_open()
            try:
                count = self._socket.recv_into(self._buffer)
            except BlockingIOError:
                await self._wait(readable=True)
                continue
            except OSError as error:
                raise connection_fault(_WHAT, self._url, error) from error
            self._ended = count == 0
            return memoryview(self._buffer)[:count]

    async def send(self, data: bytes) -> None:
        """See `Attachment.send`."""
        await anyio.lowlevel.checkpoint()
        rest = memoryview(data)
        while rest:
            self._require_open()
            try:
                rest = rest[self._socket.send(rest) :]
            except BlockingIOError:
                await self._wait(readable=False)
            except OSError as error:
                raise connection_fault(_WHAT, self._url, error) from error

    async def close_send(self) -> None:
        """See `Attachment.close_send`."""
        await anyio.lowlevel.checkpoint()
        self._require_open()
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError as error:
            if error.errno != errno.ENOTCONN:
                raise connection_fault(_WHAT, self._url, error) from error

    def pending(self) -> bool:
        """See `Attachment.pending`."""
        if self._closed or self._ended or self._early:
            return True
        return dialing.is_readable(self._socket)

    def close(self) -> None:
        """See `Attachment.close`."""
        if not self._closed:
            self._closed = True
            anyio.notify_closing(self._socket)
            self._socket.close()

    def _require_open(self) -> None:
        if self._closed:
            raise EngineError("The attached streams were closed on this side.")

    async def _wait(self, *, readable: bool) -> None:
        try:
            if readable:
                await anyio.wait_readable(self._socket)
            else:
                await anyio.wait_writable(self._socket)
        except (anyio.ClosedResourceError, ValueError, OSError) as error:
            raise EngineError("The attached streams were closed on this side.") from error


async def open_attachment(
    address: UnixAddress | TcpAddress, path: str, *, seconds: float
) -> SocketAttachment:
    """Connect, ask for ``path`` and take over the connection.

    Raises `EngineNotFoundError`, `EngineConflictError`, `EngineTimeoutError`,
    `EngineUnavailableError` or `EngineError`. Cancelling closes the connection.
    """
    try:
        with anyio.fail_after(seconds):
            sock = await dialing.dial(address)
            try:
                attachment = SocketAttachment(sock, address.url)
                await attachment.send(_request(path))
                early = await _take_over(sock)
                return SocketAttachment(sock, address.url, early)
            except BaseException:
                sock.close()
                raise
    except TimeoutError as error:
        raise timeout_fault(_WHAT, seconds) from error
    except OSError as error:
        raise connection_fault(_WHAT, address.url, error) from error


def _request(path: str) -> bytes:
    return (
        f"POST {path} HTTP/1.1\r\nHost: engine\r\nContent-Length: 0\r\n"
        "Connection: Upgrade\r\nUpgrade: tcp\r\n\r\n"
    ).encode("ascii")


async def _take_over(sock: socket.socket) -> bytes:
    """Read the head of the answer; return what was already read of the stream behind it."""
    data = b""
    while _END_OF_HEAD not in data:
        piece = await dialing.receive(sock)
        if not piece or len(data) > _HEAD_BYTES:
            raise EngineError("The engine answered the attach with something that is not HTTP.")
        data += piece
    head, _, rest = data.partition(_END_OF_HEAD)
    words = head.split(b"\r\n", 1)[0].split(b" ", 2)
    if not words[0].startswith(b"HTTP/1.") or len(words) < 2 or not words[1].isdigit():  # noqa: PLR2004
        raise EngineError("The engine answered the attach with something that is not HTTP.")
    status = int(words[1])
    if status not in _UPGRADED:
        raise status_fault(_WHAT, status, await _error_body(sock, head, rest))
    return rest


async def _error_body(sock: socket.socket, head: bytes, body: bytes) -> bytes:
    lengths = [
        line.split(b":", 1)[1].strip()
        for line in head.split(b"\r\n")
        if line.lower().startswith(b"content-length:")
    ]
    wanted = int(lengths[0]) if lengths and lengths[0].isdigit() else 0
    while len(body) < min(wanted, _HEAD_BYTES):
        piece = await dialing.receive(sock)
        if not piece:
            break
        body += piece
    return body
