"""Frames: the unit both directions of the init's connection are made of.

A frame is a header of eight bytes (type, three reserved zero bytes, payload length as u32
little-endian) and the payload. The same layout is in `images/init/frames.h`.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import Final

from sandboxrun.errors import ProtocolError

_HEADER: Final = struct.Struct("<BBHI")
HEADER_BYTES: Final = _HEADER.size
MAX_TO_INIT: Final = 1024 * 1024
"""Largest payload the init accepts, in bytes."""
MAX_FROM_INIT: Final = 64 * 1024
"""Largest payload the init sends, the posture excepted, in bytes."""
MAX_POSTURE: Final = 1024 * 1024
"""Largest posture payload, in bytes."""


class FrameType(IntEnum):
    """The first byte of a frame."""

    POSTURE = ord("P")
    """What the init found about its own confinement. The first frame."""
    STDOUT = ord("O")
    STDERR = ord("E")
    EXIT = ord("X")
    """The exit record. The last frame."""
    FATAL = ord("F")
    """Why the init gives up. The last frame."""
    REQUEST = ord("q")
    """Part of the request."""
    REQUEST_END = ord("Q")
    """The request is complete; the payload is its length as u64 little-endian."""
    STDIN = ord("i")
    STDIN_END = ord("I")


FROM_INIT: Final[Mapping[FrameType, int]] = MappingProxyType(
    {
        FrameType.POSTURE: MAX_POSTURE,
        FrameType.STDOUT: MAX_FROM_INIT,
        FrameType.STDERR: MAX_FROM_INIT,
        FrameType.EXIT: MAX_FROM_INIT,
        FrameType.FATAL: MAX_FROM_INIT,
    }
)
"""What the host may receive, with the largest payload of each type."""
TO_INIT: Final[Mapping[FrameType, int]] = MappingProxyType(
    {
        FrameType.REQUEST: MAX_TO_INIT,
        FrameType.REQUEST_END: 8,
        FrameType.STDIN: MAX_TO_INIT,
        FrameType.STDIN_END: 0,
    }
)
"""What the init may receive, with the largest payload of each type."""
_LAST: Final = frozenset({FrameType.EXIT, FrameType.FATAL})


@dataclass(frozen=True, slots=True)
class Frame:
    """One complete frame."""

    type: FrameType
    payload: bytes


def encode_frame(frame_type: FrameType, payload: bytes = b"") -> bytes:
    """Return the bytes of one frame.

    Raises `ValueError` when the payload is larger than the receiver accepts.
    """
    limit = TO_INIT.get(frame_type, FROM_INIT.get(frame_type, 0))
    if len(payload) > limit:
        raise ValueError(f"{len(payload)} bytes exceed the {limit} of a {frame_type.name} frame")
    return _HEADER.pack(frame_type, 0, 0, len(payload)) + payload


class FrameDecoder:
    """Turns bytes, split anywhere, into frames.

    ``limits`` names the acceptable types and their largest payloads. Memory held is bounded by
    the largest of them. After an error the decoder must not be used again.
    """

    def __init__(self, limits: Mapping[FrameType, int] = FROM_INIT) -> None:
        self._limits = {int(frame_type): limit for frame_type, limit in limits.items()}
        self._pending = bytearray()
        self._ended = False

    def feed(self, data: bytes) -> list[Frame]:
        """Return the frames that ``data`` completes, in order.

        Raises `ProtocolError` for an unknown type, a reserved bit, an oversized payload, or
        anything after the last frame (exit record or fatal text).
        """
        frames: list[Frame] = []
        position = self._complete_pending(data, frames) if self._pending else 0
        while len(data) - position >= HEADER_BYTES:
            frame_type, length = self._header(data, position)
            start, end = position + HEADER_BYTES, position + HEADER_BYTES + length
            if end > len(data):
                break
            self._add(frames, Frame(frame_type, data[start:end]))
            position = end
        if self._ended and position < len(data):
            raise ProtocolError("The init sent something after its last frame.")
        if position < len(data):
            self._pending += data[position:]
        return frames

    def partial(self) -> Frame | None:
        """Return what has arrived of an unfinished frame; None when its header is incomplete."""
        if len(self._pending) < HEADER_BYTES:
            return None
        frame_type, _ = self._header(bytes(self._pending[:HEADER_BYTES]), 0)
        return Frame(frame_type, bytes(self._pending[HEADER_BYTES:]))

    @property
    def in_frame(self) -> bool:
        """Whether an unfinished frame has begun."""
        return bool(self._pending)

    def finish(self) -> None:
        """Accept the end of the stream; raise `ProtocolError` when it cuts a frame short."""
        if self._pending:
            raise ProtocolError("The init's stream ended in the middle of a frame.")

    def _complete_pending(self, data: bytes, frames: list[Frame]) -> int:
        """Add to the unfinished frame what belongs to it; return how much that was."""
        position = self._fill(data, 0, HEADER_BYTES)
        if len(self._pending) < HEADER_BYTES:
            return position
        frame_type, length = self._header(self._pending, 0)
        position = self._fill(data, position, HEADER_BYTES + length)
        if len(self._pending) == HEADER_BYTES + length:
            self._add(frames, Frame(frame_type, bytes(self._pending[HEADER_BYTES:])))
            self._pending.clear()
        return position

    def _fill(self, data: bytes, position: int, size: int) -> int:
        end = min(len(data), position + max(0, size - len(self._pending)))
        self._pending += data[position:end]
        return end

    def _add(self, frames: list[Frame], frame: Frame) -> None:
        frames.append(frame)
        self._ended = frame.type in _LAST

    def _header(self, data: bytes | bytearray, position: int) -> tuple[FrameType, int]:
        if self._ended:
            raise ProtocolError("The init sent something after its last frame.")
        raw_type, reserved, reserved_too, length = _HEADER.unpack_from(data, position)
        limit = self._limits.get(raw_type)
        if limit is None:
            raise ProtocolError(f"The init sent a frame of unknown type {raw_type}.")
        if reserved or reserved_too:
            raise ProtocolError("The init sent a frame with reserved bits set.")
        if length > limit:
            raise ProtocolError(f"The init sent a frame of {length} bytes; {limit} are allowed.")
        return FrameType(raw_type), length
