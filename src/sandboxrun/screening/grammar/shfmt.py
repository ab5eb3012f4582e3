"""The slow parser: mvdan/sh, as one bounded process. The only I/O of screening."""

from __future__ import annotations

import os
import select
import shutil
import signal
import sysconfig
import time
from pathlib import Path
from typing import Final

from sandboxrun.errors import InstallError
from sandboxrun.screening.limits import PARSER_OUTPUT_BYTES, PARSER_SECONDS

_CHUNK: Final = 1 << 16
_ARGUMENTS: Final = ("shfmt", "--to-json", "-ln", "bash")
_ENVIRONMENT: Final = {"GOMAXPROCS": "1", "GOMEMLIMIT": "256MiB"}


class ParserStoppedError(Exception):
    """The parser exceeded its time or its output and was killed. The script stays unread."""


def parser_path() -> Path:
    """Return the parser's binary. Raises `InstallError` when it is not installed."""
    beside = Path(sysconfig.get_path("scripts")) / "shfmt"
    if beside.is_file():
        return beside
    found = shutil.which("shfmt")
    if found is None:
        raise InstallError("The shell parser `shfmt` is missing.", advice="Install `shfmt-py`.")
    return Path(found)


def parse_json(script: bytes, binary: Path, seconds: float = PARSER_SECONDS) -> bytes | None:
    """Return the JSON tree of ``script``, or None where it is not valid bash.

    The process never outlives the call. Raises `ParserStoppedError` when it needs more than
    ``seconds`` or writes more than `PARSER_OUTPUT_BYTES`.
    """
    deadline = time.monotonic() + seconds
    reading, process = _spawn(script, binary)
    try:
        output = _collect(reading, deadline)
    except BaseException:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        raise
    finally:
        os.close(reading)
    # Its output has ended and it holds nothing else: what is left of it is its exit.
    _, status = os.waitpid(process, 0)
    return output if status == 0 else None


def _spawn(script: bytes, binary: Path) -> tuple[int, int]:
    """Start the parser. Return the descriptor of its output and its process id."""
    # A file as stdin, so that writing the script can never block against the reader.
    source = os.memfd_create("script")
    reading, writing = os.pipe()
    try:
        _write_all(source, script)
        os.lseek(source, 0, os.SEEK_SET)
        silence = (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)
        process = os.posix_spawn(
            binary,
            _ARGUMENTS,
            _ENVIRONMENT,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, source, 0),
                (os.POSIX_SPAWN_DUP2, writing, 1),
                silence,
            ],
        )
    except BaseException:
        os.close(reading)
        raise
    finally:
        os.close(source)
        os.close(writing)
    return reading, process


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _collect(descriptor: int, deadline: float) -> bytes:
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    chunks: list[bytes] = []
    total = 0
    while True:
        left = deadline - time.monotonic()
        if left <= 0 or not poller.poll(left * 1000):
            raise ParserStoppedError
        chunk = os.read(descriptor, _CHUNK)
        if not chunk:
            return b"".join(chunks)
        chunks.append(chunk)
        total += len(chunk)
        if total > PARSER_OUTPUT_BYTES:
            raise ParserStoppedError
