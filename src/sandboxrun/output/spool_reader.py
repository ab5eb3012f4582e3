"""A cursor on a spool, in any process, while it is written and afterwards."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from sandboxrun.errors import OutputError
from sandboxrun.model.event import Event, Output, Settled, Stream, parse_event
from sandboxrun.output.append_file import writer_lives
from sandboxrun.output.record import (
    MAGIC,
    MAX_PAYLOAD,
    Damaged,
    Incomplete,
    Record,
    RecordKind,
    decode_record,
    wall_time,
)

BATCH_BYTES: Final = 1024 * 1024
"""Output returned by one read, about."""
BATCH_EVENTS: Final = 512
"""Events returned by one read. Making one takes microseconds, and an event loop waits for it."""
_CHUNK: Final = 256 * 1024
_STREAMS: Final[dict[RecordKind, Stream]] = {
    RecordKind.STDOUT: "stdout",
    RecordKind.STDERR: "stderr",
}


class SpoolReader:
    """Returns events in order, each exactly once, from any number on.

    It holds at most one event and one read's bytes in memory, however far behind it is.
    """

    def __init__(self, path: Path, *, after: int = 0) -> None:
        """Stand behind event ``after``. Raises `OutputError` if ``path`` is no spool."""
        self.path = path
        self._after = after
        self._newest = 0
        self._settled = False
        self._behind = True
        self._damage: str | None = None
        self._parts: list[bytes] = []
        self._first: Record | None = None
        """Begin of the output event that is not complete yet."""
        self._buffer = b""
        self._used = 0
        self._next_read = len(MAGIC)
        self._fd = self._opened()

    @property
    def settled(self) -> bool:
        """Whether the run's last event was reached."""
        return self._settled

    @property
    def damage(self) -> str | None:
        """Why nothing more can be read, or None. A record that is cut off is no damage."""
        return self._damage

    @property
    def behind(self) -> bool:
        """Whether the last read stopped before the end, so that another one finds more."""
        return self._behind

    @property
    def newest_seq(self) -> int:
        """Number of the newest event seen, complete or not."""
        return self._newest

    @property
    def open_stream(self) -> Stream | None:
        """Stream of the event that is not complete, or None."""
        return None if self._first is None else _STREAMS[self._first.kind]

    @property
    def good_end(self) -> int:
        """Where in the file the records end that were read so far."""
        return self._next_read - len(self._buffer) + self._used

    @property
    def writer_lives(self) -> bool:
        """Whether some process has the spool open for writing."""
        return writer_lives(self._fd)

    def read(self, *, final: bool = False) -> list[Event]:
        """Return the next events that are complete, none if there is nothing new.

        An event that is still open is left for later, unless ``final`` says that nobody will
        complete it. Raises `OutputError` if the file cannot be read or holds something that is
        no event.
        """
        events: list[Event] = []
        size = 0
        self._behind = True
        while size < BATCH_BYTES and len(events) < BATCH_EVENTS and not self._settled:
            record = self._record()
            if record is None:
                self._behind = False
                if final and (rest := self._complete()) is not None:
                    events.append(rest)
                break
            size += len(record.payload)
            events.extend(event for event in self._take(record) if event.seq > self._after)
        return events

    def skip_to_end(self) -> None:
        """Move behind the last good record. Raises `OutputError` as `read` does."""
        while (record := self._record()) is not None:
            self._after = record.seq
            for _ in self._take(record):
                pass

    def close(self) -> None:
        """Let go of the file. Safe to call twice."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _take(self, record: Record) -> Iterator[Event]:
        if self._first is not None and record.seq != self._first.seq:
            rest = self._complete()
            if rest is not None:
                yield rest
        self._newest = record.seq
        if record.kind is RecordKind.CONTROL:
            event = self._control(record)
            self._settled = isinstance(event, Settled)
            yield event
            return
        if self._first is None:
            self._first = record
        if record.seq > self._after:
            self._parts.append(record.payload)
        if record.last:
            done = self._complete()
            if done is not None:
                yield done

    def _complete(self) -> Event | None:
        first, self._first = self._first, None
        parts, self._parts = self._parts, []
        if first is None or first.seq <= self._after:
            return None
        data = b"".join(parts)
        return Output.of(_STREAMS[first.kind], data, seq=first.seq, time=wall_time(first))

    def _control(self, record: Record) -> Event:
        try:
            event = parse_event(record.payload)
        except ValueError as error:
            raise OutputError(f"{self.path}: event {record.seq} is malformed.") from error
        return event.model_copy(update={"seq": record.seq, "time": wall_time(record)})

    def _record(self) -> Record | None:
        while self._damage is None:
            found = decode_record(self._buffer, self._used)
            match found:
                case Incomplete():
                    if not self._fill():
                        return None
                case Damaged(why):
                    self._damage = why
                case (record, end):
                    self._used = end
                    return record
        return None

    def _fill(self) -> bool:
        try:
            more = os.pread(self._fd, max(_CHUNK, MAX_PAYLOAD), self._next_read)
        except OSError as error:
            raise OutputError(f"{self.path}: {error.strerror}.") from error
        self._buffer = self._buffer[self._used :] + more
        self._used = 0
        self._next_read += len(more)
        return bool(more)

    def _opened(self) -> int:
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError as error:
            raise OutputError(f"{self.path}: {error.strerror}.") from error
        if os.pread(fd, len(MAGIC), 0) != MAGIC:
            os.close(fd)
            raise OutputError(f"{self.path} is not a spool of this version.")
        return fd
