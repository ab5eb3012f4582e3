"""The second parser's processes: started when needed, kept, and killed when they take too long.

A parser in C that hostile text can crash must crash alone. `canary_worker` is its program.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import select
import signal
import socket
import struct
import sys
import threading
import time
from functools import lru_cache
from pathlib import Path
from typing import Final

from sandboxrun.config import loader_environment
from sandboxrun.errors import InstallError
from sandboxrun.screening.grammar import canary_worker

_START_SECONDS: Final = 5.0
"""Longest wait for a process to be ready; it is asked for once and then kept."""
_PROGRAM: Final = Path(canary_worker.__file__)
_MOST_IDLE: Final = 4
"""Processes kept while nothing is screened."""


class CanaryCrashedError(Exception):
    """The parser did not survive the script, or could not be started."""


class CanaryLateError(Exception):
    """The parser needed too long and was killed, or gave up itself."""


class _EndedError(Exception):
    """The process is gone."""


class _Process:
    """One process of the parser. Its owner ends it."""

    def __init__(self, program: Path) -> None:
        ours, theirs = socket.socketpair()
        # Bare descriptors: these live as long as this process, and a socket left open complains.
        self._channel, other = ours.detach(), theirs.detach()
        try:
            os.set_blocking(self._channel, False)
            self._id = os.posix_spawn(
                sys.executable,
                [sys.executable, "-I", "-S", str(program), *_directories()],
                loader_environment(),
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, other, 0),
                    (os.POSIX_SPAWN_DUP2, other, 1),
                    (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
                ],
                setpgroup=0,
            )
        except BaseException:
            os.close(self._channel)
            raise
        finally:
            os.close(other)
        try:
            self._receive(time.monotonic() + _START_SECONDS)
        except BaseException:
            self.end()
            raise

    def ask(
        self, kind: int, script: bytes, seconds: float, wait_seconds: float
    ) -> tuple[int, tuple[int, ...]]:
        """Return the word and the offsets of the answer.

        Raises `_EndedError`, and `CanaryLateError` when it comes too late.
        """
        deadline = time.monotonic() + wait_seconds
        self._send(canary_worker.REQUEST.pack(kind, seconds, len(script)) + script, deadline)
        word, offsets = self._receive(deadline)
        if word == canary_worker.STOPPED:
            raise CanaryLateError
        if any(offset > len(script) for offset in offsets):
            raise _EndedError
        return word, offsets

    def end(self) -> None:
        """Kill and reap it."""
        os.close(self._channel)
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(self._id, signal.SIGKILL)
            os.waitpid(self._id, 0)

    def _send(self, data: bytes, deadline: float) -> None:
        view = memoryview(data)
        while view:
            self._wait(select.POLLOUT, deadline)
            try:
                view = view[os.write(self._channel, view) :]
            except BlockingIOError:
                continue
            except OSError as gone:
                raise _EndedError from gone

    def _receive(self, deadline: float) -> tuple[int, tuple[int, ...]]:
        word, count = canary_worker.ANSWER.unpack(self._read(canary_worker.ANSWER.size, deadline))
        if count > _MOST_OFFSETS:
            raise _EndedError
        return word, struct.unpack(f">{count}I", self._read(4 * count, deadline))

    def _read(self, size: int, deadline: float) -> bytes:
        data = b""
        while len(data) < size:
            self._wait(select.POLLIN, deadline)
            try:
                piece = os.read(self._channel, size - len(data))
            except BlockingIOError:
                continue
            except OSError as gone:
                raise _EndedError from gone
            if not piece:
                raise _EndedError
            data += piece
        return data

    def _wait(self, event: int, deadline: float) -> None:
        poller = select.poll()
        poller.register(self._channel, event)
        left = deadline - time.monotonic()
        if left <= 0 or not poller.poll(left * 1000):
            raise CanaryLateError


_MOST_OFFSETS: Final = 1 << 16


class CanaryProcesses:
    """Processes that wait for work. Safe to use from any thread."""

    def __init__(self, program: Path = _PROGRAM) -> None:
        self._program = program
        self._idle: list[_Process] = []
        self._turn = threading.Lock()
        self._owner = os.getpid()

    def ask(
        self, kind: int, script: bytes, *, seconds: float, wait_seconds: float
    ) -> tuple[int, tuple[int, ...]]:
        """Return the word and the offsets that a process answers; see `canary_worker`.

        The process gives a longer script ``seconds`` itself and is killed after
        ``wait_seconds``; starting one comes on top. Raises `CanaryCrashedError`,
        `CanaryLateError`, and `InstallError` when the parser is not installed.
        """
        process = self._taken()
        try:
            if process is not None:
                with contextlib.suppress(_EndedError):
                    answer = process.ask(kind, script, seconds, wait_seconds)
                    self._put_back(process)
                    return answer
                # It may have ended long ago, for reasons of its own. A new one tells.
                process.end()
                process = None
            process = _Process(self._program)
            answer = process.ask(kind, script, seconds, wait_seconds)
        except BaseException as fault:
            if process is not None:
                process.end()
            if isinstance(fault, (_EndedError, OSError)):
                raise CanaryCrashedError from fault
            raise
        self._put_back(process)
        return answer

    def _taken(self) -> _Process | None:
        with self._turn:
            if self._owner != os.getpid():
                # After a fork the processes are the parent's: two must not talk to one.
                self._owner, self._idle = os.getpid(), []
            return self._idle.pop() if self._idle else None

    def _put_back(self, process: _Process) -> None:
        with self._turn:
            if len(self._idle) < _MOST_IDLE:
                self._idle.append(process)
                return
        process.end()


@lru_cache(maxsize=1)
def _directories() -> tuple[str, ...]:
    """Return where the parser's packages are. Raises `InstallError`."""
    found: dict[str, None] = {}
    for name in ("tree_sitter", "tree_sitter_bash"):
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            raise InstallError(
                f"The shell parser `{name}` is missing.", advice="Install `tree-sitter-bash`."
            )
        found[str(Path(spec.origin).parents[1])] = None
    return tuple(found)
