"""The slow parser: mvdan/sh, as one bounded process. The only I/O of screening."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import sysconfig
import time
from pathlib import Path
from typing import Final

from sandboxrun.errors import InstallError
from sandboxrun.screening.limits import PARSER_OUTPUT_BYTES, PARSER_SECONDS

_CHUNK: Final = 1 << 16
_ARGUMENTS: Final = ("--to-json", "-ln", "bash")
_ENVIRONMENT: Final = {"GOMAXPROCS": "1", "GOMEMLIMIT": "256MiB"}
_REAP_SECONDS: Final = 5.0


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
    # A file as stdin, so that writing the script can never block against the reader.
    source = os.memfd_create("script")
    try:
        os.write(source, script) if len(script) < _CHUNK else _write_all(source, script)
        os.lseek(source, 0, os.SEEK_SET)
        process = subprocess.Popen(
            [binary, *_ARGUMENTS],
            stdin=source,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_ENVIRONMENT,
        )
    finally:
        os.close(source)
    try:
        return _collect(process, time.monotonic() + seconds)
    finally:
        # Killing a process that has ended is harmless, and a bounded wait cannot hang on one
        # that was killed.
        process.kill()
        if process.stdout is not None:
            process.stdout.close()
        process.wait(_REAP_SECONDS)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _collect(process: subprocess.Popen[bytes], deadline: float) -> bytes | None:
    if process.stdout is None:
        raise ParserStoppedError
    descriptor = process.stdout.fileno()
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
            break
        chunks.append(chunk)
        total += len(chunk)
        if total > PARSER_OUTPUT_BYTES:
            raise ParserStoppedError
    try:
        status = process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise ParserStoppedError from None
    return b"".join(chunks) if status == 0 else None
