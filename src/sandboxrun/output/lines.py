"""Lines of a text that streams by: folded at carriage returns, kept at its ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sandboxrun.output.utf8 import LONGEST_CHARACTER, boundary_after

_NEWLINE: Final = b"\n"
_RETURN: Final = b"\r"


@dataclass(frozen=True, slots=True)
class Budget:
    """How much of a text is shown: whichever bound is reached first."""

    lines: int
    bytes: int

    def half(self) -> Budget:
        """Return half of it."""
        return Budget(self.lines // 2, self.bytes // 2)


def last_lines(text: bytes, budget: Budget) -> bytes:
    """Return as many whole lines from the end as the budget allows.

    A last line that is longer than the budget keeps its end, cut between two characters.
    """
    start = len(text)
    for _ in range(budget.lines):
        begin = text.rfind(_NEWLINE, 0, max(start - 1, 0)) + 1
        if start == 0 or len(text) - begin > budget.bytes:
            break
        start = begin
    if start == len(text) and budget.lines > 0 and start > 0:
        start = boundary_after(text, max(len(text) - budget.bytes, 0))
    return text[start:]


def first_lines(text: bytes, budget: Budget) -> bytes:
    """Return as many whole, finished lines from the beginning as the budget allows."""
    end = 0
    for _ in range(budget.lines):
        newline = text.find(_NEWLINE, end, budget.bytes)
        if newline < 0:
            break
        end = newline + 1
    return text[:end]


def count_lines(text: bytes) -> int:
    """Return the number of lines; an unfinished last one counts."""
    return text.count(_NEWLINE) + (bool(text) and not text.endswith(_NEWLINE))


class LineFolder:
    """Cuts a stream into finished lines and the one being written, of which the end is kept.

    A carriage return without a newline begins the line again: what is left of a line is its last
    version that was not empty. Any way of cutting the stream gives the same lines.
    """

    def __init__(self, keep: int) -> None:
        """Keep at least ``keep`` bytes of the end of an unfinished line, and at most twice that."""
        self._keep = keep
        self._current = bytearray()
        self._cut = False
        self._return = False

    @property
    def current(self) -> bytes:
        """The end of the line being written."""
        return bytes(self._current)

    @property
    def current_cut(self) -> bool:
        """Whether the beginning of that line is gone."""
        return self._cut

    def feed(self, data: bytes) -> tuple[bytes, bool]:
        """Return the lines that are finished now, and whether the first lost its beginning."""
        if self._return or _RETURN in data:
            data = self._folded(data)
        newline = data.rfind(_NEWLINE) + 1
        if newline == 0:
            self._grow(data)
            return b"", False
        finished = bytes(self._current) + data[:newline] if self._current else data[:newline]
        cut, self._cut = self._cut, False
        self._current.clear()
        self._grow(data[newline:])
        return finished, cut

    def _grow(self, data: bytes) -> None:
        self._current += data
        if len(self._current) > 2 * self._keep:
            del self._current[: -self._keep]
            self._cut = True

    def _folded(self, data: bytes) -> bytes:
        if self._return:
            data = _RETURN + data
        self._return = data.endswith(_RETURN)
        data = data.rstrip(_RETURN).replace(b"\r\n", b"\n")
        if _RETURN not in data:
            return data
        lines = data.split(_NEWLINE)
        versions = lines[0].split(_RETURN)
        last = _last_version(versions[1:])
        if last:
            self._current.clear()
            self._cut = False
        folded = [last or versions[0]]
        folded += (_last_version(line.split(_RETURN)) for line in lines[1:])
        return _NEWLINE.join(folded)


def _last_version(versions: list[bytes]) -> bytes:
    return next((version for version in reversed(versions) if version), b"")


class Tail:
    """The last finished lines, in bounded memory, for a budget."""

    def __init__(self, budget: Budget) -> None:
        # More than the budget: of a line that is longer, so much stays that it never fits.
        self._keep = budget.bytes + 2 * LONGEST_CHARACTER
        self._text = bytearray()
        self.cut = False
        """Whether something is gone."""

    @property
    def text(self) -> bytes:
        """What is kept."""
        return bytes(self._text)

    def add(self, lines: bytes) -> None:
        """Add finished lines."""
        self._text += lines
        if len(self._text) <= 2 * self._keep:
            return
        start = len(self._text) - self._keep
        newline = self._text.find(_NEWLINE, start) + 1
        del self._text[: start if newline == len(self._text) else newline]
        self.cut = True
