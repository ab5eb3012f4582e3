"""The engine's multiplexed stream: stdout and stderr of one container on one connection.

Each frame is a header of eight bytes (stream, three zero bytes, payload length as u32 big-endian)
and the payload; see "Stream format" of `POST /containers/{id}/attach` in the Docker Engine API.
Podman speaks the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sandboxrun.engine.protocol import StreamChunk
from sandboxrun.errors import EngineError

HEADER_BYTES: Final = 8
_STDOUT: Final = 1
_STDERR: Final = 2
_ENGINE_FAULT: Final = 3
_MAX_FAULT: Final = 4096


class Demultiplexer:
    """Turns the bytes of an attach connection, split anywhere, into chunks. Sans-IO.

    Payloads are handed on as they arrive, so memory held is one header (and the text of a fault
    the engine reports in the stream). After an error it must not be used again.
    """

    def __init__(self) -> None:
        self._header = b""
        self._stream = 0
        self._left = 0
        self._fault = b""

    def feed(self, data: bytes | memoryview) -> list[StreamChunk]:
        """Return what ``data`` carries, neighbours of one stream joined.

        Raises `EngineError` for a malformed header and for a fault the engine reports.
        """
        chunks: list[StreamChunk] = []
        pieces: list[memoryview] = []
        current = 0
        for stream, piece in self._pieces(memoryview(data)):
            if stream != current and pieces:
                chunks.append(StreamChunk(current == _STDERR, b"".join(pieces)))
                pieces = []
            current = stream
            pieces.append(piece)
        if pieces:
            chunks.append(StreamChunk(current == _STDERR, b"".join(pieces)))
        return chunks

    def finish(self) -> None:
        """Accept the end of the stream.

        Raises `EngineError` when it cuts a header or a payload short: a cut stream is not an end.
        """
        if self._fault:
            raise EngineError(f"The engine ended the stream: {self._fault_text()}")
        if self._header or self._left:
            raise EngineError("The engine's stream was cut in the middle of a frame.")

    def _pieces(self, view: memoryview) -> Iterator[tuple[int, memoryview]]:
        position = 0
        while position < len(view):
            if not self._left:
                taken = view[position : position + HEADER_BYTES - len(self._header)]
                position += len(taken)
                self._take_header(bytes(taken))
                continue
            piece = view[position : position + self._left]
            position += len(piece)
            self._left -= len(piece)
            if self._stream == _ENGINE_FAULT:
                self._take_fault(bytes(piece))
            else:
                yield self._stream, piece

    def _take_header(self, taken: bytes) -> None:
        self._header += taken
        if len(self._header) < HEADER_BYTES:
            return
        stream, length = self._header[0], int.from_bytes(self._header[4:], "big")
        if stream not in {_STDOUT, _STDERR, _ENGINE_FAULT} or self._header[1:4] != b"\0\0\0":
            raise EngineError(f"The engine sent a malformed stream header: {self._header!r}.")
        self._header, self._stream, self._left = b"", stream, length

    def _take_fault(self, piece: bytes) -> None:
        self._fault = (self._fault + piece)[:_MAX_FAULT]
        if not self._left:
            raise EngineError(f"The engine reports in the stream: {self._fault_text()}")

    def _fault_text(self) -> str:
        return ascii(self._fault.decode("utf-8", "backslashreplace"))
