"""Exact order: nothing misplaced, nothing lost, never stuck. With real programs."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from init_process import (
    ROOT,
    Result,
    build_init,
    built_init,
    exact_order,
    init_process,
    needs_namespaces,
    request_for,
    run_in_init,
)

from sandboxrun.model.ordering import Ordering

pytestmark = [needs_namespaces, exact_order]
NUMBERS = 10_000
LOOP = "for ((i = 0; i < N; i += 2)); do"


@pytest.fixture(scope="module")
def binary() -> Iterator[Path]:
    with built_init() as path:
        for name in ("signals", "alternate"):
            source = ROOT / "tests" / "unit" / f"{name}.c"
            command = ["cc", "-O1", "-pthread", "-o", path.parent / name, source]
            subprocess.run(command, check=True)
        yield path


def _run(binary: Path, command: str, numbers: int = NUMBERS) -> Result:
    env = (
        (b"PATH", b"/usr/bin:/bin:" + os.fsencode(binary.parent)),
        (b"N", str(numbers).encode()),
    )
    result = run_in_init(binary, command, ordering=Ordering.EXACT, env=env)
    assert result.record.ordering is Ordering.EXACT
    assert result.record.unguarded == 0
    return result


PYTHON = 'python3 -u -c \'import os, sys\nfor i in range(0, int(os.environ["N"]), 2):\n'
ALTERNATING = {
    "bash": f"{LOOP} echo $i; echo $((i + 1)) >&2; done",
    "bash, swapped": f"f() {{ {LOOP} echo $i; echo $((i + 1)) >&2; done; }}; f 3>&1 1>&2 2>&3",
    "dash": "dash -c 'i=0; while [ $i -lt $N ]; do echo $i; echo $((i + 1)) >&2; "
    "i=$((i + 2)); done'",
    "python print": PYTHON + " print(i); print(i + 1, file=sys.stderr)'",
    "python write": PYTHON + ' os.write(1, b"%d\\n" % i); os.write(2, b"%d\\n" % (i + 1))\'',
    "python subprocess": "python3 -u -c 'import subprocess, sys\n"
    'subprocess.run(["bash", "-c", sys.argv[1]])\' \'for ((i = 0; i < N; i += 2)); do '
    "echo $i; echo $((i + 1)) >&2; done'",
    "awk": 'awk \'BEGIN { for (i = 0; i < ENVIRON["N"]; i += 2) { print i; fflush(); '
    'print i + 1 > "/dev/stderr"; fflush() } }\'',
    "perl": "perl -e '$| = 1; for ($i = 0; $i < $ENV{N}; $i += 2) "
    '{ print "$i\\n"; print STDERR $i + 1, "\\n" }\'',
    "C": "alternate write",
    "C stdio": "alternate stdio",
    "C writev": "alternate writev",
    "two threads": "alternate threads",
    "two processes": "alternate processes",
    "merged": f"{{ {LOOP} echo $i; echo $((i + 1)) >&2; done; }} 2>&1",
}
FORKING = {
    "subshells": f"{LOOP} (echo $i); (echo $((i + 1)) >&2); done",
    "programs": f"{LOOP} /bin/echo $i; /bin/echo $((i + 1)) >&2; done",
    "cat": f"{LOOP} echo $i; echo $((i + 1)) | cat >&2; done",
    "substitution": f"{LOOP} echo $(echo $i); echo $(echo $((i + 1))) >&2; done",
    "dev stderr": f"{LOOP} echo $i; echo $((i + 1)) > /dev/stderr; done",
}


@pytest.mark.parametrize("name", ALTERNATING)
def test_nothing_is_misplaced(binary: Path, name: str) -> None:
    result = _run(binary, ALTERNATING[name])
    assert result.output.split() == [b"%d" % number for number in range(NUMBERS)]


@pytest.mark.parametrize("name", FORKING)
def test_nothing_is_misplaced_by_programs_in_turn(binary: Path, name: str) -> None:
    result = _run(binary, FORKING[name], 1000)
    assert result.output.split() == [b"%d" % number for number in range(1000)]


def test_large_writes_are_not_misplaced(binary: Path) -> None:
    command = (
        "for i in 1 2 3 4 5 6 7 8; do head -c 300000 /dev/zero | tr '\\0' a; echo;"
        "head -c 300000 /dev/zero | tr '\\0' b >&2; echo >&2; done"
    )
    result = _run(binary, command)
    assert result.output == (b"a" * 300_000 + b"\n" + b"b" * 300_000 + b"\n") * 8


def test_writing_only_stdout_costs_no_notification(binary: Path) -> None:
    result = _run(binary, "exec dd if=/dev/zero bs=512 count=20000 status=none")
    assert result.record.notifications == 0
    assert len(result.output) == 512 * 20_000


SENDER = "(while :; do kill -{name} $$ || exit; {pause}; done) & "
TRAPPED = "trap : {name}; " + SENDER + "for ((i = 0; i < {lines}; i++)); do echo $i >&2; done"
LOSSES = {
    "bash trap, 10 Hz": (TRAPPED.format(name="USR1", pause="sleep 0.1", lines=20_000), 20_000),
    "bash trap, 1 kHz": (TRAPPED.format(name="ALRM", pause="sleep 0.001", lines=20_000), 20_000),
    "bash trap, tight": (TRAPPED.format(name="TERM", pause=":", lines=5_000), 5_000),
    "bash children": (
        "for ((i = 0; i < 3000; i++)); do ((i % 20)) || /bin/true & echo $i >&2; done; wait",
        3000,
    ),
    "dash children": (
        (
            "dash -c 'i=0; while [ $i -lt 3000 ]; do [ $((i % 5)) = 0 ] && /bin/true & "
            "echo $i >&2; i=$((i + 1)); done; wait'"
        ),
        3000,
    ),
    "dash subshell": (
        (
            "dash -c '(i=0; while [ $i -lt 2000 ]; do [ $((i % 5)) = 0 ] && /bin/true & "
            "echo $i >&2; i=$((i + 1)); done; wait)'"
        ),
        2000,
    ),
    "C stdio, restarting": ("signals restart stdio 30000 1000", 30_000),
    "C stdio, interrupted": ("signals interrupt stdio 30000 1000", 30_000),
    "C stdio, often": ("signals interrupt stdio 20000 50", 20_000),
    "C threads": ("signals interrupt threads 2000 50", 16_000),
    "python timer": (
        (
            "python3 -u -c 'import os, signal\nsignal.signal(signal.SIGALRM, lambda *_: None)\n"
            "signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)\n"
            'for i in range(20000): os.write(2, b"%d\\n" % i)\n'
            "signal.setitimer(signal.ITIMER_REAL, 0)'"
        ),
        20_000,
    ),
    "stopped and continued": (
        (
            "trap : USR1; (exec 2>/dev/null; for k in 1 2 3 4 5 6 7 8; do sleep 0.02; kill -STOP $$; sleep 0.02; "
            "kill -USR1 $$; kill -CONT $$; done) & "
            "for ((i = 0; i < 10000; i++)); do echo $i >&2; done"
        ),
        10_000,
    ),
}


@pytest.mark.parametrize("name", LOSSES)
def test_nothing_is_lost_to_signals(binary: Path, name: str) -> None:
    command, lines = LOSSES[name]
    result = _run(binary, command)
    written = [line for line in result.stream("stderr").splitlines() if b"kill" not in line]
    if name == "C threads":
        assert written == [b"line"] * lines
    else:
        assert written == [b"%d" % number for number in range(lines)]
    assert result.code == 0


# Not "tight": a sender that never pauses fills what can be deferred (MAX_DEFERRED of guard.c), and
# then a signal is delivered at once, with the interruption that the C library gives for it.
@pytest.mark.parametrize("name", ["bash trap, 1 kHz", "C threads"])
def test_nothing_is_lost_the_way_aarch64_needs_it(binary: Path, name: str) -> None:
    command, lines = LOSSES[name]
    deferring = build_init(binary.parent, "CFLAGS=-O2 -DGUARD_DEFERS", name="deferring")
    result = _run(deferring, command)
    written = [line for line in result.stream("stderr").splitlines() if b"kill" not in line]
    assert len(written) == lines
    assert result.code == 0


@pytest.mark.skipif(shutil.which("go") is None, reason="no Go compiler")
def test_nothing_is_lost_by_go(binary: Path) -> None:
    program = binary.parent / "gosignals"
    source = ROOT / "tests" / "unit" / "signals.go"
    env = {**os.environ, "GOCACHE": str(binary.parent / "cache")}
    subprocess.run(["go", "build", "-o", program, source], check=True, env=env)
    result = _run(binary, "gosignals")
    assert result.stream("stderr").count(b"\n") == 20_000


def test_nothing_is_lost_by_make(binary: Path) -> None:
    directory = binary.parent / "make"
    directory.mkdir()
    targets = " ".join(f"t{number}" for number in range(200))
    rule = "\t@for i in 1 2 3 4 5; do echo $@ $$i; echo $@ $$i >&2; done\n"
    (directory / "Makefile").write_text(f"all: {targets}\n{targets}:\n{rule}")
    result = _run(binary, f"make -s -j8 -C {directory}")
    assert result.code == 0
    assert result.stream("stdout").count(b"\n") == 1000
    assert result.stream("stderr").count(b"\n") == 1000


def test_only_handlers_that_could_cost_data_are_guarded(binary: Path) -> None:
    command = (
        "for signal in $(seq 1 64); do case $signal in 9|19|32|33) continue;; esac; "
        "for how in interrupt restart; do for old in plain old; do "
        "signals $how $old $signal 0 || echo $signal $how $old; done; done; done"
    )
    guarded = (1, 10, 12, 14, 15, 26, 27, 29, 34, 35)
    expected = {f"{number} interrupt {old}" for number in guarded for old in ("plain", "old")}
    found = _run(binary, command).output.decode().splitlines()
    assert set(found) == expected | {"17 interrupt plain"}


def test_tracing_ends_with_exec_and_does_not_follow_forks(binary: Path) -> None:
    show = 'import re; print(re.findall("TracerPid:.(.)", open("/proc/self/status").read()))'
    command = f"trap : USR1; python3 -c '{show}'; exec python3 -c '{show}'"
    assert _run(binary, command).stream("stdout") == b"['0']\n['0']\n"


def test_a_stalled_host_does_not_deadlock_writers(binary: Path) -> None:
    command = (
        "for k in 1 2 3 4; do (for ((i = 0; i < 30000; i++)); do echo $k $i >&2; done) & "
        "(for ((i = 0; i < 30000; i++)); do echo $k $i; done) & done; wait; echo end"
    )
    with init_process(binary) as process:
        process.request(request_for(command, ordering=Ordering.EXACT))
        process.process.poll()
        process.read_until(lambda: len(process.result.output) > 1000)
        # Not reading for a while fills every pipe and the queue.
        with pytest.raises(subprocess.TimeoutExpired):
            process.process.wait(1)
        result = process.finish()
    assert result.stream("stderr").count(b"\n") == 120_000
    assert result.stream("stdout").count(b"\n") == 120_001


def test_writers_that_close_and_outlive(binary: Path) -> None:
    command = (
        "exec 3>&2 2>&-; echo lost >&2; exec 2>&3 3>&-; echo back >&2;"
        "(sleep 0.2; while :; do echo late >&2; done) & exec 1>&-; echo end >&2"
    )
    result = _run(binary, command)
    assert result.stream("stderr").splitlines()[-2:] == [b"back", b"end"]
    assert result.record.leftover >= 1


def test_a_process_that_reads_its_own_output(binary: Path) -> None:
    command = "cat /proc/$$/fd/1 > /dev/null & sleep 0.1; seq 20000; kill $!; echo end >&2"
    assert _run(binary, command).stream("stderr").splitlines()[-1] == b"end"


def test_packet_mode_pipes_lose_nothing(binary: Path) -> None:
    code = (
        "import fcntl, os\nfor fd in (1, 2):\n"
        " fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_DIRECT)\n"
        "for i in range(2000):\n os.write(1, b'a' * (i + 1)); os.write(2, b'b' * (i + 1))\n"
    )
    result = run_in_init(binary, ["python3", "-c", code], ordering=Ordering.EXACT)
    assert result.output == b"".join(b"a" * (i + 1) + b"b" * (i + 1) for i in range(2000))
