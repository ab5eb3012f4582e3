"""One conversation with an init, from its first frame to the end of its stream.

Sans-IO: the caller moves the bytes. The order is enforced: posture first and once, output only
after the request, one last frame, nothing afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, Literal, TypeAlias, assert_never

from sandboxrun.errors import ProtocolError
from sandboxrun.init.frames import MAX_TO_INIT, Frame, FrameDecoder, FrameType, encode_frame
from sandboxrun.init.posture import Posture, parse_posture
from sandboxrun.init.records import ExitRecord, parse_exit_record
from sandboxrun.init.request import InitRequest, encode_request

Stream: TypeAlias = Literal["stdout", "stderr"]
_MAX_FATAL_SHOWN: Final = 1000


@dataclass(frozen=True, slots=True)
class PostureReceived:
    """The init is ready for a request."""

    posture: Posture


@dataclass(frozen=True, slots=True)
class Output:
    """Bytes the command wrote. Never empty."""

    stream: Stream
    data: bytes


@dataclass(frozen=True, slots=True)
class Exited:
    """The command has ended; nothing follows but the end of the stream."""

    record: ExitRecord


@dataclass(frozen=True, slots=True)
class Fatal:
    """The init gave up; nothing follows but the end of the stream."""

    text: str


Event: TypeAlias = PostureReceived | Output | Exited | Fatal


class EndReason(Enum):
    """What the end of the init's stream means. Only COMPLETE says how the command ended."""

    COMPLETE = auto()
    """After the exit record."""
    FATAL = auto()
    """After the init said why it gave up."""
    NO_POSTURE = auto()
    """Before the first frame: the init never started properly."""
    IDLE = auto()
    """Before a request was sent: a slot that expired or was removed."""
    CUT = auto()
    """Without an exit record: the init was killed, or the engine lost the stream."""


@dataclass(frozen=True, slots=True)
class End:
    """The end of the stream, and output of a frame that it cut short."""

    reason: EndReason
    remainder: Output | None = None


class _State(Enum):
    AWAITING_POSTURE = auto()
    READY = auto()
    RUNNING = auto()
    EXITED = auto()
    FATAL = auto()


class InitSession:
    """The host's side of the conversation."""

    def __init__(self) -> None:
        self._decoder = FrameDecoder()
        self._state = _State.AWAITING_POSTURE
        self._stdin_open = False

    def request(self, request: InitRequest) -> Iterator[bytes]:
        """Return the frames to send for ``request``; only once, only after the posture.

        Raises `ProtocolError` out of turn and `UsageError` for a request that is too large.
        """
        if self._state is not _State.READY:
            raise ProtocolError("A request can be sent once, after the posture has arrived.")
        frames = encode_request(request)
        self._state = _State.RUNNING
        self._stdin_open = request.stdin
        return frames

    def stdin(self, data: bytes) -> Iterator[bytes]:
        """Return the frames that carry ``data`` to the command's stdin.

        Raises `ProtocolError` when the request has no stdin or its end was sent.
        """
        if not self._stdin_open:
            raise ProtocolError("The command's stdin is not open.")
        return (
            encode_frame(FrameType.STDIN, data[start : start + MAX_TO_INIT])
            for start in range(0, len(data), MAX_TO_INIT)
        )

    def stdin_end(self) -> bytes:
        """Return the frame that closes the command's stdin.

        Raises `ProtocolError` when the request has no stdin or its end was sent.
        """
        if not self._stdin_open:
            raise ProtocolError("The command's stdin is not open.")
        self._stdin_open = False
        return encode_frame(FrameType.STDIN_END)

    def receive(self, data: bytes) -> list[Event]:
        """Return what ``data`` from the init means, in order.

        Raises `ProtocolError` for anything that is not the protocol; the session is unusable
        afterwards.
        """
        return [self._event(frame) for frame in self._decoder.feed(data)]

    def eof(self) -> End:
        """Return what the end of the stream means now."""
        match self._state:
            case _State.EXITED:
                return End(EndReason.COMPLETE)
            case _State.FATAL:
                return End(EndReason.FATAL)
            case _State.AWAITING_POSTURE:
                return End(EndReason.NO_POSTURE)
            case _State.READY:
                return End(EndReason.IDLE)
            case _State.RUNNING:
                return End(EndReason.CUT, self._remainder())
            case _:
                assert_never(self._state)

    def _remainder(self) -> Output | None:
        partial = self._decoder.partial()
        if partial is None or not partial.payload:
            return None
        if partial.type is FrameType.STDOUT:
            return Output("stdout", partial.payload)
        if partial.type is FrameType.STDERR:
            return Output("stderr", partial.payload)
        return None

    def _event(self, frame: Frame) -> Event:
        expected = _EXPECTED[self._state]
        if frame.type not in expected:
            raise ProtocolError(
                f"The init sent a {frame.type.name} frame while {self._state.name.lower()}."
            )
        if frame.type is FrameType.POSTURE:
            self._state = _State.READY
            return PostureReceived(parse_posture(frame.payload))
        if frame.type is FrameType.EXIT:
            self._state = _State.EXITED
            return Exited(parse_exit_record(frame.payload))
        if frame.type is FrameType.FATAL:
            self._state = _State.FATAL
            text = frame.payload[:_MAX_FATAL_SHOWN].decode("utf-8", "backslashreplace")
            return Fatal(text)
        if not frame.payload:
            raise ProtocolError("The init sent an empty output frame.")
        return Output("stdout" if frame.type is FrameType.STDOUT else "stderr", frame.payload)


_EXPECTED: Final = {
    _State.AWAITING_POSTURE: frozenset({FrameType.POSTURE, FrameType.FATAL}),
    _State.READY: frozenset({FrameType.FATAL}),
    _State.RUNNING: frozenset(
        {FrameType.STDOUT, FrameType.STDERR, FrameType.EXIT, FrameType.FATAL}
    ),
    _State.EXITED: frozenset[FrameType](),
    _State.FATAL: frozenset[FrameType](),
}
