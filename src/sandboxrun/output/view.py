"""Bytes as the reader of a terminal sees them: what is between the characters is left out.

A credential that is coloured half-way is still one. So it is looked for in a view of the output
without colours, and the places found there are mapped back.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import Final

_COLOUR: Final = re.compile(rb"\x1b\[[ -?]{0,24}[@-~]")
"""A CSI sequence, ECMA-48 5.4."""
_BEGUN: Final = re.compile(rb"\x1b(?:\[[ -?]{0,24})?\Z")
_LONGEST: Final = 26
LONGEST_RUN: Final = 6
"""CSI sequences in a row that count as colours."""
ESC: Final = b"\x1b"


class View:
    """``text``, and where its characters are in the bytes it was made from.

    Something left out belongs to the character behind it: a range of the view that ends before
    it does not include it.
    """

    def __init__(self, data: bytes, gaps: Iterable[tuple[int, int]], *, end: int) -> None:
        """View ``data`` up to ``end`` without ``gaps`` (start and end, in order)."""
        self.end = end
        """How much of the data was looked at. The rest may be the beginning of a gap."""
        self._gaps = list(gaps)
        self._places: list[int] = []
        self._shifts: list[int] = []
        parts: list[bytes] = []
        done = shift = 0
        for start, stop in self._gaps:
            parts.append(data[done:start])
            self._places.append(start - shift)
            shift += stop - start
            self._shifts.append(shift)
            done = stop
        parts.append(data[done:end])
        self.text = b"".join(parts)

    def raw(self, place: int) -> int:
        """Return where the character at ``place`` is, or the end behind the last one."""
        if place >= len(self.text):
            return self.end
        return self._shifted(place)

    def raw_end(self, place: int) -> int:
        """Return the end of the character before ``place``."""
        return self._shifted(place - 1) + 1 if place > 0 else 0

    def gaps(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return what was left out of the bytes from ``start`` to ``end``."""
        first = bisect_left(self._gaps, (start, start))
        return self._gaps[first : bisect_left(self._gaps, (end, end))]

    def _shifted(self, place: int) -> int:
        gap = bisect_right(self._places, place)
        return place + (self._shifts[gap - 1] if gap else 0)


def without_colours(data: bytes, *, run: int = 0, final: bool) -> tuple[View, int]:
    """Return the view without CSI sequences, and how many of them end it.

    ``run`` of them ended what is before ``data``. After `LONGEST_RUN` in a row the next one is
    taken for text: such a row is no colour but an attempt to make a reader hold back without
    bound. An unfinished last one is not looked at yet, unless the data is ``final``.
    """
    if ESC not in data:
        return View(data, (), end=len(data)), 0 if data else run
    end = len(data)
    if not final:
        begun = _BEGUN.search(data, max(data.rfind(ESC), end - _LONGEST, 0))
        end = end if begun is None else begun.start()
    gaps: list[tuple[int, int]] = []
    behind = 0
    for found in _COLOUR.finditer(data, 0, end):
        run = run + 1 if found.start() == behind else 1
        behind = found.end()
        if run > LONGEST_RUN:
            run = 0
        else:
            gaps.append(found.span())
    return View(data, gaps, end=end), run if behind == end else 0
