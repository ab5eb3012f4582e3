"""Canaries on the host: files, sockets, listeners and a process that no sandbox may see or reach."""

from __future__ import annotations

import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sandboxrun.checks.surroundings import Canaries

TOKEN_PREFIX: Final = "canary"  # noqa: S105 - it guards nothing
_BACKLOG: Final = 64
_WAITS: Final = "import sys; sys.stdin.read()"


@dataclass(frozen=True, slots=True)
class PlacedCanaries:
    """What was placed, and who has touched it."""

    canaries: Canaries
    _listeners: tuple[tuple[str, socket.socket], ...]

    def reached(self) -> tuple[str, ...]:
        """Return the names of those that somebody connected or sent to. Does not block."""
        return tuple(name for name, listener in self._listeners if _was_reached(listener))


@contextmanager
def placed_canaries() -> Iterator[PlacedCanaries]:
    """Place canaries, and take them away at the end. Blocks briefly.

    Raises `OSError` when this machine cannot take them.
    """
    token = f"{TOKEN_PREFIX}{secrets.token_hex(12)}"
    with ExitStack() as placed:
        directory = Path(tempfile.mkdtemp(prefix=f"sandboxrun-{token}-"))
        placed.callback(shutil.rmtree, directory, ignore_errors=True)
        # Whoever gets there may look: it is the way there that has to be shut.
        directory.chmod(0o755)
        file = directory / token
        file.write_text(token)
        path, abstract = directory / "socket", f"sandboxrun-{token}"
        tcp = _listening(placed, socket.AF_INET, socket.SOCK_STREAM, ("0.0.0.0", 0))  # noqa: S104 - it is to be reachable
        udp = _listening(placed, socket.AF_INET, socket.SOCK_DGRAM, ("0.0.0.0", 0))  # noqa: S104 - the same
        unix = _listening(placed, socket.AF_UNIX, socket.SOCK_STREAM, str(path))
        hidden = _listening(placed, socket.AF_UNIX, socket.SOCK_STREAM, f"\0{abstract}")
        path.chmod(0o777)
        process = placed.enter_context(_process(token))
        canaries = Canaries(
            token=token,
            tcp_port=tcp.getsockname()[1],
            udp_port=udp.getsockname()[1],
            unix_path=str(path),
            abstract=abstract,
            file=str(file),
            directory=str(directory),
            process=process,
        )
        yield PlacedCanaries(
            canaries, (("tcp", tcp), ("udp", udp), ("unix", unix), ("abstract", hidden))
        )


def _listening(
    placed: ExitStack, family: int, kind: int, address: tuple[str, int] | str
) -> socket.socket:
    listener = placed.enter_context(socket.socket(family, kind))
    listener.setblocking(False)  # noqa: FBT003 - the socket's own signature
    listener.bind(address)
    if kind == socket.SOCK_STREAM:
        listener.listen(_BACKLOG)
    return listener


def _was_reached(listener: socket.socket) -> bool:
    """Tell whether something waits that nobody fetched: the kernel accepts connections itself."""
    try:
        if listener.type == socket.SOCK_STREAM:
            connection, _ = listener.accept()
            connection.close()
        else:
            listener.recv(1)
    except BlockingIOError:
        return False
    return True


@contextmanager
def _process(token: str) -> Iterator[int]:
    process = subprocess.Popen(
        [sys.executable, "-I", "-c", _WAITS, token],
        stdin=subprocess.PIPE,
        env={"SANDBOXRUN_CANARY": token},
    )
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()
        if process.stdin is not None:
            process.stdin.close()
