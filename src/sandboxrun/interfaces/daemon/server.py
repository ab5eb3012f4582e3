"""The daemon's side: one runner for all command lines of this user and installation."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

import anyio
import anyio.abc
import anyio.to_thread
import structlog

from sandboxrun.errors import SandboxrunError, StateError
from sandboxrun.interfaces.cli.entry import CANCELLED_STATUS
from sandboxrun.interfaces.cli.exec_plan import Plan, carried_out, status_of
from sandboxrun.interfaces.cli.failures import Failure, of_fault
from sandboxrun.interfaces.cli.live import Console
from sandboxrun.interfaces.cli.terminal_approver import person_at
from sandboxrun.interfaces.daemon import wire
from sandboxrun.interfaces.daemon.understanding import Declined, Understanding
from sandboxrun.runner import Runner
from sandboxrun.state.directory import StateDirectory

_STREAMS: Final = 3
_DESCRIPTORS: Final = 4
_REQUEST_SECONDS: Final = 5.0
_CREDENTIALS: Final = struct.Struct("3i")
_PIPE_CLOSED: Final = 141
_PIECE: Final = 64 * 1024
_EXEC: Final = "sandboxrun exec"
LOCK: Final = "daemon"
"""Held by the daemon for as long as it serves."""


@dataclass(slots=True)
class Daemon:
    """Serves command lines. Made by `serve`."""

    runner: Runner
    understanding: Understanding
    _busy: int = 0
    _asked: anyio.Event = field(default_factory=anyio.Event)
    _quiet: anyio.Event = field(default_factory=anyio.Event)

    async def idle(self, seconds: float) -> None:
        """Wait until nothing was asked for so long. Cancelling leaves nothing."""
        while True:
            if self._busy:
                await self._quiet.wait()
            with anyio.move_on_after(seconds):
                await self._asked.wait()
                continue
            return

    async def listen(self, listener: socket.socket) -> None:
        """Answer whoever connects until cancelled, which cancels their runs."""
        async with anyio.create_task_group() as group:
            while True:
                await anyio.wait_readable(listener)
                with suppress(BlockingIOError):
                    connection, _ = listener.accept()
                    connection.setblocking(False)  # noqa: FBT003 - the socket module's own signature
                    group.start_soon(self._answer, connection)

    async def _answer(self, connection: socket.socket) -> None:
        self._busy += 1
        self._asked.set()
        descriptors: list[int] = []
        try:
            with connection:
                plan = await self._understood(connection, descriptors)
                if plan is None:
                    connection.send(wire.DECLINED)
                    return
                connection.send(wire.ACCEPTED)
                status = await self._carried_out(connection, plan, descriptors)
                connection.send(wire.verdict(status))
        except OSError:
            # The command line has gone, and its run with it.
            return
        finally:
            for each in descriptors:
                os.close(each)
            self._busy -= 1
            if not self._busy:
                self._asked = anyio.Event()
                self._quiet.set()
                self._quiet = anyio.Event()

    async def _understood(self, connection: socket.socket, descriptors: list[int]) -> Plan | None:
        if not _is_ours(connection):
            return None
        try:
            with anyio.fail_after(_REQUEST_SECONDS):
                data = await _received(connection, descriptors)
            arguments, cwd, environment = wire.parse(data)
            if len(descriptors) < _STREAMS:
                return None
            return await anyio.to_thread.run_sync(
                self.understanding.plan, arguments, cwd, environment
            )
        except (ValueError, TimeoutError, Declined):
            return None

    async def _carried_out(
        self, connection: socket.socket, plan: Plan, descriptors: Sequence[int]
    ) -> int:
        console = Console(descriptors[1], descriptors[2])
        principal = plan.settings.principal
        approver = person_at(descriptors[3], principal) if len(descriptors) > _STREAMS else None
        signals = _Signals()
        status = CANCELLED_STATUS
        async with anyio.create_task_group() as group:
            group.start_soon(signals.listen, connection)
            try:
                outcome = await carried_out(plan, self.runner, console, approver, signals.call)
                status = CANCELLED_STATUS if signals.came else status_of(outcome)
            except SandboxrunError as fault:
                status = fault.exit_status
                await anyio.to_thread.run_sync(_tell, of_fault(fault, command=_EXEC), plan, console)
            except BrokenPipeError:
                status = _PIPE_CLOSED
            group.cancel_scope.cancel()
        return status


def _tell(failure: Failure, plan: Plan, console: Console) -> None:
    """Say why nothing was run, as the command line does without us."""
    document, told = failure.lines(("--json",) if plan.as_json else ())
    if document is not None:
        console.print(document)
    if told:
        console.say(told)


@dataclass(slots=True)
class _Signals:
    """What the command line passes on; its end means the same."""

    came: bool = False
    _action: Callable[[], object] | None = None

    def call(self, action: Callable[[], object]) -> None:
        self._action = action
        if self.came:
            action()

    async def listen(self, connection: socket.socket) -> None:
        while True:
            await anyio.wait_readable(connection)
            try:
                data = connection.recv(64)
            except BlockingIOError:
                continue
            except OSError:
                data = b""
            self.came = True
            if self._action is not None:
                self._action()
            if not data:
                return


def _is_ours(connection: socket.socket) -> bool:
    """Whether the peer is this user or root. The directory keeps others out; this is sure of it."""
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, uid, _ = _CREDENTIALS.unpack(found)
    return uid in {0, os.geteuid()}


async def _received(connection: socket.socket, descriptors: list[int]) -> bytes:
    data = b""
    while wanted := wire.missing(data):
        await anyio.wait_readable(connection)
        try:
            piece, received, _, _ = socket.recv_fds(connection, min(wanted, _PIECE), _DESCRIPTORS)
        except BlockingIOError:
            continue
        for each in received:
            os.set_inheritable(each, False)  # noqa: FBT003 - the os module's own signature
        descriptors += received
        if not piece:
            raise ValueError("the request was cut off")
        data += piece
    return data


@contextmanager
def alone(directory: StateDirectory) -> Iterator[None]:
    """Be the only daemon of a state directory. Raises `StateError` where another one serves."""
    held = directory.try_lock(LOCK, exclusive=True)
    if held is None:
        raise StateError(
            f"A daemon serves {directory.path} already.",
            advice="`sandboxrun daemon stop` ends it.",
        )
    try:
        yield
    finally:
        os.close(held)


@contextmanager
def listening(directory: StateDirectory) -> Iterator[socket.socket]:
    """Give the socket that command lines connect to; it is gone afterwards. Only for who is alone."""
    place = f"/proc/self/fd/{directory.fd}/{wire.SOCKET}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as listener:
        _unlink(directory)
        mask = os.umask(0o177)
        try:
            listener.bind(place)
        finally:
            os.umask(mask)
        listener.listen(128)
        try:
            yield listener
        finally:
            _unlink(directory)


def _unlink(directory: StateDirectory) -> None:
    with suppress(FileNotFoundError):
        os.unlink(wire.SOCKET, dir_fd=directory.fd)


async def serve(
    runner: Runner, understanding: Understanding, listener: socket.socket, *, idle_seconds: float
) -> None:
    """Serve until nothing was asked for ``idle_seconds``. Cancelling ends all runs."""
    daemon = Daemon(runner, understanding)
    log = structlog.get_logger()
    log.info("daemon_ready", idle_seconds=idle_seconds)
    async with anyio.create_task_group() as group:
        group.start_soon(daemon.listen, listener)
        await daemon.idle(idle_seconds)
        group.cancel_scope.cancel()
    log.info("daemon_idle", idle_seconds=idle_seconds)
