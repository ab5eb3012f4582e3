"""Redaction of one stream: sans-IO, linear, the same for every way of cutting the bytes.

What is defined on the whole stream is this: every occurrence of a known secret's forms and every
well-known credential is a range; ranges that overlap are one; each is replaced by
``[redacted: LABEL]``, with the label of the range that begins first (of those the longest, a
known secret before a format). Colours inside a range stay, behind the replacement.

A stream can do that piece by piece because it holds back what might be the beginning of a range,
which is a bounded number of bytes, and nothing else.

This is hygiene, not a boundary: a command that wants to hide a secret from it can.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias, assert_never

from sandboxrun.output.scanner import Found, KnownSecrets, TokenScanner
from sandboxrun.output.secret_forms import Secret
from sandboxrun.output.token_tails import LONGEST_MARK, Tail
from sandboxrun.output.view import ESC, LONGEST_RUN, View, without, without_colours

_CONTEXT: Final = LONGEST_MARK + 16
"""Characters before the held ones that patterns may look at."""


_PRECEDENCE: Final = itemgetter(0, 1, 2, 3)


class Kept(NamedTuple):
    """Bytes that are passed on as they are."""

    data: bytes


class Removed(NamedTuple):
    """``length`` bytes of the input that ``text`` stands for."""

    length: int
    text: bytes


Passage: TypeAlias = Kept | Removed


class _Range(NamedTuple):
    start: int
    end: int
    label: str | None
    """None where the replacement was written before."""


class Redaction:
    """What to look for. Immutable, made once and shared by all streams."""

    def __init__(self, known: Sequence[KnownSecrets], tokens: TokenScanner) -> None:
        self.known = tuple(one for one in known if one)
        self.tokens = tokens

    @classmethod
    def of(cls, secrets: Iterable[Secret] = (), *, cache: Path | None = None) -> Redaction:
        """Return the redaction of ``secrets`` and the well-known formats.

        Compiling takes a quarter of a second, unless ``cache`` (see `Database`) has the formats.
        """
        return cls([KnownSecrets(secrets)], TokenScanner(cache))

    def including(self, secrets: Iterable[Secret]) -> Redaction:
        """Return this redaction with ``secrets`` on top; only those are compiled."""
        return Redaction((*self.known, KnownSecrets(secrets)), self.tokens)

    def bytes(self, data: bytes) -> bytes:
        """Return all of ``data`` redacted."""
        return b"".join(_shown(passage) for passage in StreamRedactor(self).feed(data, final=True))

    def text(self, text: str) -> str:
        """Return ``text`` redacted: commands, reasons, names, log lines."""
        return self.bytes(text.encode("utf-8", "surrogateescape")).decode(
            "utf-8", "surrogateescape"
        )


class StreamRedactor:
    """Redacts one stream."""

    def __init__(self, redaction: Redaction) -> None:
        self._redaction = redaction
        self._context = b""
        self._held = b""
        self._seen = 0
        """Characters of what is held that were looked at before."""
        self._covered = 0
        """Characters of what is held that belong to the last range written."""
        self._running: frozenset[Tail] = frozenset()
        """Tails that go on behind what was looked at."""
        self._colour_run = 0
        """Colours that stand right before what is held."""
        self.count = 0
        """Replacements so far."""

    @property
    def held_bytes(self) -> int:
        """Bytes that wait for what follows them."""
        return len(self._held)

    def feed(self, data: bytes, *, final: bool = False) -> list[Passage]:
        """Return what is sure now; with ``final`` everything. Lengths add up to the input's."""
        raw = self._held + data if self._held else data
        view, colour_run = without_colours(raw, run=self._colour_run, final=final)
        text = self._context + view.text if self._context else view.text
        found, edge = self._find(text)
        if final:
            edge = len(text)
        behind = len(self._context)
        ranges = self._ranges(text, [one for one in found if one.start < edge], final=final)
        taken = view.raw(edge - behind)
        result = self._passages(raw[:taken], view, ranges, edge)
        self._held = raw[taken:]
        self._seen = len(text) - edge
        self._covered = max(ranges[-1].end - edge, 0) if ranges else 0
        if edge < len(text):
            # What is held begins with a character; if that is an ESC, its sequence was one too many.
            colour_run = LONGEST_RUN if self._held.startswith(ESC) else 0
        self._colour_run = colour_run
        self._context = text[max(edge - _CONTEXT, 0) : edge]
        return result

    def _find(self, text: bytes) -> tuple[list[Found], int]:
        """Return what begins behind the context, by precedence, and where more may have begun."""
        behind = len(self._context)
        tokens = self._redaction.tokens
        found = [one for one in tokens.find(text) if one.start >= behind]
        edge = max(tokens.begun(text), behind)
        if self._redaction.known:
            wraps = (at - behind for at in tokens.wraps(text) if at >= behind)
            joined = without(text[behind:], [(at, at + 1) for at in wraps])
            for known in self._redaction.known:
                found += (_moved(one, joined, behind) for one in known.find(joined.text))
                edge = min(edge, behind + joined.raw(known.begun(joined.text)))
        found.sort(key=_PRECEDENCE)
        return found, edge

    def _ranges(self, text: bytes, found: list[Found], *, final: bool) -> list[_Range]:
        """Return the ranges that begin with ``found`` or began before, joined where they overlap."""
        behind = len(self._context)
        covered = behind + self._covered
        running: set[Tail] = set()

        walked: dict[Tail, tuple[int, int]] = {}

        def end_of(tail: Tail, start: int) -> int:
            begin, end = walked.get(tail, (0, 0))
            if begin <= start < end:
                # It ends where it ends, wherever in it one begins. Without this, a long one that
                # is full of triggers would be walked again for each.
                return end
            found_end = tail.end(text, start)
            if found_end is None and not final:
                running.add(tail)
            end = len(text) if found_end is None else found_end
            walked[tail] = start, end
            return end

        for tail in self._running:
            covered = max(covered, end_of(tail, behind + self._seen))
        ranges = [_Range(behind, covered, None)] if covered > behind else []
        start, end, label = behind, covered, None
        for one in found:
            stop = -one.minus_end if one.tail is None else end_of(one.tail, -one.minus_end)
            if one.start >= end:
                start, label = one.start, one.label
                ranges.append(_Range(start, stop, label))
                end = stop
            elif stop > end:
                end = stop
                ranges[-1] = _Range(start, end, label)
        self._running = frozenset(running)
        return ranges

    def _passages(self, raw: bytes, view: View, ranges: list[_Range], edge: int) -> list[Passage]:
        behind = len(self._context)
        result: list[Passage] = []
        done = 0
        for one in ranges:
            start = view.raw(one.start - behind)
            end = view.raw_end(min(one.end, edge) - behind)
            _keep(result, raw[done:start])
            text = b""
            if one.label is not None:
                text = b"[redacted: %b]" % one.label.encode()
                self.count += 1
            for colour, behind_colour in view.gaps(start, end):
                _remove(result, colour - start, text)
                _keep(result, raw[colour:behind_colour])
                start, text = behind_colour, b""
            _remove(result, end - start, text)
            done = end
        _keep(result, raw[done:])
        return result


def _moved(found: Found, view: View, behind: int) -> Found:
    start, end = view.raw(found.start), view.raw_end(-found.minus_end)
    return Found(behind + start, found.rank, -behind - end, found.label)


def _keep(passages: list[Passage], data: bytes) -> None:
    if data:
        passages.append(Kept(data))


def _remove(passages: list[Passage], length: int, text: bytes) -> None:
    if length or text:
        passages.append(Removed(length, text))


def _shown(passage: Passage) -> bytes:
    match passage:
        case Kept(data):
            return data
        case Removed(_, text):
            return text
        case _:
            assert_never(passage)
