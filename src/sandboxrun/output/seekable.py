"""Seekable zstd files: independent frames and a table of where they are.

The format is zstd's own "seekable format" (facebook/zstd, contrib/seekable_format), without
checksums in the table since the frames carry theirs. ``zstd -d`` reads such a file, too.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final

import zstandard

from sandboxrun.errors import OutputError

FRAME_BYTES: Final = 256 * 1024
"""Uncompressed bytes of a frame: the most that is decompressed for nothing by a range read."""
_LEVEL: Final = 1
"""The settlement of a run waits for it: 64 MiB of log text take a tenth of a second."""
_SKIPPABLE: Final = struct.Struct("<II")
_SKIPPABLE_MAGIC: Final = 0x184D2A5E
_ENTRY: Final = struct.Struct("<II")
_FOOTER: Final = struct.Struct("<IBI")
_FOOTER_MAGIC: Final = 0x8F92EAB1


class SeekableWriter:
    """Compresses what is written to ``file``, which it does not close."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._compressor = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True)
        self._pending = bytearray()
        self._entries: list[bytes] = []

    def write(self, data: bytes) -> None:
        """Add ``data``. Raises OSError."""
        self._pending += data
        while len(self._pending) >= FRAME_BYTES:
            self._frame(bytes(self._pending[:FRAME_BYTES]))
            del self._pending[:FRAME_BYTES]

    def finish(self) -> None:
        """Write the rest and the table. Raises OSError."""
        if self._pending:
            self._frame(bytes(self._pending))
            self._pending.clear()
        table = b"".join(self._entries)
        self._file.write(_SKIPPABLE.pack(_SKIPPABLE_MAGIC, len(table) + _FOOTER.size))
        self._file.write(table + _FOOTER.pack(len(self._entries), 0, _FOOTER_MAGIC))

    def _frame(self, data: bytes) -> None:
        packed = self._compressor.compress(data)
        self._file.write(packed)
        self._entries.append(_ENTRY.pack(len(packed), len(data)))


@dataclass(frozen=True, slots=True)
class _Frame:
    offset: int
    packed: int
    start: int
    size: int


def read_range(fd: int, start: int, length: int | None) -> Iterator[bytes]:
    """Yield the uncompressed bytes from ``start`` on, ``length`` of them or all.

    Raises `OutputError` if the file is damaged or cannot be read.
    """
    stop = None if length is None else start + length
    for frame in _frames(fd):
        if stop is not None and frame.start >= stop:
            return
        if frame.start + frame.size <= start:
            continue
        data = _unpacked(fd, frame)
        last = None if stop is None else stop - frame.start
        yield data[max(start - frame.start, 0) : last]


def _unpacked(fd: int, frame: _Frame) -> bytes:
    try:
        packed = os.pread(fd, frame.packed, frame.offset)
        data = zstandard.ZstdDecompressor().decompress(packed, max_output_size=FRAME_BYTES)
    except (OSError, zstandard.ZstdError) as error:
        raise OutputError(f"The artifact's file is damaged: {error}.") from error
    if len(data) != frame.size:
        raise OutputError("The artifact's file is damaged: a frame has the wrong size.")
    return data


def _frames(fd: int) -> Iterator[_Frame]:
    size = os.fstat(fd).st_size
    try:
        count, _, magic = _FOOTER.unpack(os.pread(fd, _FOOTER.size, size - _FOOTER.size))
        table_bytes = count * _ENTRY.size
        where = size - _FOOTER.size - table_bytes
        if magic != _FOOTER_MAGIC or where < 0:
            raise OutputError("The artifact's file is damaged: it has no table.")
        table = os.pread(fd, table_bytes, where)
        entries = list(_ENTRY.iter_unpack(table))
    except (OSError, struct.error) as error:
        raise OutputError(f"The artifact's file is damaged: {error}.") from error
    offset = start = 0
    for packed, unpacked in entries:
        yield _Frame(offset, packed, start, unpacked)
        offset += packed
        start += unpacked
