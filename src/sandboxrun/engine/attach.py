"""The attached streams of one container, over a connection of their own.

The engine's client library polls its attach socket without a timeout and needs a thread for each
stream. This one hijacks the connection itself and lets the event loop wait, so a stream costs no
thread and closing it takes effect at once.
"""

from __future__ import annotations

import errno
import select
import socket
from typing import Final, TypeAlias

import anyio
import anyio.lowlevel

from sandboxrun.engine.address import TcpAddress, UnixAddress
from sandboxrun.engine.faults import connection_fault, status_fault, timeout_fault
from sandboxrun.engine.multiplex import Demultiplexer
from sandboxrun.engine.protocol import StreamChunk
from sandboxrun.errors import EngineError

_READ_BYTES: Final = 256 * 1024
_HEAD_BYTES: Final = 64 * 1024
_BUSY_PAUSE: Final = 0.005
_UPGRADED: Final = frozenset({101, 200})
_END_OF_HEAD: Final = b"\r\n\r\n"
_WHAT: Final = "attach"
Target: TypeAlias = str | tuple[str, int] | tuple[str, int, int, int]


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
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return bool(poll.poll(0))

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
            sock = await _connect(address)
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
        piece = await _receive(sock)
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
        piece = await _receive(sock)
        if not piece:
            break
        body += piece
    return body


async def _receive(sock: socket.socket) -> bytes:
    while True:
        try:
            return sock.recv(_HEAD_BYTES)
        except BlockingIOError:
            await anyio.wait_readable(sock)


async def _connect(address: UnixAddress | TcpAddress) -> socket.socket:
    if isinstance(address, UnixAddress):
        return await _dial(socket.AF_UNIX, address.path)
    found = await anyio.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    fault: OSError = ConnectionRefusedError(f"{address.host} has no address")
    for family, _, _, _, target in found:
        try:
            return await _dial(family, target)
        except OSError as error:
            fault = error
    raise fault


async def _dial(family: int, target: Target) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        sock.setblocking(False)  # noqa: FBT003 - the socket module's own signature
        if family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await _establish(sock, target)
    except BaseException:
        sock.close()
        raise
    return sock


async def _establish(sock: socket.socket, target: Target) -> None:
    while True:
        code = sock.connect_ex(target)
        if code != errno.EAGAIN:
            break
        # A unix listener with a full backlog: the kernel has no event for its next vacancy.
        await anyio.sleep(_BUSY_PAUSE)
    if code == errno.EINPROGRESS:
        await anyio.wait_writable(sock)
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if code:
        raise OSError(code, f"{errno.errorcode.get(code, code)} at {target!r}")
