"""How stdout and stderr are put in one sequence."""

from __future__ import annotations

from enum import StrEnum


class Ordering(StrEnum):
    """In which order the bytes of stdout and stderr are reported."""

    EXACT = "exact"
    """The order they were written in."""
    ARRIVAL = "arrival"
    """As they arrived; the order within each stream is kept, across the two it is not."""
