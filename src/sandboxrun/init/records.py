"""The exit record: the init's last frame, saying how the command ended."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from sandboxrun.errors import ProtocolError
from sandboxrun.model.ordering import Ordering

_MAX_NUMBER: Final = 2**63 - 1
_MAX_DIGITS: Final = 19


class ExitKind(StrEnum):
    """What ended the command."""

    EXITED = "exited"
    """It exited; ``code`` is set."""
    SIGNALED = "signaled"
    """A signal ended it; ``signal`` and ``core`` are set."""
    EXEC_FAILED = "exec_failed"
    """Its program could not be executed; ``errno`` says why."""
    CWD_FAILED = "cwd_failed"
    """The directory is absent, no directory, or not canonical; ``errno`` says why."""
    DEADLINE = "deadline"
    """The init's own deadline passed; everything was killed."""
    SETUP_FAILED = "setup_failed"
    """The init could not prepare the child; ``errno`` says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitRecord:
    """How the command ended and what it used.

    Times are microseconds, sizes bytes unless named otherwise; None is "not known".
    """

    kind: ExitKind
    code: int | None = None
    """Exit code, 0 to 255."""
    signal: int | None = None
    """Number of the deadly signal."""
    errno: int | None = None
    core: bool | None = None
    """Whether a core was dumped."""
    elapsed_us: int
    """From the receipt of the request to the death of the command's first process."""
    utime_us: int
    stime_us: int
    """CPU time of all processes the init reaped."""
    maxrss_kb: int
    """Largest resident set of any one process, in KiB."""
    peak_memory: int | None = None
    """Highest memory charge of the container's cgroup."""
    peak_pids: int | None = None
    """Most tasks at once; not known on cgroup v1."""
    oom_kills: int | None = None
    """Processes the kernel killed at the memory limit."""
    leftover: int
    """Processes that were still there when the command ended, and were killed."""
    ordering: Ordering
    """The ordering that was in force."""
    notifications: int | None = None
    """Write and redirection notices handled, where ``ordering`` is exact."""
    notify_cancelled: int | None = None
    """Notices that a signal interrupted; the calls were made again, unless ``unguarded``."""
    unguarded: int | None = None
    """Times a signal handler that can make calls fail with EINTR went unguarded (the process was
    being debugged, say): there, an interrupted write to stderr may have been lost."""


_FLAGS: Final = frozenset({"core"})
_NUMBERS: Final = frozenset(
    {
        *("code", "signal", "errno", "elapsed_us", "utime_us", "stime_us", "maxrss_kb"),
        *("peak_memory", "peak_pids", "oom_kills", "leftover"),
        *("notifications", "notify_cancelled", "unguarded"),
    }
)
_REQUIRED: Final = ("elapsed_us", "utime_us", "stime_us", "maxrss_kb", "leftover")
_BELONGING: Final = {
    ExitKind.EXITED: frozenset({"code"}),
    ExitKind.SIGNALED: frozenset({"signal", "core"}),
    ExitKind.EXEC_FAILED: frozenset({"errno"}),
    ExitKind.CWD_FAILED: frozenset({"errno"}),
    ExitKind.DEADLINE: frozenset[str](),
    ExitKind.SETUP_FAILED: frozenset({"errno"}),
}
_ENDINGS: Final = frozenset({"code", "signal", "core", "errno"})
_HIGHEST: Final = {"code": 255, "signal": 64, "errno": 4095, "core": 1}


def parse_exit_record(payload: bytes) -> ExitRecord:
    """Return the record.

    Raises `ProtocolError` for unknown, repeated, missing or contradicting keys and for numbers
    that are malformed or out of range.
    """
    texts = _lines(payload)
    try:
        kind = ExitKind(texts.pop("kind"))
        ordering = Ordering(texts.pop("ordering"))
    except (KeyError, ValueError) as error:
        raise ProtocolError(f"The exit record is malformed: {error}") from error
    unknown = texts.keys() - _NUMBERS - _FLAGS
    if unknown:
        raise ProtocolError(f"The exit record has unknown keys {sorted(unknown)}.")
    numbers = {key: _number(key, text) for key, text in texts.items()}
    if _ENDINGS & numbers.keys() != _BELONGING[kind]:
        raise ProtocolError(f"The exit record contradicts its kind {kind}.")
    missing = [key for key in _REQUIRED if key not in numbers]
    if missing:
        raise ProtocolError(f"The exit record lacks {missing}.")
    core = numbers.pop("core", None)
    return ExitRecord(
        kind=kind,
        code=numbers.get("code"),
        signal=numbers.get("signal"),
        errno=numbers.get("errno"),
        core=None if core is None else core == 1,
        elapsed_us=numbers["elapsed_us"],
        utime_us=numbers["utime_us"],
        stime_us=numbers["stime_us"],
        maxrss_kb=numbers["maxrss_kb"],
        peak_memory=numbers.get("peak_memory"),
        peak_pids=numbers.get("peak_pids"),
        oom_kills=numbers.get("oom_kills"),
        leftover=numbers["leftover"],
        ordering=ordering,
        notifications=numbers.get("notifications"),
        notify_cancelled=numbers.get("notify_cancelled"),
        unguarded=numbers.get("unguarded"),
    )


def encode_exit_record(record: ExitRecord) -> bytes:
    """Return the payload `parse_exit_record` reads; for an init written in Python."""
    lines = [f"kind={record.kind}\n", f"ordering={record.ordering}\n"]
    for key in sorted(_NUMBERS | _FLAGS):
        value = getattr(record, key)
        if value is not None:
            lines.append(f"{key}={int(value)}\n")
    return "".join(lines).encode("ascii")


def _lines(payload: bytes) -> dict[str, str]:
    if not payload.isascii() or not payload.endswith(b"\n"):
        raise ProtocolError("The exit record is not made of ASCII lines.")
    texts: dict[str, str] = {}
    for line in payload.decode("ascii")[:-1].split("\n"):
        key, separator, value = line.partition("=")
        if not separator or key in texts:
            raise ProtocolError("The exit record has a malformed or repeated line.")
        texts[key] = value
    return texts


def _number(key: str, text: str) -> int:
    if not text.isdecimal() or len(text) > _MAX_DIGITS:
        raise ProtocolError(f"The exit record's {key} is not a number.")
    number = int(text)
    if number > _HIGHEST.get(key, _MAX_NUMBER):
        raise ProtocolError(f"The exit record's {key} is out of range.")
    return number
