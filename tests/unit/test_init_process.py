"""The init as a real process: what it runs, what it reports, how it ends."""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import platform
import signal
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from init_process import (
    ENV,
    UID,
    built_init,
    exact_order,
    init_process,
    needs_namespaces,
    run_in_init,
)

from sandboxrun.errors import ProtocolError
from sandboxrun.init.frames import FrameType, encode_frame
from sandboxrun.init.records import ExitKind
from sandboxrun.init.request import InitRequest, encode_request_blob
from sandboxrun.init.sections import encode_sections
from sandboxrun.init.session import EndReason, PostureReceived
from sandboxrun.model.ordering import Ordering

pytestmark = needs_namespaces
SIMPLE = InitRequest(script=b"echo ran", env=ENV, cwd=b"/", deadline_ms=30_000)


@pytest.fixture(scope="module")
def binary() -> Iterator[Path]:
    with built_init() as path:
        yield path


def test_version(binary: Path) -> None:
    done = subprocess.run([binary, "--version"], capture_output=True, check=True)
    assert done.stdout == b"sandboxrun-init 1\n"


def test_refuses_to_be_any_other_process_than_pid_1(binary: Path) -> None:
    done = subprocess.run([binary], capture_output=True, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 113
    assert b"PID 1" in done.stdout
    assert done.stderr == b""


def test_posture_of_a_real_process(binary: Path) -> None:
    with init_process(binary) as process:
        event = process.result.events[0]
        assert isinstance(event, PostureReceived)
        posture = event.posture
        assert posture.uids.real == posture.gids.saved == UID
        assert posture.groups == ()
        assert posture.no_new_privs
        assert posture.capabilities.effective == 0
        proc = posture.mount("/proc")
        assert proc is not None
        assert proc.fstype == "proc"
        assert [d.number for d in posture.descriptors] == [0, 1, 2]
        assert posture.hostname == os.uname().nodename
        assert posture.kernel == os.uname().release
        assert posture.machine == os.uname().machine
        assert "PATH" in posture.env_names
        nofile = posture.rlimit("nofile")
        assert nofile is not None
        assert len(posture.rlimits) == 16
        assert posture.seccomp_mode == 0


@pytest.mark.parametrize("code", [0, 1, 7, 126, 127, 255])
def test_exit_codes(binary: Path, code: int) -> None:
    assert run_in_init(binary, f"exit {code}").code == code


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV, 34, 64])
def test_deadly_signals(binary: Path, number: int) -> None:
    record = run_in_init(binary, f"kill -{int(number)} $$").record
    assert (record.kind, record.signal) == (ExitKind.SIGNALED, number)


def test_streams_and_their_bytes(binary: Path) -> None:
    result = run_in_init(binary, b"printf 'a\\0b\\r\\xff'; printf 'no newline' >&2")
    assert result.stream("stdout") == b"a\0b\r\xff"
    assert result.stream("stderr") == b"no newline"


def test_arguments_and_environment_of_any_bytes(binary: Path) -> None:
    every = bytes(range(1, 256))
    with init_process(binary) as process:
        process.request(
            InitRequest(
                argv=(b"bash", b"-c", b'printf %s "$1" "$E"; env -0 >&2', b"_", every),
                env=(*ENV, (b"E", every), (b"\xff odd", b"")),
                cwd=b"/",
                deadline_ms=30_000,
            )
        )
        result = process.finish()
    assert result.stream("stdout") == every + every
    assert b"\0\xff odd=\0" in b"\0" + result.stream("stderr")


@contextmanager
def ignoring(number: int) -> Iterator[None]:
    """Ignore a signal past the C library, which keeps the first real-time ones to itself."""
    call = {"x86_64": 13, "aarch64": 134}[platform.machine()]
    libc = ctypes.CDLL(None)
    ignored, before = (ctypes.c_uint64 * 4)(1), (ctypes.c_uint64 * 4)()
    assert libc.syscall(call, number, ignored, before, 8) == 0
    try:
        yield
    finally:
        libc.syscall(call, number, before, None, 8)


@pytest.mark.parametrize("number", [1, 13, 17, 32, 33, 34, 64])
def test_no_signal_stays_ignored(binary: Path, number: int) -> None:
    with ignoring(number):
        output = run_in_init(binary, ["cat", "/proc/self/status"]).stream("stdout").decode()
    [found] = [line for line in output.splitlines() if line.startswith("SigIgn:")]
    assert int(found.split()[1], 16) == 0


def test_nothing_of_the_init_is_inherited(binary: Path) -> None:
    command = "cat /proc/self/status; ls -l /proc/self/fd; env -0 | tr '\\0' '\\n'"
    lines = run_in_init(binary, ["bash", "-c", command]).stream("stdout").decode().splitlines()
    status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    for field in ("SigBlk", "SigIgn", "SigPnd", "ShdPnd"):
        assert int(status[field], 16) == 0, field
    targets = [line.split(" -> ")[1] for line in lines if " -> " in line]
    assert targets[0] == "/dev/null"
    assert [target.split(":")[0] for target in targets[1:3]] == ["pipe", "pipe"]
    assert all("fd" in target for target in targets[3:])
    assert {line.split("=")[0] for line in lines if "=" in line} == {
        *("PATH", "HOME", "PWD", "SHLVL", "_")
    }


def test_a_failed_exec_is_told_from_a_command_that_exits_so(binary: Path) -> None:
    for argv, number in [
        (["nosuchprogram"], errno.ENOENT),
        (["/nosuch"], errno.ENOENT),
        (["/etc/passwd"], errno.EACCES),
        (["/"], errno.EACCES),
        (["/bin/true", "x" * 200_000], errno.E2BIG),
    ]:
        record = run_in_init(binary, argv).record
        assert (record.kind, record.errno) == (ExitKind.EXEC_FAILED, number), argv
    record = run_in_init(binary, "nosuchprogram").record
    assert (record.kind, record.code) == (ExitKind.EXITED, 127)


def test_no_shell_is_tried_for_an_unknown_format(binary: Path) -> None:
    with_text = binary.parent / "text"
    with_text.write_text("echo surprise\n")
    with_text.chmod(0o755)
    result = run_in_init(binary, [str(with_text)])
    assert (result.record.kind, result.record.errno) == (ExitKind.EXEC_FAILED, errno.ENOEXEC)
    assert result.output == b""


def test_path_is_that_of_the_request(binary: Path) -> None:
    directory = binary.parent / "bin"
    directory.mkdir()
    program = directory / "tool"
    program.write_text("#!/bin/sh\necho found\n")
    program.chmod(0o755)
    path = b"/nosuch:/etc/passwd::" + os.fsencode(directory)
    assert run_in_init(binary, ["tool"], env=((b"PATH", path),)).output == b"found\n"
    assert run_in_init(binary, ["true"], env=()).code == 0


@pytest.mark.parametrize(
    ("cwd", "number"),
    [
        (b"/nosuch", errno.ENOENT),
        (b"/etc/passwd", errno.ENOTDIR),
        (b"/proc/self", errno.ELOOP),
        (b"/usr/../usr", errno.ELOOP),
        (b"/usr/", errno.ELOOP),
        (b"/root/.", errno.EACCES),
    ],
)
def test_a_directory_that_is_not_usable(binary: Path, cwd: bytes, number: int) -> None:
    record = run_in_init(binary, "pwd", cwd=cwd).record
    assert (record.kind, record.errno) == (ExitKind.CWD_FAILED, number)


def test_cwd(binary: Path) -> None:
    assert run_in_init(binary, "pwd", cwd=b"/usr/bin").output == b"/usr/bin\n"


def test_long_scripts_see_the_same_shell_as_short_ones(binary: Path) -> None:
    probe = (
        b'echo "[$0] [$-] [$#] [$?] [$_] [$LINENO]"; set -o; shopt\n'
        b"set | grep -v -e PID= -e ^EPOCH -e RANDOM -e ^BASH_EXEC -e ^PIPESTATUS\n"
        b'ls -l /proc/$$/fd /proc/self/fd | grep -c memfd; echo "\xff\xfe\x01\x7f"\n'
        b'echo "${#BASH_EXECUTION_STRING}" | wc -l; exit 9\n'
    )
    short = run_in_init(binary, probe)
    padding = b"#" * 200_000 + b"\n"
    long = run_in_init(binary, probe + padding)
    assert short.code == long.code == 9
    assert b"\n0\n\xff\xfe\x01\x7f\n" in short.output
    assert long.output == short.output


@pytest.mark.parametrize(
    "tail", [b"echo a\\\n", b"cat <<E\nx\n\n\n", b"# comment", b"\n\n", b"false", b"(exit 5)\n"]
)
def test_long_scripts_end_as_short_ones_do(binary: Path, tail: bytes) -> None:
    padding = b": " + b"#" * 150_000 + b"\n"
    short, long = run_in_init(binary, b":\n" + tail), run_in_init(binary, padding + tail)
    assert long.code == short.code
    assert long.output == short.output


def test_a_script_of_3_mib_and_a_here_document_of_1_mib(binary: Path) -> None:
    text = b"\xff\xfe\x80 line of text\n" * 55_000
    script = b"cat <<'END' | sha256sum\n" + text + b"END\n: '" + b"\xffpad" * 600_000 + b"'\n"
    assert len(script) > 3 * 1024 * 1024
    result = run_in_init(binary, script)
    assert result.stream("stdout").split()[0].decode() == hashlib.sha256(text).hexdigest()
    assert result.code == 0


def test_stdin_is_exact_and_half_closed(binary: Path) -> None:
    data = os.urandom(5_000_000)
    result = run_in_init(binary, ["sha256sum"], stdin=data)
    assert result.output.split()[0].decode() == hashlib.sha256(data).hexdigest()
    assert run_in_init(binary, ["cat"], stdin=b"").output == b""
    assert run_in_init(binary, ["cat"], stdin=data).output == data


def test_stdin_is_empty_unless_given(binary: Path) -> None:
    assert run_in_init(binary, ["cat"]).output == b""


def test_a_command_that_does_not_read_its_stdin(binary: Path) -> None:
    data = bytes(3_000_000)
    assert run_in_init(binary, "exec <&-; sleep 0.2; echo done", stdin=data).output == b"done\n"
    assert run_in_init(binary, "head -c 10 | wc -c", stdin=data).output == b"10\n"


def test_much_output_is_exact(binary: Path) -> None:
    command = "head -c 300000000 /dev/zero | tr '\\0' 'x'; head -c 1000000 /dev/zero >&2"
    result = run_in_init(binary, command)
    assert len(result.stream("stdout")) == 300_000_000
    assert result.stream("stdout").count(b"x") == 300_000_000
    assert result.stream("stderr") == bytes(1_000_000)


def test_the_last_bytes_before_death_are_kept(binary: Path) -> None:
    for _ in range(20):
        result = run_in_init(binary, "head -c 60000 /dev/zero; echo end >&2; kill -9 $$")
        assert len(result.stream("stdout")) == 60_000
        assert result.stream("stderr") == b"end\n"


def test_a_background_job_does_not_delay_the_result(binary: Path) -> None:
    start = time.monotonic()
    result = run_in_init(binary, "sleep 1000 & setsid sleep 1000 & (sleep 1000 &) & echo ok")
    assert result.output == b"ok\n"
    assert result.record.leftover in {3, 4}
    assert time.monotonic() - start < 30


def test_zombies_are_reaped_while_the_command_runs(binary: Path) -> None:
    command = (
        "for i in $(seq 300); do (setsid true &) ; done; sleep 0.5;"
        "cat /proc/[0-9]*/stat | grep -c ') Z'"
    )
    result = run_in_init(binary, command)
    assert result.output == b"0\n"
    assert result.record.leftover == 0


def test_usage(binary: Path) -> None:
    record = run_in_init(
        binary,
        ["python3", "-c", "x = bytearray(50_000_000); sum(range(3_000_000)); print(len(x))"],
    ).record
    assert record.utime_us > 10_000
    assert record.maxrss_kb > 50_000
    assert record.elapsed_us >= record.utime_us // 4
    assert record.ordering is Ordering.ARRIVAL
    assert record.notifications is None


@exact_order
def test_exact_order_is_in_force_when_asked(binary: Path) -> None:
    record = run_in_init(binary, "echo x >&2", ordering=Ordering.EXACT).record
    assert record.ordering is Ordering.EXACT
    assert record.notifications == 2


def test_the_deadline_kills_what_runs_and_keeps_the_output(binary: Path) -> None:
    result = run_in_init(binary, "trap '' TERM; echo before; sleep 1000", deadline_ms=500)
    assert result.record.kind is ExitKind.DEADLINE
    assert result.output == b"before\n"


@pytest.mark.parametrize("ordering", [Ordering.ARRIVAL, Ordering.EXACT])
def test_the_deadline_holds_when_nobody_reads(binary: Path, ordering: Ordering) -> None:
    with init_process(binary) as process:
        request = InitRequest(
            script=b"yes | tee /dev/stderr; yes >&2",
            env=ENV,
            cwd=b"/",
            deadline_ms=700,
            ordering=ordering,
        )
        process.request(request)
        assert process.process.wait(30) == 116


def test_nobody_reading_does_not_lose_or_stop_anything(binary: Path) -> None:
    with init_process(binary) as process:
        process.request(
            InitRequest(
                script=b"seq 300000; seq 100000 >&2; echo end",
                env=ENV,
                cwd=b"/",
                deadline_ms=50_000,
                ordering=Ordering.EXACT,
            )
        )
        time.sleep(1)  # the pipes and the queue fill up meanwhile
        result = process.finish()
    assert result.stream("stdout").count(b"\n") == 300_001
    assert result.stream("stderr").count(b"\n") == 100_000
    assert result.output.endswith(b"100000\nend\n")


def test_end_of_stdin_before_a_request_ends_the_init(binary: Path) -> None:
    blob = encode_request_blob(SIMPLE)
    for sent in (b"", b"q\0", encode_frame(FrameType.REQUEST, blob)):
        with init_process(binary) as process:
            process.send(sent)
            process.to_init.close()
            result = process.finish()
            assert result.status == 114
            assert result.end is not None
            assert result.end.reason is EndReason.IDLE


def test_end_of_stdin_after_the_request_does_not_end_the_run(binary: Path) -> None:
    with init_process(binary) as process:
        process.request(
            InitRequest(
                script=b"cat; sleep 0.3; echo ran",
                env=ENV,
                cwd=b"/",
                deadline_ms=30_000,
                stdin=True,
            )
        )
        process.to_init.close()
        assert process.finish().output == b"ran\n"


def test_a_slot_has_a_maximum_life(binary: Path) -> None:
    with init_process(binary, "--max-idle-ms", "300") as process:
        process.send(b"q\0")
        assert process.finish().status == 117


def _fatal(binary: Path, data: bytes) -> str:
    with init_process(binary) as process:
        process.session.request(SIMPLE)
        process.send(data)
        result = process.finish()
        assert result.status == 113
        return result.fatal


def _sections(**changes: bytes | None) -> bytes:
    sections: dict[str, bytes | None] = {
        "argv": b"true\0",
        "env": b"A=b\0",
        "cwd": b"/",
        "deadline_ms": b"1000",
        "ordering": b"arrival",
        "stdin": b"none",
    }
    sections.update(changes)
    return encode_sections((name, data) for name, data in sections.items() if data is not None)


@pytest.mark.parametrize(
    "blob",
    [
        b"",
        b"argv",
        _sections(argv=b""),
        _sections(argv=b"true"),
        _sections(argv=b"\0"),
        _sections(env=b"A\0"),
        _sections(env=b"=x\0"),
        _sections(env=b"A=b"),
        _sections(cwd=b""),
        _sections(cwd=b"x"),
        _sections(cwd=b"/" * 5000),
        _sections(cwd=b"/a\0b"),
        _sections(deadline_ms=b"0"),
        _sections(deadline_ms=b"-5"),
        _sections(deadline_ms=b"9999999999999"),
        _sections(ordering=b"exacter"),
        _sections(ordering=b""),
        _sections(stdin=b"maybe"),
        _sections(surprise=b""),
        _sections(cwd=None),
        _sections() + b"cwd\0\1\0\0\0/",
        _sections()[:-1],
        b"argv\0\xff\xff\xff\xff",
        b"x" * 100,
    ],
)
def test_malformed_requests_are_fatal(binary: Path, blob: bytes) -> None:
    end = encode_frame(FrameType.REQUEST_END, struct.pack("<Q", len(blob)))
    assert _fatal(binary, encode_frame(FrameType.REQUEST, blob) + end)


@pytest.mark.parametrize(
    "data",
    [
        b"Z\0\0\0\0\0\0\0",
        b"q\1\0\0\0\0\0\0",
        b"q\0\0\0\1\0\x10\0",
        b"Q\0\0\0\7\0\0\0",
        encode_frame(FrameType.STDIN, b"early"),
        encode_frame(FrameType.REQUEST_END, struct.pack("<Q", 1)),
        encode_frame(FrameType.REQUEST, _sections())
        + encode_frame(FrameType.REQUEST_END, struct.pack("<Q", len(_sections()) + 1)),
    ],
)
def test_malformed_frames_are_fatal(binary: Path, data: bytes) -> None:
    assert _fatal(binary, data)


def test_a_request_of_more_than_32_mib_is_fatal(binary: Path) -> None:
    chunk = encode_frame(FrameType.REQUEST, bytes(1024 * 1024))
    assert "large" in _fatal(binary, chunk * 33)


def test_a_largest_request_is_accepted(binary: Path) -> None:
    with init_process(binary) as process:
        script = b"echo ok\n#" + b"x" * (31 * 1024 * 1024)
        process.request(InitRequest(script=script, env=ENV, cwd=b"/", deadline_ms=60_000))
        assert process.finish().output == b"ok\n"


def test_a_request_in_single_bytes(binary: Path) -> None:
    with init_process(binary) as process:
        for frame in process.session.request(SIMPLE):
            for byte in frame:
                os.write(process.to_init.fileno(), bytes([byte]))
        assert process.finish().output == b"ran\n"


def test_a_request_frame_after_the_request_is_fatal(binary: Path) -> None:
    with init_process(binary) as process:
        process.request(
            InitRequest(script=b"cat", env=ENV, cwd=b"/", deadline_ms=30_000, stdin=True)
        )
        process.send(encode_frame(FrameType.REQUEST, b"again"))
        assert process.finish().status == 113


def test_the_codec_refuses_a_request_before_the_posture(binary: Path) -> None:
    with init_process(binary, raw=True) as process, pytest.raises(ProtocolError):
        process.session.request(SIMPLE)
