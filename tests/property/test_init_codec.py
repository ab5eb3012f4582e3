from __future__ import annotations

import contextlib
import itertools

from hypothesis import given
from hypothesis import strategies as st

from sandboxrun.errors import ProtocolError
from sandboxrun.init.frames import TO_INIT, Frame, FrameDecoder, FrameType, encode_frame
from sandboxrun.init.posture import parse_posture
from sandboxrun.init.records import ExitKind, ExitRecord, encode_exit_record, parse_exit_record
from sandboxrun.init.request import (
    InitRequest,
    Ordering,
    decode_request_blob,
    encode_request_blob,
)
from sandboxrun.init.session import InitSession

_BODIES = st.lists(
    st.builds(
        Frame,
        st.sampled_from([FrameType.POSTURE, FrameType.STDOUT, FrameType.STDERR]),
        st.binary(max_size=200),
    ),
    max_size=8,
)
_LAST = st.none() | st.builds(
    Frame, st.sampled_from([FrameType.EXIT, FrameType.FATAL]), st.binary(max_size=50)
)
_TEXT = st.binary(max_size=40).map(lambda data: data.replace(b"\0", b""))
_NAMES = st.binary(min_size=1, max_size=20).filter(lambda name: not {0, ord("=")} & set(name))


def _cut(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({cut % (len(data) + 1) for cut in cuts} | {0, len(data)})
    return [data[start:end] for start, end in itertools.pairwise(places)]


@given(_BODIES, _LAST, st.lists(st.integers(min_value=0), max_size=20))
def test_any_split_gives_the_same_frames(
    bodies: list[Frame], last: Frame | None, cuts: list[int]
) -> None:
    frames = [*bodies, *([] if last is None else [last])]
    data = b"".join(encode_frame(frame.type, frame.payload) for frame in frames)
    decoder = FrameDecoder()
    assert [f for piece in _cut(data, cuts) for f in decoder.feed(piece)] == frames
    decoder.finish()


@given(_BODIES, st.data())
def test_a_cut_stream_is_never_a_whole_one(bodies: list[Frame], data: st.DataObject) -> None:
    whole = b"".join(encode_frame(frame.type, frame.payload) for frame in bodies)
    cut = whole[: data.draw(st.integers(0, len(whole)))]
    decoder = FrameDecoder()
    frames = decoder.feed(cut)
    assert frames == bodies[: len(frames)]
    used = sum(8 + len(frame.payload) for frame in frames)
    assert decoder.in_frame == (used != len(cut))


@given(st.binary(max_size=300), st.lists(st.integers(min_value=0), max_size=5))
def test_garbage_is_a_protocol_error_or_incomplete(data: bytes, cuts: list[int]) -> None:
    for decoder in (FrameDecoder(), FrameDecoder(TO_INIT)):
        with contextlib.suppress(ProtocolError):
            for piece in _cut(data, cuts):
                decoder.feed(piece)
    session = InitSession()
    with contextlib.suppress(ProtocolError):
        session.receive(data)
    with contextlib.suppress(ProtocolError):
        parse_posture(data)
    with contextlib.suppress(ProtocolError):
        parse_exit_record(data)
    with contextlib.suppress(ProtocolError):
        decode_request_blob(data)


@given(
    st.builds(
        InitRequest,
        argv=st.lists(_TEXT, min_size=1, max_size=5).map(tuple),
        env=st.dictionaries(_NAMES, _TEXT, max_size=5).map(lambda env: tuple(env.items())),
        cwd=_TEXT.map(lambda text: b"/" + text),
        deadline_ms=st.integers(1, 10**9),
        ordering=st.sampled_from(Ordering),
        stdin=st.booleans(),
    )
)
def test_requests_round_trip(request_: InitRequest) -> None:
    assert decode_request_blob(encode_request_blob(request_)) == request_


@st.composite
def _records(draw: st.DrawFn) -> ExitRecord:
    kind = draw(st.sampled_from(ExitKind))
    number = st.integers(0, 2**63 - 1)
    maybe = st.none() | number
    fails = kind in {ExitKind.EXEC_FAILED, ExitKind.CWD_FAILED, ExitKind.SETUP_FAILED}
    signaled = kind is ExitKind.SIGNALED
    return ExitRecord(
        kind=kind,
        code=draw(st.integers(0, 255)) if kind is ExitKind.EXITED else None,
        signal=draw(st.integers(1, 64)) if signaled else None,
        core=draw(st.booleans()) if signaled else None,
        errno=draw(st.integers(0, 4095)) if fails else None,
        elapsed_us=draw(number),
        utime_us=draw(number),
        stime_us=draw(number),
        maxrss_kb=draw(number),
        peak_memory=draw(maybe),
        peak_pids=draw(maybe),
        oom_kills=draw(maybe),
        leftover=draw(number),
        ordering=draw(st.sampled_from(Ordering)),
        notifications=draw(maybe),
        notify_cancelled=draw(maybe),
        unguarded=draw(maybe),
    )


@given(_records())
def test_exit_records_round_trip(record: ExitRecord) -> None:
    assert parse_exit_record(encode_exit_record(record)) == record
