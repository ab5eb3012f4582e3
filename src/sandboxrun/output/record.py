"""The spool's records: sans-IO, length-prefixed and checked.

A record is a header and a payload. The check covers both, so a record that was cut short by a
crash, or filled with zeros by a power loss, is recognised and everything before it is good.
Little-endian; the format is private to one machine and one version of sandboxrun.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import IntEnum
from typing import Final

MAGIC: Final = b"sandboxrun spool 1\n"
"""First bytes of every spool file."""
MAX_PAYLOAD: Final = 1024 * 1024
"""Largest payload in bytes. A longer length is damage."""

_HEADER: Final = struct.Struct("<IIQBB6xqQ")
_CHECKED: Final = struct.Struct("<QBB6xqQ")
_NANO: Final = 1_000_000_000
HEADER_BYTES: Final = _HEADER.size


class RecordKind(IntEnum):
    """What the payload is."""

    STDOUT = 1
    STDERR = 2
    CONTROL = 3
    """An event other than output, as JSON."""


@dataclass(frozen=True, slots=True)
class Record:
    """One piece of an event. The pieces of one event have the same ``seq`` and follow each other."""

    seq: int
    kind: RecordKind
    last: bool
    """No piece follows; the event is complete."""
    wall_ns: int
    """Time since the epoch."""
    offset_ns: int
    """Monotonic time since the spool was opened by its writer."""
    payload: bytes


@dataclass(frozen=True, slots=True)
class Incomplete:
    """The bytes end inside a record: it is being written, or its writer died."""


@dataclass(frozen=True, slots=True)
class Damaged:
    """These bytes are no record. Nothing after them can be trusted."""

    why: str


def wall_time(record: Record) -> datetime:
    """Return when ``record`` was written, in UTC."""
    return datetime.fromtimestamp(record.wall_ns / _NANO, UTC)


def encode_header(record: Record) -> bytes:
    """Return what precedes ``record.payload`` in the file."""
    fields = (record.seq, record.kind, record.last, record.wall_ns, record.offset_ns)
    check = zlib.crc32(record.payload, zlib.crc32(_CHECKED.pack(*fields)))
    return _HEADER.pack(len(record.payload), check, *fields)


def decode_record(
    data: bytes | memoryview, start: int
) -> tuple[Record, int] | Incomplete | Damaged:
    """Return the record at ``start`` and where the next one begins, or why there is none."""
    if len(data) - start < HEADER_BYTES:
        return Incomplete()
    length, check, seq, kind, last, wall_ns, offset_ns = _HEADER.unpack_from(data, start)
    if length > MAX_PAYLOAD:
        return Damaged(f"a length of {length}")
    end = start + HEADER_BYTES + length
    if len(data) < end:
        return Incomplete()
    payload = bytes(data[start + HEADER_BYTES : end])
    fields = _CHECKED.pack(seq, kind, last, wall_ns, offset_ns)
    if zlib.crc32(payload, zlib.crc32(fields)) != check:
        return Damaged("a wrong check")
    try:
        known = RecordKind(kind)
    except ValueError:
        return Damaged(f"kind {kind}")
    record = Record(seq, known, bool(last), wall_ns, offset_ns, payload)
    return record, end
