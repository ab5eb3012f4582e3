from __future__ import annotations

import struct

import pytest
from init_samples import V1, V2, posture_payload

from sandboxrun.errors import InvalidEnvironmentError, ProtocolError, UsageError
from sandboxrun.init.frames import (
    MAX_FROM_INIT,
    MAX_TO_INIT,
    TO_INIT,
    Frame,
    FrameDecoder,
    FrameType,
    encode_frame,
)
from sandboxrun.init.posture import CgroupLimits, Descriptor, Unlimited, parse_posture
from sandboxrun.init.records import ExitKind, ExitRecord, parse_exit_record
from sandboxrun.init.request import (
    MAX_ARGUMENT,
    MAX_REQUEST,
    InitRequest,
    Ordering,
    decode_request_blob,
    encode_request,
    encode_request_blob,
)
from sandboxrun.init.sections import decode_sections
from sandboxrun.init.session import (
    End,
    EndReason,
    Exited,
    Fatal,
    InitSession,
    Output,
    PostureReceived,
)

POSTURE = encode_frame(FrameType.POSTURE, posture_payload())
RECORD = (
    b"kind=exited\ncode=7\nelapsed_us=10\nutime_us=1\nstime_us=2\nmaxrss_kb=3\nleftover=0\n"
    b"ordering=arrival\n"
)
EXIT = encode_frame(FrameType.EXIT, RECORD)
REQUEST = InitRequest(script=b"true", cwd=b"/", deadline_ms=1000)


def test_header_layout() -> None:
    assert encode_frame(FrameType.STDOUT, b"abc") == b"O\0\0\0\x03\0\0\0abc"


@pytest.mark.parametrize(
    "data",
    [
        b"Z\0\0\0\0\0\0\0",
        b"q\0\0\0\0\0\0\0",
        b"O\1\0\0\0\0\0\0",
        b"O\0\1\0\0\0\0\0",
        b"O\0\0\1\0\0\0\0",
        b"O\0\0\0" + struct.pack("<I", MAX_FROM_INIT + 1),
        b"P\0\0\0" + struct.pack("<I", 1024 * 1024 + 1),
        b"O\0\0\0\xff\xff\xff\xff",
        EXIT + b"O",
        EXIT + POSTURE,
        EXIT + EXIT,
        encode_frame(FrameType.FATAL, b"no") + b"\0",
    ],
)
def test_decoder_refuses(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        FrameDecoder().feed(data)


def test_decoder_refuses_later_bytes_after_the_last_frame() -> None:
    decoder = FrameDecoder()
    decoder.feed(EXIT)
    with pytest.raises(ProtocolError):
        decoder.feed(b"O")


def test_truncation_is_a_fault() -> None:
    decoder = FrameDecoder()
    decoder.feed(b"O\0\0\0\x03\0\0\0ab")
    with pytest.raises(ProtocolError):
        decoder.finish()
    assert decoder.partial() == Frame(FrameType.STDOUT, b"ab")


def test_largest_frames_are_accepted() -> None:
    for frame_type, limit in ((FrameType.STDOUT, MAX_FROM_INIT), (FrameType.POSTURE, 1024 * 1024)):
        decoder = FrameDecoder()
        assert len(decoder.feed(encode_frame(frame_type, bytes(limit)))[0].payload) == limit
        decoder.finish()
    with pytest.raises(ValueError, match="exceed"):
        encode_frame(FrameType.STDOUT, bytes(MAX_FROM_INIT + 1))


def _blob(request: InitRequest) -> bytes:
    decoder = FrameDecoder(TO_INIT)
    frames = [frame for data in encode_request(request) for frame in decoder.feed(data)]
    assert [frame.type for frame in frames[:-1]] == [FrameType.REQUEST] * (len(frames) - 1)
    blob = b"".join(frame.payload for frame in frames[:-1])
    assert frames[-1] == Frame(FrameType.REQUEST_END, struct.pack("<Q", len(blob)))
    return blob


def test_short_scripts_are_plain_arguments() -> None:
    for script in (b"", b"echo \xff\n", b"x" * MAX_ARGUMENT):
        sections = decode_sections(
            _blob(InitRequest(script=script, cwd=b"/", deadline_ms=1)),
            frozenset({"argv", "env", "cwd", "deadline_ms", "ordering", "stdin"}),
        )
        assert sections["argv"] == b"bash\0--noprofile\0--norc\0-c\0" + script + b"\0"


def test_long_scripts_go_by_descriptor() -> None:
    script = b"x" * (MAX_ARGUMENT + 1)
    request = InitRequest(script=script, cwd=b"/", deadline_ms=1)
    blob = _blob(request)
    assert script in blob
    assert decode_request_blob(blob) == request


def test_request_is_chunked_and_bounded() -> None:
    request = InitRequest(script=b"y" * (3 * MAX_TO_INIT), cwd=b"/", deadline_ms=1)
    assert len(list(encode_request(request))) == 5
    with pytest.raises(UsageError):
        encode_request(InitRequest(script=b"y" * MAX_REQUEST, cwd=b"/", deadline_ms=1))


@pytest.mark.parametrize(
    "fields",
    [
        {"argv": ()},
        {"argv": (b"a",), "script": b"b"},
        {"argv": (b"a\0b",)},
        {"script": b"a\0b"},
        {"script": b"a", "cwd": b"relative"},
        {"script": b"a", "cwd": b"/a\0b"},
        {"script": b"a", "deadline_ms": 0},
        {"script": b"a", "deadline_ms": 10**12},
    ],
)
def test_requests_that_no_process_can_be_given(fields: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        InitRequest(**({"cwd": b"/", "deadline_ms": 1} | fields))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "env",
    [
        ((b"", b"x"),),
        ((b"A=B", b"x"),),
        ((b"A\0", b"x"),),
        ((b"A", b"\0"),),
        ((b"A", b"1"), (b"A", b"2")),
    ],
)
def test_environments_that_no_process_can_be_given(env: tuple[tuple[bytes, bytes], ...]) -> None:
    with pytest.raises(InvalidEnvironmentError):
        InitRequest(argv=(b"a",), env=env, cwd=b"/", deadline_ms=1)


@pytest.mark.parametrize(
    "blob",
    [
        b"",
        b"argv",
        b"argv\0\1\0\0\0",
        encode_request_blob(REQUEST) + b"x",
        encode_request_blob(REQUEST).replace(b"none", b"nono"),
        encode_request_blob(REQUEST).replace(b"arrival", b"arrivel"),
        encode_request_blob(REQUEST) * 2,
    ],
)
def test_malformed_requests(blob: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_request_blob(blob)


def test_exit_record() -> None:
    assert parse_exit_record(RECORD) == ExitRecord(
        kind=ExitKind.EXITED,
        code=7,
        elapsed_us=10,
        utime_us=1,
        stime_us=2,
        maxrss_kb=3,
        leftover=0,
        ordering=Ordering.ARRIVAL,
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"code=7\n", b""),
        (b"code=7\n", b"code=7\ncode=7\n"),
        (b"code=7\n", b"code=256\n"),
        (b"code=7\n", b"code=-1\n"),
        (b"code=7\n", b"code= 7\n"),
        (b"code=7\n", b"code=\n"),
        (b"code=7\n", b"code\n"),
        (b"code=7\n", b"code=7\nsignal=9\n"),
        (b"code=7\n", b"code=7\nsurprise=9\n"),
        (b"code=7\n", b"code=7\nnotifications=99999999999999999999\n"),
        (b"code=7\n", b"code=7\nnotifications=9999999999999999999\n"),
        (b"leftover=0\n", b""),
        (b"kind=exited\n", b"kind=left\n"),
        (b"kind=exited\n", b"kind=signaled\n"),
        (b"ordering=arrival\n", b""),
        (b"ordering=arrival\n", b"ordering=arrival"),
        (b"ordering=arrival\n", b"ordering=arrival\n\n"),
        (b"leftover=0\n", b"leftover=\xd9\xa1\n"),
    ],
)
def test_exit_records_that_are_refused(old: bytes, new: bytes) -> None:
    assert old in RECORD
    with pytest.raises(ProtocolError):
        parse_exit_record(RECORD.replace(old, new))


def test_posture() -> None:
    posture = parse_posture(posture_payload())
    assert posture.capabilities.effective == 0
    assert posture.capabilities.bounding == 0xA80425FB
    assert posture.no_new_privs
    assert (posture.seccomp_mode, posture.seccomp_filters) == (2, 1)
    assert posture.uids.effective == 2000001
    assert posture.groups == (2000001,)
    assert posture.umask == 0o022
    assert posture.cgroup == CgroupLimits(
        memory_bytes=2**29, swap_bytes=0, cpu_quota_us=50000, cpu_period_us=100000, pids=64
    )
    assert posture.descriptors == (
        Descriptor(number=0, target="pipe:[1]", flags=0o100000),
        Descriptor(number=1, target="pipe:[2]", flags=0o100001),
    )
    assert posture.env_names == ("PATH", "HOSTNAME")
    assert (posture.kernel, posture.machine, posture.hostname) == ("6.18.0", "x86_64", "sandbox")
    nofile = posture.rlimit("nofile")
    assert nofile is not None
    assert (nofile.soft, nofile.hard) == (1024, 4096)
    assert posture.rlimit("memlock") is None
    root, proc, space = (posture.mount(point) for point in ("/", "/proc", "/with space"))
    assert root is not None
    assert proc is not None
    assert space is not None
    assert root.options == {"ro", "relatime"}
    assert "lowerdir=/a:/b" in root.super_options
    assert proc.fstype == "tmpfs"
    assert space.propagation == ("shared:7", "master:1")


def test_posture_on_cgroup_v2() -> None:
    payload = posture_payload(
        **{name.replace(".", "__"): data for name, data in (dict.fromkeys(V1, None) | V2).items()}
    )
    assert parse_posture(payload).cgroup == CgroupLimits(
        memory_bytes=2**29,
        swap_bytes=0,
        cpu_quota_us=Unlimited.UNLIMITED,
        cpu_period_us=100000,
        pids=Unlimited.UNLIMITED,
    )


def test_unlimited_on_cgroup_v1_and_unreadable_limits() -> None:
    payload = posture_payload(
        cgroup__memory__limit=b"9223372036854771712\n",
        cgroup__memory__memsw=None,
        cgroup__cpu__quota=b"-1\n",
        cgroup__pids__max=None,
    )
    limits = parse_posture(payload).cgroup
    assert limits.memory_bytes is Unlimited.UNLIMITED
    assert limits.cpu_quota_us is Unlimited.UNLIMITED
    assert limits.swap_bytes is None
    assert limits.pids is None


@pytest.mark.parametrize(
    "changes",
    [
        {"status": None},
        {"status": b"Uid\t0\n"},
        {"status": b"Uid:\t0 0 0 0\n"},
        {"mountinfo": b"1 2 0:3 / /\n"},
        {"mountinfo": b"1 2 0:3 / / rw - a b c"},
        {"limits": b"Max open files 1 2 3\n"},
        {"limits": b""},
        {"uids": b"1 2 3\n"},
        {"uids": b"0 0 0 0 0 0\n"},
        {"fds": b"0\0pipe\0"},
        {"fds": b"0\0pipe\x009\0"},
        {"fds": b"0\0pipe\x00100"},
        {"uname": b"Linux\n"},
        {"init": b"version=1\nuser_notification=2\n"},
        {"init": b"version\n"},
        {"cgroup__memory__max": b"1\n"},
        {"cgroup__pids__max": b"1 2\n"},
        {"cgroup__pids__max": b"\n"},
        {"surprise": b""},
    ],
)
def test_postures_that_are_refused(changes: dict[str, bytes | None]) -> None:
    with pytest.raises(ProtocolError):
        parse_posture(posture_payload(**changes))


def _running() -> InitSession:
    session = InitSession()
    assert isinstance(session.receive(POSTURE)[0], PostureReceived)
    assert list(session.request(REQUEST))
    return session


def test_session_tells_a_whole_run() -> None:
    session = _running()
    data = encode_frame(FrameType.STDERR, b"e") + encode_frame(FrameType.STDOUT, b"o")
    assert session.receive(data) == [Output("stderr", b"e"), Output("stdout", b"o")]
    assert session.receive(EXIT) == [Exited(parse_exit_record(RECORD))]
    assert session.eof() == End(EndReason.COMPLETE)


def test_session_tells_what_an_end_means() -> None:
    session = InitSession()
    assert session.eof() == End(EndReason.NO_POSTURE)
    session.receive(POSTURE)
    assert session.eof() == End(EndReason.IDLE)
    assert session.receive(encode_frame(FrameType.FATAL, b"\xff")) == [Fatal("\\xff")]
    assert session.eof() == End(EndReason.FATAL)
    session = _running()
    assert session.eof() == End(EndReason.CUT)
    session.receive(encode_frame(FrameType.STDOUT, b"whole")[:-1])
    assert session.eof() == End(EndReason.CUT, Output("stdout", b"whol"))
    session = _running()
    session.receive(EXIT[:-1])
    assert session.eof() == End(EndReason.CUT)


@pytest.mark.parametrize(
    "data",
    [POSTURE + POSTURE, POSTURE + encode_frame(FrameType.STDOUT, b"x"), EXIT, POSTURE + EXIT],
)
def test_session_refuses_frames_out_of_turn(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        InitSession().receive(data)


def test_session_refuses_empty_output_and_a_second_posture() -> None:
    with pytest.raises(ProtocolError):
        _running().receive(encode_frame(FrameType.STDOUT))
    with pytest.raises(ProtocolError):
        _running().receive(POSTURE)


def test_session_sends_one_request_and_stdin_only_where_asked() -> None:
    session = InitSession()
    with pytest.raises(ProtocolError):
        session.request(REQUEST)
    session = _running()
    with pytest.raises(ProtocolError):
        session.request(REQUEST)
    with pytest.raises(ProtocolError):
        session.stdin(b"x")
    session = InitSession()
    session.receive(POSTURE)
    session.request(InitRequest(argv=(b"cat",), cwd=b"/", deadline_ms=1, stdin=True))
    assert list(session.stdin(b"ab")) == [encode_frame(FrameType.STDIN, b"ab")]
    assert session.stdin_end() == encode_frame(FrameType.STDIN_END)
    with pytest.raises(ProtocolError):
        session.stdin(b"x")
