"""What is tried inside a sandbox, and what became of it: the probe program's protocol, sans-IO.

The program (``images/checks``) reads one attempt a line and writes one JSON object for each. It
judges nothing: its answers are observations.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sandboxrun.errors import ProtocolError

DEFAULT_SECONDS: Final = 10.0
MAX_ARGUMENTS: Final = 8
_REFUSALS: Final = frozenset({errno.EPERM, errno.EACCES, errno.ENOSYS, errno.EROFS})
_LIMIT_ENDS: Final = frozenset({"out_of_memory", "disk_limit", "output_limit", "signal 9"})
_FILTERED: Final = "signal 31"
"""SIGSYS: how a filter ends those who use another ABI."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One thing the probe program can try. Texts have no tab, newline or NUL in them."""

    verb: str
    arguments: tuple[str, ...] = ()
    seconds: float = DEFAULT_SECONDS
    """When it is given up."""

    def __str__(self) -> str:
        return " ".join((self.verb, *self.arguments))


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What became of one attempt."""

    end: str = "done"
    """``done``, or how it was kept from answering: ``timeout``, ``signal 9``, ``unknown`` …"""
    value: int = 0
    """What the call returned, or how many were found."""
    error: int = 0
    """The errno of a failure."""
    text: str = ""
    """What was read; bytes that are not UTF-8 are escaped."""
    cut: bool = False
    """Whether text was left out."""

    @property
    def answered(self) -> bool:
        """Whether it was carried out, or ended by the kernel for being tried."""
        return self.end == "done" or self.killed

    @property
    def killed(self) -> bool:
        """Whether a filter ended whoever tried."""
        return self.end == _FILTERED

    @property
    def ended_by_limit(self) -> bool:
        """Whether the run it was made in ended at a limit, which is an answer, too."""
        return self.end in _LIMIT_ENDS

    @property
    def succeeded(self) -> bool:
        """Whether it worked."""
        return self.end == "done" and self.error == 0

    @property
    def refused(self) -> bool:
        """Whether it was forbidden, which is more than that it failed."""
        return self.killed or (self.end == "done" and self.error in _REFUSALS)

    def __str__(self) -> str:
        if self.end != "done":
            return "ended by the filter" if self.killed else self.end
        if self.error:
            return errno.errorcode.get(self.error, f"errno {self.error}")
        return f"succeeded ({self.value})"


def encode_attempts(attempts: Sequence[Attempt]) -> bytes:
    """Return the program's standard input. Raises `ValueError` for a text it cannot carry."""
    return b"".join(_line(attempt) for attempt in attempts)


def _line(attempt: Attempt) -> bytes:
    fields = (attempt.verb, *attempt.arguments)
    if len(attempt.arguments) > MAX_ARGUMENTS or any(
        set(field) & set("\t\n\0") for field in fields
    ):
        raise ValueError(f"an attempt cannot be written down: {fields!r}")
    return "\t".join((str(int(attempt.seconds * 1000)), *fields)).encode() + b"\n"


def parse_observations(output: bytes, count: int) -> tuple[Observation, ...]:
    """Return the observations of ``count`` attempts, in order.

    Raises `ProtocolError` when the output is not the program's, or is cut short.
    """
    lines = output.split(b"\n")
    if lines.pop() != b"" or len(lines) != count + 1 or _document(lines[-1]) != {"attempts": count}:
        raise ProtocolError(
            f"The probe program answered {max(len(lines) - 1, 0)} of {count} attempts."
        )
    return tuple(_observation(index, _document(line)) for index, line in enumerate(lines[:-1]))


def parse_begun(output: bytes, count: int, *, ended: str) -> tuple[Observation, ...]:
    """Return the observations of a run that may have been ended; ``ended`` says how it was.

    Raises `ProtocolError` when what there is is not the program's.
    """
    lines = output.split(b"\n")[:-1][:count]
    found = tuple(_observation(index, _document(line)) for index, line in enumerate(lines))
    return found + (Observation(end=ended, value=-1),) * (count - len(found))


def _document(line: bytes) -> object:
    try:
        return json.loads(line)
    except ValueError as error:
        raise ProtocolError(f"The probe program's answer is not JSON: {line[:80]!r}") from error


def _observation(index: int, document: object) -> Observation:
    match document:
        case {
            "n": number,
            "end": str(end),
            "value": int(value),
            "errno": int(error),
            "cut": bool(cut),
            "text": str(text),
        } if number == index:
            return Observation(end=end, value=value, error=error, text=_text(text), cut=cut)
        case _:
            raise ProtocolError(f"The answer to attempt {index} is malformed.")


def _text(latin: str) -> str:
    """Return the text of bytes that are written as the characters of their numbers."""
    try:
        return latin.encode("latin-1").decode("utf-8", "backslashreplace")
    except UnicodeEncodeError as error:
        raise ProtocolError("A text of the probe program is not made of bytes.") from error
