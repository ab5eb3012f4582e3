"""Sections: named pieces of bytes, as the request and the posture are built of.

A section is ``name NUL length data`` with the length as u32 little-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Final

from sandboxrun.errors import ProtocolError

_LENGTH: Final = struct.Struct("<I")
_MAX_NAME: Final = 64


def encode_sections(sections: Iterable[tuple[str, bytes]]) -> bytes:
    """Return the concatenated sections; names are ASCII without NUL."""
    return b"".join(
        name.encode("ascii") + b"\0" + _LENGTH.pack(len(data)) + data for name, data in sections
    )


def decode_sections(blob: bytes, known: frozenset[str]) -> Mapping[str, bytes]:
    """Return the sections by name.

    Raises `ProtocolError` for a truncated section, one that occurs twice and a name that is not
    among ``known``.
    """
    sections: dict[str, bytes] = {}
    position = 0
    while position < len(blob):
        end_of_name = blob.find(b"\0", position, position + _MAX_NAME)
        if end_of_name < 0 or end_of_name + 1 + _LENGTH.size > len(blob):
            raise ProtocolError("A section's header is malformed.")
        name = blob[position:end_of_name].decode("ascii", "backslashreplace")
        if name not in known:
            raise ProtocolError(f"Unknown section {name!r}.")
        if name in sections:
            raise ProtocolError(f"Section {name!r} occurs twice.")
        start = end_of_name + 1 + _LENGTH.size
        (length,) = _LENGTH.unpack_from(blob, end_of_name + 1)
        if start + length > len(blob):
            raise ProtocolError(f"Section {name!r} is cut short.")
        sections[name] = blob[start : start + length]
        position = start + length
    return sections


def split_terminated(data: bytes) -> tuple[bytes, ...]:
    """Return the NUL-terminated strings of ``data``.

    Raises `ProtocolError` when the last one lacks its NUL.
    """
    if not data:
        return ()
    if not data.endswith(b"\0"):
        raise ProtocolError("A list of strings is cut short.")
    return tuple(data[:-1].split(b"\0"))
