"""^C, SIGTERM and SIGHUP while a command works: it ends in order, and what it owns is undone.

A handler is in place at every moment of the process's life (see `sandboxrun.interfaces.cli.entry`
for the time before and after), and none of them raises: an exception out of nowhere would leave
half-done work behind, or a traceback. This one writes a byte to a socket that a task waits on.
"""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final, TypeVar

import anyio

from sandboxrun.errors import SandboxrunError
from sandboxrun.settle.task_group import plain_task_group

T = TypeVar("T")

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(BaseException):
    """The work was ended by a signal, and everything it owned is undone."""


class Signals:
    """What a signal does: at first it cancels the work."""

    def __init__(self) -> None:
        self._action: Callable[[], object] | None = None
        self.came = False
        """Whether one came."""

    def call(self, action: Callable[[], object]) -> None:
        """Call ``action`` at each signal from now on, and at once if one came before."""
        self._action = action
        if self.came:
            action()

    def arrive(self) -> None:
        """Note a signal and act on it."""
        self.came = True
        if self._action is not None:
            self._action()


def run(work: Callable[..., Awaitable[T]], *arguments: object) -> T:
    """Run ``work(*arguments)`` to its end in an event loop and return what it returns.

    A signal cancels it; then `Interrupted` is raised once it is undone, also when the work was
    quicker than its end.
    """
    signals = Signals()
    result = run_with(signals, lambda: work(*arguments))
    if signals.came:
        raise Interrupted
    return result


def run_with(signals: Signals, work: Callable[[], Awaitable[T]]) -> T:
    """Do the same with work that may decide what ``signals`` do, and return what it returns.

    `Interrupted` is raised where it returned nothing because of a signal.
    """
    results: list[T] = []
    arrivals, waker = socket.socketpair()
    with arrivals, waker:
        arrivals.settimeout(0)
        try:
            with _caught(waker):
                anyio.run(_supervised, work, arrivals, signals, results)
        except SandboxrunError as fault:
            if signals.came:
                # What fails because it is being ended is nobody's concern.
                raise Interrupted from fault
            raise
        if _received(arrivals):
            # When nobody listened any more.
            signals.came = True
    if not results:
        raise Interrupted
    return results[0]


async def _supervised(
    work: Callable[[], Awaitable[T]],
    arrivals: socket.socket,
    signals: Signals,
    results: list[T],
) -> None:
    async with plain_task_group() as group:
        signals.call(group.cancel_scope.cancel)
        group.start_soon(_listen, arrivals, signals)
        results.append(await work())
        group.cancel_scope.cancel()


async def _listen(arrivals: socket.socket, signals: Signals) -> None:
    while True:
        await anyio.wait_readable(arrivals)
        if _received(arrivals):
            signals.arrive()


def _received(arrivals: socket.socket) -> bool:
    try:
        return bool(arrivals.recv(64))
    except BlockingIOError:
        return False


@contextmanager
def _caught(waker: socket.socket) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        # Signals are the main thread's (signal(2) of Python): whoever calls us from another has them.
        yield
        return
    waker.settimeout(0)

    def note(_number: int, _frame: object) -> None:
        # Full: as many as fit were not looked at yet, and one more tells nothing new.
        with suppress(BlockingIOError):
            waker.send(b"!")

    before = {
        number: signal.signal(number, note)
        for number in SIGNALS
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
