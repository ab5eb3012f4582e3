"""The request: what the init shall run, encoded as frames."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from sandboxrun.errors import InvalidEnvironmentError, ProtocolError, UsageError
from sandboxrun.init.frames import MAX_TO_INIT, FrameType, encode_frame
from sandboxrun.init.sections import decode_sections, encode_sections, split_terminated
from sandboxrun.model.ordering import Ordering

MAX_REQUEST: Final = 32 * 1024 * 1024
"""Largest request the init accepts, in bytes."""
MAX_ARGUMENT: Final = 128 * 1024 - 1
"""Longest argument of a program on Linux with 4 KiB pages, in bytes (execve(2))."""
MAX_DEADLINE_MS: Final = 366 * 24 * 3600 * 1000
SCRIPT_DESCRIPTOR: Final = 63
"""Where a child finds a script too long for an argument. Also in `images/init/spawn.c`."""
SHELL: Final = (b"bash", b"--noprofile", b"--norc", b"-c")
_LOAD_SCRIPT: Final = (
    # LC_ALL: in a multi-byte locale bash's read changes bytes that are not valid in it.
    b'LC_ALL=C IFS= read -r -d "" -u 63 BASH_EXECUTION_STRING || :; exec 63<&-; : "$0"; '
    b'eval "$BASH_EXECUTION_STRING"'
)
"""Leaves the shell as `-c SCRIPT` would: `set`, `$0`, `$-`, `$?` and `$_` are the same."""
_TOTAL: Final = struct.Struct("<Q")
_SECTIONS: Final = frozenset({"argv", "env", "cwd", "deadline_ms", "ordering", "stdin", "script"})


@dataclass(frozen=True, slots=True, kw_only=True)
class InitRequest:
    """One command, in bytes.

    Either ``argv`` (executed as it is) or ``script`` (run by bash). ``env`` is the complete
    environment. ``cwd`` is an absolute canonical path. ``deadline_ms`` counts from the receipt
    of the request on the monotonic clock and is only the backstop for an orchestrator that died.

    Raises `UsageError` for what no process can be given.
    """

    argv: tuple[bytes, ...] = ()
    script: bytes | None = None
    env: tuple[tuple[bytes, bytes], ...] = ()
    cwd: bytes
    deadline_ms: int
    ordering: Ordering = Ordering.ARRIVAL
    stdin: bool = False

    def __post_init__(self) -> None:
        if bool(self.argv) == (self.script is not None):
            raise UsageError("A request has either argv or a script.")
        if any(b"\0" in text for text in (*self.argv, self.script or b"", self.cwd)):
            raise UsageError("A command, its arguments and its directory cannot contain NUL.")
        if not self.cwd.startswith(b"/"):
            raise UsageError("The working directory must be an absolute path.")
        if not 0 < self.deadline_ms <= MAX_DEADLINE_MS:
            raise UsageError(f"A deadline of {self.deadline_ms} ms is out of range.")
        _check_environment(self.env)


def _check_environment(env: tuple[tuple[bytes, bytes], ...]) -> None:
    for name, value in env:
        shown = name.decode("utf-8", "backslashreplace")
        if not name or b"=" in name or b"\0" in name:
            raise InvalidEnvironmentError(f"{shown!r} cannot name an environment variable.")
        if b"\0" in value:
            raise InvalidEnvironmentError(f"The value of {shown!r} contains NUL.")
    if len({name for name, _ in env}) != len(env):
        raise InvalidEnvironmentError("An environment variable is given twice.")


def encode_request(request: InitRequest) -> Iterator[bytes]:
    """Yield the frames of ``request``, the end included.

    Raises `UsageError` when it is larger than the init accepts.
    """
    blob = encode_request_blob(request)
    if len(blob) > MAX_REQUEST:
        raise UsageError(f"The request has {len(blob)} bytes; {MAX_REQUEST} are allowed.")
    return _frames(blob)


def _frames(blob: bytes) -> Iterator[bytes]:
    for start in range(0, len(blob), MAX_TO_INIT):
        yield encode_frame(FrameType.REQUEST, blob[start : start + MAX_TO_INIT])
    yield encode_frame(FrameType.REQUEST_END, _TOTAL.pack(len(blob)))


def encode_request_blob(request: InitRequest) -> bytes:
    """Return the sections of ``request``.

    A script that fits an argument goes in as one. A longer one goes in by descriptor; the shell
    reads and closes it before the script's first command.
    """
    argv = request.argv
    by_descriptor = False
    if request.script is not None:
        by_descriptor = len(request.script) > MAX_ARGUMENT
        argv = (*SHELL, _LOAD_SCRIPT if by_descriptor else request.script)
    sections = [
        ("argv", b"".join(argument + b"\0" for argument in argv)),
        ("env", b"".join(name + b"=" + value + b"\0" for name, value in request.env)),
        ("cwd", request.cwd),
        ("deadline_ms", str(request.deadline_ms).encode("ascii")),
        ("ordering", request.ordering.encode("ascii")),
        ("stdin", b"pipe" if request.stdin else b"none"),
    ]
    if by_descriptor and request.script is not None:
        sections.append(("script", request.script))
    return encode_sections(sections)


def decode_request_blob(blob: bytes) -> InitRequest:
    """Return the request that `encode_request_blob` encoded; for an init written in Python.

    Raises `ProtocolError` for anything the init would refuse.
    """
    sections = decode_sections(blob, _SECTIONS)
    missing = _SECTIONS - {"script"} - sections.keys()
    if missing:
        raise ProtocolError(f"The request lacks {sorted(missing)}.")
    argv = split_terminated(sections["argv"])
    script = sections.get("script")
    if script is None and len(argv) == len(SHELL) + 1 and argv[:-1] == SHELL:
        script = argv[-1]
    env = []
    for entry in split_terminated(sections["env"]):
        name, separator, value = entry.partition(b"=")
        if not separator:
            raise ProtocolError("An environment entry lacks '='.")
        env.append((name, value))
    try:
        return InitRequest(
            argv=() if script is not None else argv,
            script=script,
            env=tuple(env),
            cwd=sections["cwd"],
            deadline_ms=int(sections["deadline_ms"]),
            ordering=Ordering(sections["ordering"].decode("ascii")),
            stdin={b"pipe": True, b"none": False}[sections["stdin"]],
        )
    except (ValueError, KeyError, UsageError) as error:
        raise ProtocolError(f"The request is malformed: {error}") from error
