"""Bytes as the reader of a terminal sees them: what is between the characters is left out.

A credential that is coloured half-way is still one. So it is looked for in a view of the output
without colours, and the places found there are mapped back.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from functools import cached_property
from itertools import accumulate
from typing import Final, TypeAlias

ESC: Final = b"\x1b"
LONGEST_RUN: Final = 6
"""CSI sequences in a row that count as colours."""
_CSI: Final = rb"\x1b\[[ -?]{0,24}[@-~]"
_COLOUR: Final = re.compile(_CSI)
"""A CSI sequence, ECMA-48 5.4."""
_BEGUN: Final = re.compile(rb"\x1b(?:\[[ -?]{0,24})?\Z")
_LONGEST: Final = 28
# Both begin with a literal, which `re` finds a hundred times faster than a group.
_TOO_MANY: Final = re.compile(rb"%b(?:%b){%d}" % (_CSI, _CSI, LONGEST_RUN))
_LAST_RUN: Final = re.compile(rb"%b(?:%b){0,%d}\Z" % (_CSI, _CSI, LONGEST_RUN - 1))

Gap: TypeAlias = tuple[int, int]


class View:
    """``text``, and where its characters are in the bytes it was made from."""

    def __init__(self, text: bytes, end: int, gaps: Callable[[], list[Gap]]) -> None:
        """View the first ``end`` bytes of something; ``gaps`` says what ``text`` leaves out.

        The gaps are asked for only when a place is.
        """
        self.text = text
        self.end = end
        """How much was looked at. The rest may be the beginning of a gap."""
        self._find_gaps = gaps

    def raw(self, place: int) -> int:
        """Return where the character at ``place`` is, or the end behind the last one."""
        return self.end if place >= len(self.text) else self._shifted(place)

    def raw_end(self, place: int) -> int:
        """Return the end of the character before ``place``."""
        return self._shifted(place - 1) + 1 if place > 0 else 0

    def gaps(self, start: int, end: int) -> list[Gap]:
        """Return what was left out of the bytes from ``start`` to ``end``."""
        first = bisect_left(self._gaps, (start, start))
        return self._gaps[first : bisect_left(self._gaps, (end, end))]

    @cached_property
    def _gaps(self) -> list[Gap]:
        return self._find_gaps()

    @cached_property
    def _shifts(self) -> tuple[list[int], list[int]]:
        sizes = [stop - start for start, stop in self._gaps]
        shifts = list(accumulate(sizes))
        begins = accumulate(sizes, initial=0)
        return [gap[0] - shift for gap, shift in zip(self._gaps, begins, strict=False)], shifts

    def _shifted(self, place: int) -> int:
        places, shifts = self._shifts
        gap = bisect_right(places, place)
        return place + shifts[gap - 1] if gap else place


def without(data: bytes, gaps: list[Gap]) -> View:
    """Return the view of ``data`` that leaves out ``gaps``, which are in order."""
    parts, done = [], 0
    for start, stop in gaps:
        parts.append(data[done:start])
        done = stop
    parts.append(data[done:])
    return View(b"".join(parts) if gaps else data, len(data), lambda: gaps)


def without_colours(data: bytes, *, run: int = 0, final: bool) -> tuple[View, int]:
    """Return the view without CSI sequences, and how many of them end it.

    ``run`` of them ended what is before ``data``. After `LONGEST_RUN` in a row the next one is
    taken for text: such a row is no colour but an attempt to make a reader hold back without
    bound. An unfinished last one is not looked at yet, unless the data is ``final``.
    """
    if ESC not in data:
        return View(data, len(data), list), 0 if data else run
    end = len(data)
    if not final:
        begun = _BEGUN.search(data, max(data.rfind(ESC), end - _LONGEST, 0))
        end = end if begun is None else begun.start()
    if (run and data.startswith(ESC)) or _TOO_MANY.search(data, 0, end):
        gaps, run = _counted(data, end, run)
        return View(without(data[:end], gaps).text, end, lambda: gaps), run
    text = _COLOUR.sub(b"", data[:end])
    last = _LAST_RUN.search(data, max(end - LONGEST_RUN * _LONGEST, 0), end)
    run = 0 if last is None else last[0].count(ESC)
    return View(text, end, lambda: [found.span() for found in _COLOUR.finditer(data, 0, end)]), run


def _counted(data: bytes, end: int, run: int) -> tuple[list[Gap], int]:
    gaps: list[Gap] = []
    behind = 0
    for found in _COLOUR.finditer(data, 0, end):
        run = run + 1 if found.start() == behind else 1
        behind = found.end()
        if run > LONGEST_RUN:
            run = 0
        else:
            gaps.append(found.span())
    return gaps, run if behind == end else 0
