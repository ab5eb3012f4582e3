"""Non-blocking sockets to an engine, on whichever event loop runs."""

from __future__ import annotations

import errno
import select
import socket
from typing import Final, TypeAlias

import anyio

from sandboxrun.engine.address import TcpAddress, UnixAddress

RECEIVE_BYTES: Final = 64 * 1024
_BUSY_PAUSE: Final = 0.005
Target: TypeAlias = str | tuple[str, int] | tuple[str, int, int, int]


async def dial(address: UnixAddress | TcpAddress) -> socket.socket:
    """Return a connected socket. Raises `OSError`. Cancelling leaves none."""
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


async def receive(sock: socket.socket) -> bytes:
    """Return what has arrived, empty at the end. Raises `OSError`. Cancelling loses nothing."""
    while True:
        try:
            return sock.recv(RECEIVE_BYTES)
        except BlockingIOError:
            await anyio.wait_readable(sock)


async def send(sock: socket.socket, data: bytes) -> None:
    """Write all of ``data``. Raises `OSError`. Cancelling may leave a part written."""
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[sock.send(rest) :]
        except BlockingIOError:
            await anyio.wait_writable(sock)


def is_readable(sock: socket.socket) -> bool:
    """Return whether bytes or the end have arrived."""
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))


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
