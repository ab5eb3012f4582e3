"""How a credential goes on behind the part it is recognised by."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Protocol


class Tail(Protocol):
    """Says where a credential ends. Hashable: a stream remembers which tails are running."""

    def end(self, text: bytes, start: int) -> int | None:
        """Return where the tail that goes on at ``start`` ends; None if ``text`` ends first."""
        ...


@dataclass(frozen=True)
class ClassTail:
    """All that follows in one class of characters."""

    char: bytes

    @cached_property
    def _run(self) -> re.Pattern[bytes]:
        return re.compile(self.char + b"*+")

    def end(self, text: bytes, start: int) -> int | None:
        """Return where the first other character stands."""
        run = self._run.match(text, start)
        end = start if run is None else run.end()
        return None if end == len(text) else end


_DASHES: Final = b"-----"
_MARK: Final = re.compile(rb"-----END [A-Z0-9 ]{0,60}(?=-----)")
LONGEST_MARK: Final = 80
"""Bytes of the longest end mark, about."""
_BODY: Final = re.compile(rb"[A-Za-z0-9+/=\s\\:,.()@<>-]*+")


@dataclass(frozen=True)
class KeyTail:
    """The body of a PEM or PGP block, up to and with its end mark.

    Without an end mark it ends at the first character that no such block has, so that a header
    alone does not hide everything behind it.
    """

    def end(self, text: bytes, start: int) -> int | None:
        """Return where the block ends."""
        run = _BODY.match(text, start)
        limit = start if run is None else run.end()
        # The mark may have begun in what was seen before.
        for mark in _MARK.finditer(text, max(start - LONGEST_MARK, 0), limit):
            if mark.end() + len(_DASHES) > start:
                return mark.end() + len(_DASHES)
        return None if limit == len(text) else limit
