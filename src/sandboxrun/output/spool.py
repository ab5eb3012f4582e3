"""The spool: one append-only file per run that holds its events, output included.

It is the truth about a run's output; every consumer is a cursor on it (`SpoolReader`), so a slow
one neither loses output nor holds up the command. Writes go to the page cache and nothing is
fsynced: a crash of the process loses nothing that was appended, a power loss may cost the last
seconds of output, and what must survive that is in the audit chain. Such a write takes tens of
microseconds, so it is made on the event loop; a run's output limit bounds how much there is.

Small writes are put together: while one stream goes on, an event opens at most every
`COALESCE_SECONDS`. The first is complete at once, a later one when its time is over. This is done
here and not by each reader, so that all of them see the same events with the same numbers.
"""

from __future__ import annotations

import hashlib
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from sandboxrun.errors import OutputError
from sandboxrun.model.event import Settled, Step, Stream
from sandboxrun.output.append_file import AppendFile
from sandboxrun.output.changes import Changes
from sandboxrun.output.record import MAGIC, Record, RecordKind, encode_header, wall_time
from sandboxrun.output.spool_reader import SpoolReader
from sandboxrun.output.utf8 import LONGEST_CHARACTER, incomplete_tail

COALESCE_SECONDS: Final = 0.1
MAX_EVENT_BYTES: Final = 64 * 1024
"""Most output in one event."""
_KINDS: Final[dict[Stream, RecordKind]] = {
    "stdout": RecordKind.STDOUT,
    "stderr": RecordKind.STDERR,
}
_NEVER: Final = float("-inf")


class SpoolWriter:
    """The one writer of a spool; others can tell that it is alive. Not for several threads."""

    def __init__(
        self,
        path: Path,
        *,
        coalesce_seconds: float = COALESCE_SECONDS,
        resume: bool = False,
    ) -> None:
        """Create the file (mode 0600), or with ``resume`` go on where a dead writer stopped.

        With ``coalesce_seconds`` 0 every append is an event.

        Raises `OutputError` if the file exists (is missing, with ``resume``), is no spool, has a
        living writer, or cannot be written.
        """
        self.path = path
        self._coalesce = coalesce_seconds
        self.changes = Changes()
        """Wakes consumers in this process."""
        self._began = time.monotonic_ns()
        self._seq = 0
        self._settled = False
        self._open: Stream | None = None
        self._open_bytes = 0
        self._opened_at = _NEVER
        self._tails: dict[Stream, bytes] = {"stdout": b"", "stderr": b""}
        self._digest = hashlib.sha256()
        self.output_bytes = 0
        """Bytes of output appended by this writer."""
        self._file = AppendFile(path, create=not resume)
        try:
            if resume:
                self._pick_up()
            else:
                self._file.append(MAGIC)
        except BaseException:
            self._file.close()
            if not resume:
                path.unlink(missing_ok=True)
            raise

    @property
    def last_seq(self) -> int:
        """Number of the newest event; 0 before the first."""
        return self._seq

    @property
    def settled(self) -> bool:
        """Whether the last event is there; nothing can be appended any more."""
        return self._settled

    @property
    def due(self) -> float | None:
        """When `close_event` should be called (``time.monotonic``), or None if it need not be."""
        return None if self._open is None else self._opened_at + self._coalesce

    def output_digest(self) -> str:
        """Return the SHA-256 (hex) of the output appended, both streams in their order."""
        return self._digest.hexdigest()

    def append(self, event: Step) -> Step:
        """Put ``event`` at the end and return it with its number and time.

        Raises `OutputError` after `Settled` or when the file cannot be written.
        """
        final = isinstance(event, Settled)
        if final:
            self.finish_output()
        self.close_event()
        fields = event.model_dump_json(exclude={"seq", "time"}).encode()
        record = self._write(self._seq + 1, RecordKind.CONTROL, fields, last=True)
        self._settled = final
        self.changes.notify(final=final)
        return event.model_copy(update={"seq": record.seq, "time": wall_time(record)})

    def append_output(self, stream: Stream, data: bytes) -> None:
        """Put output at the end. Up to 3 bytes that begin a character wait for the rest of it.

        Raises `OutputError` after `Settled` or when the file cannot be written.
        """
        if self._tails[stream]:
            data = self._tails[stream] + data
        whole = len(data) - incomplete_tail(data)
        self._tails[stream] = data[whole:]
        self._append_pieces(stream, data[:whole])

    def finish_output(self) -> None:
        """Say that no output follows: an unfinished character is appended as it is.

        Raises `OutputError` when the file cannot be written.
        """
        for stream in _KINDS:
            tail, self._tails[stream] = self._tails[stream], b""
            if tail:
                # On its own: it is not UTF-8, and what is before it shall stay text.
                self.close_event()
                self._append_pieces(stream, tail)
        self.close_event()

    def close_event(self) -> None:
        """Complete the event that is open, so that readers see it. Nothing happens without one.

        Raises `OutputError` when the file cannot be written.
        """
        if self._open is None:
            return
        stream, self._open = self._open, None
        self._write(self._seq, _KINDS[stream], b"", last=True)
        self.changes.notify()

    def close(self) -> None:
        """Complete what is open and let go of the file. Safe to call twice.

        Raises `OutputError` when the file cannot be written; it is closed all the same.
        """
        try:
            if not self._settled:
                self.finish_output()
        finally:
            self._file.close()
            self.changes.notify(final=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _pick_up(self) -> None:
        with SpoolReader(self.path) as reader:
            reader.skip_to_end()
            self._file.truncate(reader.good_end)
            self._seq = reader.newest_seq
            self._settled = reader.settled
            self._open = reader.open_stream

    def _append_pieces(self, stream: Stream, data: bytes) -> None:
        start = 0
        while start < len(data):
            now = time.monotonic()
            joins = self._open == stream and now < self._opened_at + self._coalesce
            room = MAX_EVENT_BYTES - (self._open_bytes if joins else 0)
            piece = data[start : start + room]
            if start + room < len(data):
                piece = piece[: len(piece) - incomplete_tail(piece)]
            start += len(piece)
            self._append_piece(stream, piece, now, joins=joins)

    def _append_piece(self, stream: Stream, piece: bytes, now: float, *, joins: bool) -> None:
        leading = False
        if not joins:
            self.close_event()
            leading = now >= self._opened_at + self._coalesce
            self._opened_at = now
            self._open_bytes = 0
        self._open_bytes += len(piece)
        # An open event always has room for one more character, so no piece comes out empty.
        last = leading or self._open_bytes > MAX_EVENT_BYTES - LONGEST_CHARACTER
        self._write(self._seq + (not joins), _KINDS[stream], piece, last=last)
        self._digest.update(piece)
        self.output_bytes += len(piece)
        self._open = None if last else stream
        if last:
            self.changes.notify()

    def _write(self, seq: int, kind: RecordKind, payload: bytes, *, last: bool) -> Record:
        if self._settled:
            raise OutputError(f"{self.path}: the run is settled and its log closed.")
        offset_ns = time.monotonic_ns() - self._began
        record = Record(seq, kind, last, time.time_ns(), offset_ns, payload)
        self._file.append(encode_header(record), payload)
        self._seq = seq
        return record
