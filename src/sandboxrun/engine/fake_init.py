"""Scripts for a fake container's init: what it reports, what the command does, how it ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias, assert_never

import anyio

from sandboxrun.engine.fake_posture import posture_payload
from sandboxrun.engine.fake_process import KILLED_EXIT, FakeProcess, Program
from sandboxrun.engine.fake_store import FAKE_INFO
from sandboxrun.engine.protocol import EngineInfo
from sandboxrun.engine.spec import ContainerSpec
from sandboxrun.init.frames import MAX_FROM_INIT, TO_INIT, FrameDecoder, FrameType, encode_frame
from sandboxrun.init.records import ExitKind, ExitRecord, encode_exit_record
from sandboxrun.init.request import InitRequest, decode_request_blob
from sandboxrun.model.ordering import Ordering

SUCCESS: Final = ExitRecord(
    kind=ExitKind.EXITED,
    code=0,
    elapsed_us=1000,
    utime_us=500,
    stime_us=500,
    maxrss_kb=1024,
    peak_memory=1024 * 1024,
    peak_pids=2,
    oom_kills=0,
    leftover=0,
    ordering=Ordering.ARRIVAL,
)
"""The record of a command that exits with 0."""


@dataclass(frozen=True, slots=True)
class Out:
    """The command writes to stdout."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Err:
    """The command writes to stderr."""

    data: bytes


@dataclass(frozen=True, slots=True)
class EchoStdin:
    """The command copies its stdin to stdout until its end."""


@dataclass(frozen=True, slots=True)
class WaitFor:
    """The command waits for the test."""

    event: anyio.Event


@dataclass(frozen=True, slots=True)
class Hang:
    """The command runs until it is killed."""


@dataclass(frozen=True, slots=True)
class Exit:
    """The init sends an exit record and exits with 0."""

    record: ExitRecord = SUCCESS


@dataclass(frozen=True, slots=True)
class Fatal:
    """The init gives up."""

    text: str


@dataclass(frozen=True, slots=True)
class Raw:
    """The init sends something that need not be the protocol."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Die:
    """The init ends without a record."""

    exit_code: int = KILLED_EXIT


Step: TypeAlias = Out | Err | EchoStdin | WaitFor | Hang | Exit | Fatal | Raw | Die
Command: TypeAlias = Callable[[InitRequest], Sequence[Step]]
"""What the command of a request does, the end included."""
PosturePayload: TypeAlias = Callable[[ContainerSpec], bytes | None]
"""The payload of the first frame; None hangs before it."""


def exits(code: int) -> Exit:
    """Return the end of a command that exits with ``code``."""
    return Exit(replace(SUCCESS, code=code))


def signaled(number: int) -> Exit:
    """Return the end of a command that a signal ended."""
    return Exit(replace(SUCCESS, kind=ExitKind.SIGNALED, code=None, signal=number, core=False))


def succeed(request: InitRequest) -> Sequence[Step]:
    """Do nothing and exit with 0, whatever the request."""
    del request
    return (Exit(),)


def scripted_init(
    command: Command = succeed,
    *,
    engine: EngineInfo = FAKE_INFO,
    posture: PosturePayload | None = None,
) -> Program:
    """Return an init that reports ``posture`` (by default: as promised) and plays ``command``."""

    async def program(process: FakeProcess) -> int:
        payload = (
            posture_payload(process.spec, engine) if posture is None else posture(process.spec)
        )
        if payload is None:
            await anyio.sleep_forever()
        else:
            process.write(encode_frame(FrameType.POSTURE, payload))
        session = _Session(process)
        request = await session.request()
        if request is None:
            return 0
        for step in command(request):
            code = await session.play(step)
            if code is not None:
                return code
        return KILLED_EXIT

    return program


class _Session:
    """The init's side of one conversation."""

    def __init__(self, process: FakeProcess) -> None:
        self._process = process
        self._decoder = FrameDecoder(TO_INIT)
        self._stdin: list[bytes] = []
        self._stdin_ended = False

    async def request(self) -> InitRequest | None:
        """Return the request, or None at the end of stdin before it."""
        blob = b""
        while data := await self._process.read():
            frames = self._decoder.feed(data)
            for position, frame in enumerate(frames):
                if frame.type is FrameType.REQUEST:
                    blob += frame.payload
                elif frame.type is FrameType.REQUEST_END:
                    for later in frames[position + 1 :]:
                        self._take(later.type, later.payload)
                    return decode_request_blob(blob)
        return None

    def _take(self, frame_type: FrameType, payload: bytes) -> None:
        self._stdin_ended = self._stdin_ended or frame_type is FrameType.STDIN_END
        if frame_type is FrameType.STDIN:
            self._stdin.append(payload)

    async def play(self, step: Step) -> int | None:
        """Play one step; return the init's exit code when it was the last."""
        match step:
            case Out(data):
                self._send(FrameType.STDOUT, data)
            case Err(data):
                self._send(FrameType.STDERR, data)
            case EchoStdin():
                await self._echo()
            case WaitFor(event):
                await event.wait()
            case Hang():
                await anyio.sleep_forever()
            case Exit(record):
                self._process.write(encode_frame(FrameType.EXIT, encode_exit_record(record)))
                return 0
            case Fatal(text):
                self._process.write(encode_frame(FrameType.FATAL, text.encode()))
                return 1
            case Raw(data):
                self._process.write(data)
            case Die(exit_code):
                return exit_code
            case _:
                assert_never(step)
        return None

    def _send(self, frame_type: FrameType, data: bytes) -> None:
        for start in range(0, len(data), MAX_FROM_INIT):
            piece = data[start : start + MAX_FROM_INIT]
            self._process.write(encode_frame(frame_type, piece))

    async def _echo(self) -> None:
        while True:
            for piece in self._stdin:
                self._send(FrameType.STDOUT, piece)
            self._stdin.clear()
            if self._stdin_ended:
                return
            data = await self._process.read()
            if not data:
                return
            for frame in self._decoder.feed(data):
                self._take(frame.type, frame.payload)
