"""Where UTF-8 text may be cut."""

from __future__ import annotations

from typing import Final

_CONTINUATION_MASK: Final = 0xC0
_CONTINUATION: Final = 0x80
LONGEST_CHARACTER: Final = 4
"""Bytes of the longest character."""
_LONGEST_INCOMPLETE: Final = LONGEST_CHARACTER - 1


def incomplete_tail(data: bytes | bytearray | memoryview) -> int:
    """Return how many bytes at the end (0 to 3) begin a character and need more to finish it.

    Bytes that can never become a character count as complete: they are not UTF-8 and waiting for
    more would not change that.
    """
    size = len(data)
    for back in range(1, min(_LONGEST_INCOMPLETE, size) + 1):
        byte = data[size - back]
        if byte & _CONTINUATION_MASK == _CONTINUATION:
            continue
        return back if _may_grow(bytes(data[size - back :])) else 0
    return 0


def _may_grow(start: bytes) -> bool:
    try:
        start.decode()
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data"
    return False


def boundary_after(data: bytes | bytearray, position: int) -> int:
    """Return the first place at or after ``position`` (by at most 3) that is not inside a character."""
    for forward in range(_LONGEST_INCOMPLETE + 1):
        place = position + forward
        if place >= len(data) or data[place] & _CONTINUATION_MASK != _CONTINUATION:
            return place
    return position
