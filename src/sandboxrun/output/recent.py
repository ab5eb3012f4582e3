"""The last bytes of both streams in their order, in bounded memory."""

from __future__ import annotations

from collections import deque
from typing import Final

from sandboxrun.model.event import Stream

_JOINED_BYTES: Final = 16 * 1024
"""Smaller writes are put together, so that a byte at a time costs a byte of memory each."""
_WRITE_COSTS: Final = 64
"""What a write costs besides its bytes, in bytes of the capacity."""
_BEFORE_BYTES: Final = 16 * 1024
"""Enough to recognise a secret that was begun in what is gone."""


class Recent:
    """Keeps the last writes, of which all but the first one fit into ``capacity`` bytes."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._writes: deque[tuple[Stream, bytearray | bytes]] = deque()
        self._size = 0
        self._before: dict[Stream, bytes] = {"stdout": b"", "stderr": b""}
        self.lost = False
        """Whether something was let go."""

    def add(self, stream: Stream, data: bytes) -> None:
        """Add what was written next."""
        last = self._writes[-1] if self._writes else None
        if last is not None and last[0] == stream and len(last[1]) + len(data) < _JOINED_BYTES:
            joined = last[1] if isinstance(last[1], bytearray) else bytearray(last[1])
            joined += data
            self._writes[-1] = stream, joined
            self._size += len(data)
        else:
            self._writes.append((stream, data))
            self._size += len(data) + _WRITE_COSTS
        while self._size - len(self._writes[0][1]) - _WRITE_COSTS >= self._capacity:
            before, gone = self._writes.popleft()
            self._size -= len(gone) + _WRITE_COSTS
            self._before[before] = (self._before[before] + gone[-_BEFORE_BYTES:])[-_BEFORE_BYTES:]
            self.lost = True

    def before(self) -> dict[Stream, bytes]:
        """Return, of each stream, some of what came before that which is kept."""
        return dict(self._before)

    def writes(self) -> list[tuple[Stream, bytes]]:
        """Return what is kept."""
        return [(stream, bytes(data)) for stream, data in self._writes]
