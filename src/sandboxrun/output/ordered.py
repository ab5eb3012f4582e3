"""Redaction of stdout and stderr that keeps them in one exact order.

Bytes that one stream holds back keep their place, and what the other stream wrote later waits
behind them. Only when more than `MOST_WAITING` bytes wait do the held ones lose their place and
come later, when they are decided: memory has to be bounded, nothing may be shown that might be a
secret, and no byte may be lost, so the order gives way. That depends on the bytes alone: any way
of cutting them gives the same result.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from sandboxrun.model.event import Stream
from sandboxrun.output.redact import Kept, Passage, Redaction, Removed, StreamRedactor

MOST_WAITING: Final = 1024 * 1024
"""Bytes of one stream that wait for a decision about the other."""


class OrderedRedactor:
    """Redacts both streams. Sans-IO."""

    def __init__(self, redaction: Redaction, *, most_waiting: int = MOST_WAITING) -> None:
        self._most_waiting = most_waiting
        self._streams: dict[Stream, _Decided] = {
            "stdout": _Decided(StreamRedactor(redaction)),
            "stderr": _Decided(StreamRedactor(redaction)),
        }
        self._order: deque[_Turn] = deque()
        """What was written and not passed on, in the order it was written."""
        self._waiting = 0

    @property
    def count(self) -> int:
        """Replacements so far."""
        return sum(stream.redactor.count for stream in self._streams.values())

    @property
    def waiting_bytes(self) -> int:
        """Bytes that were fed and not returned, held ones included."""
        return self._waiting

    def feed(self, stream: Stream, data: bytes) -> list[tuple[Stream, bytes]]:
        """Return what can be passed on now, in order."""
        passed: list[tuple[Stream, bytes]] = []
        while data:
            room = self._room(stream, len(data))
            if room <= 0:
                self._give_way()
                self._pass(passed)
                continue
            self._write(stream, data[:room])
            data = data[room:]
            self._pass(passed)
        return passed

    def prime(self, stream: Stream, data: bytes) -> None:
        """Take note of what came before the first `feed`, without returning it.

        What of it cannot be decided is returned in its turn.
        """
        redactor = self._streams[stream].redactor
        redactor.feed(data)
        if redactor.held_bytes:
            self._waiting += redactor.held_bytes
            self._append(stream, redactor.held_bytes)

    def decided(self) -> dict[Stream, bytes]:
        """Return what is decided and waits only for its turn, of each stream.

        A display for a human, who would rather see it out of its place than late, may show it;
        it is returned once more when its turn comes.
        """
        return {name: stream.decided() for name, stream in self._streams.items()}

    def finish(self) -> list[tuple[Stream, bytes]]:
        """Return the rest; nothing is fed afterwards."""
        for stream in self._streams.values():
            stream.feed(b"", final=True)
        passed: list[tuple[Stream, bytes]] = []
        self._pass(passed)
        return passed

    def _room(self, stream: Stream, size: int) -> int:
        """Return how much can be written before the order may have to give way."""
        before = 0
        for turn in self._order:
            before += turn.length
            if turn.stream != stream:
                room = self._most_waiting - (self._waiting - before)
                if turn is self._order[0] or room >= size:
                    return min(room, size)
                # The stream's own held bytes stand before it; see what becomes of them first.
                return 1
        return size

    def _give_way(self) -> None:
        turn = self._order.popleft()
        self._append(turn.stream, turn.length)

    def _write(self, stream: Stream, data: bytes) -> None:
        self._waiting += len(data)
        self._append(stream, len(data))
        self._streams[stream].feed(data)

    def _append(self, stream: Stream, length: int) -> None:
        if self._order and self._order[-1].stream == stream:
            self._order[-1].length += length
        else:
            self._order.append(_Turn(stream, length))

    def _pass(self, passed: list[tuple[Stream, bytes]]) -> None:
        while self._order:
            turn = self._order[0]
            length, data = self._streams[turn.stream].take(turn.length)
            if data:
                passed.append((turn.stream, data))
            turn.length -= length
            self._waiting -= length
            if turn.length:
                return
            self._order.popleft()


class _Turn:
    """Bytes that one stream wrote before the other wrote again."""

    __slots__ = ("length", "stream")

    def __init__(self, stream: Stream, length: int) -> None:
        self.stream = stream
        self.length = length


class _Decided:
    """What a stream's redactor has decided about and nobody has taken yet."""

    def __init__(self, redactor: StreamRedactor) -> None:
        self.redactor = redactor
        self._passages: deque[Passage] = deque()

    def feed(self, data: bytes, *, final: bool = False) -> None:
        """Decide about more."""
        self._passages += self.redactor.feed(data, final=final)

    def decided(self) -> bytes:
        """Return what `take` would, without taking it."""
        return b"".join(passage[-1] for passage in self._passages)

    def take(self, most: int) -> tuple[int, bytes]:
        """Return how many of the next ``most`` bytes are decided, and what they became."""
        taken = 0
        parts: list[bytes] = []
        while self._passages and taken < most:
            passage = self._passages.popleft()
            now, later = _split(passage, most - taken)
            if later is not None:
                self._passages.appendleft(later)
            match now:
                case Kept(data):
                    taken += len(data)
                    parts.append(data)
                case Removed(length, text):
                    taken += length
                    parts.append(text)
        return taken, parts[0] if len(parts) == 1 else b"".join(parts)


def _split(passage: Passage, at: int) -> tuple[Passage, Passage | None]:
    match passage:
        case Kept(data) if len(data) > at:
            return Kept(data[:at]), Kept(data[at:])
        case Removed(length, text) if length > at:
            return Removed(at, text), Removed(length - at, b"")
        case _:
            return passage, None
