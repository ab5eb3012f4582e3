"""Every status, each by at least eight different commands, half of them real tools.

Where both apply, the exit code is the one ``docker run`` gives for the same image and command.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping

import pytest
from run_bench import Bench

from sandboxrun import Status
from sandboxrun.model.status import exit_status

pytestmark = [pytest.mark.engine, pytest.mark.docker]

SUCCEEDED = [
    "true",
    "echo hello",
    "git --version",
    "python3 -c 'print(6 * 7)'",
    "jq -n '{a: 1}'",
    "printf 'b\\na\\n' | sort",
    "tar --version | head -1",
    "mkdir -p d && cd d && touch x && ls",
    "false || true",
    "(exit 3); exit 0",
]
FAILED = [
    "false",
    "exit 3",
    "grep -q nothing /etc/passwd",
    "ls /does/not/exist",
    "git -C / status",
    "python3 -c 'import sys; sys.exit(77)'",
    "python3 -c 'raise SystemExit(255)'",
    "jq . /etc/passwd",
    "test 1 = 2",
    "make -f /dev/null nothing",
    "sh -c 'kill -9 $$'; exit $?",
]
NOT_FOUND = [
    "nosuchprogram",
    "/no/such/path",
    "curl https://example.com",
    "env nosuch-in-env",
    "sh -c nosuch-in-sh",
    "PATH=/empty ls",
    "bash -c 'nosuch-in-bash'",
    "exec nosuch-by-exec",
    "echo out; nosuch-at-end",
]
NOT_EXECUTABLE = [
    "/etc/passwd",
    "/etc",
    "./",
    "touch f; ./f",
    "env /etc/hostname",
    "sh -c /etc/hosts",
    "exec /etc/passwd",
    "printf 'x' > g; chmod 600 g; ./g",
    "mkdir d; ./d",
]
SIGNALED = [
    "kill -TERM $$",
    "kill -KILL $$",
    "kill -SEGV $$",
    "kill -HUP $$",
    "kill -USR1 $$",
    "exec python3 -c 'import os; os.abort()'",
    "exec python3 -c 'import ctypes; ctypes.string_at(0)'",
    "exec python3 -c 'import os, signal; os.kill(os.getpid(), signal.SIGXCPU)'",
    "exec sh -c 'kill -ALRM $$'",
]
TIMED_OUT = [
    "sleep 60",
    "while :; do :; done",
    "python3 -c 'import time; time.sleep(60)'",
    "trap '' TERM INT HUP; sleep 60",
    "yes > /dev/null",
    "cat < <(sleep 60)",
    "tail -f /dev/null",
    "sleep 60 & wait",
    "(kill -STOP $BASHPID)",
]
OUT_OF_MEMORY = [
    "exec python3 -c 'x = bytearray(1 << 30)'",
    "exec python3 -c 'x = \"a\" * (1 << 30)'",
    "exec python3 -c 'l = []\nwhile True: l.append(bytes(1 << 20))'",
    "exec perl -e '$x = \"a\" x (1 << 30); sleep 9'",
    "exec gawk 'BEGIN { while (1) a[i++] = \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\" i }'",
    "exec sort --buffer-size=1G --parallel=1 < <(yes $RANDOM | head -c 700M)",
    "x=a; while :; do x=$x$x; done",
    "exec dd if=/dev/zero bs=1G count=1 of=/dev/null",
]
INVALID_CWD = [
    "/nope",
    "/etc/passwd",
    "missing",
    "/workspace/a/b",
    "/proc/1/cwd",
    "/bin/ls",
    "x y",
    "/tmp/\n",
]
IMAGE_UNUSABLE = [
    "nope",
    "nope:latest",
    "a/b/c:d",
    "sha256:" + "0" * 64,
    "UPPER",
    "a@b",
    "-x",
    "sandboxrun/workspace:absent",
]


def _docker_exit_code(bench: Bench, command: str) -> int:
    plain = bench.docker(
        # --init: without one the kernel ignores signals with a default action sent to PID 1.
        *("run", "--rm", "--init", "--network", "none", "--user", "2000000:2000000"),
        *("--workdir", "/tmp", "--entrypoint", "bash", bench.settings.image),
        *("--noprofile", "--norc", "-c", command),
    )
    return plain.returncode


def _check(bench: Bench, status: Status, command: str, **fields: object) -> None:
    outcome = bench.run(command, **fields)
    assert outcome.status is status, outcome
    assert outcome.reason


def _same_as_docker(bench: Bench, status: Status, command: str) -> None:
    outcome = bench.run(command)
    assert outcome.status is status, outcome
    ours = exit_status(outcome.status, outcome.exit_code, outcome.signal)
    assert ours == _docker_exit_code(bench, command), outcome


@pytest.mark.parametrize("command", SUCCEEDED)
def test_a_command_that_exits_with_zero_succeeded(bench: Bench, command: str) -> None:
    _same_as_docker(bench, Status.SUCCEEDED, command)


@pytest.mark.parametrize("command", FAILED)
def test_a_command_that_exits_with_another_code_failed(bench: Bench, command: str) -> None:
    _same_as_docker(bench, Status.FAILED, command)


@pytest.mark.parametrize("command", NOT_FOUND)
def test_a_shell_that_finds_no_program_says_so(bench: Bench, command: str) -> None:
    _same_as_docker(bench, Status.COMMAND_NOT_FOUND, command)


@pytest.mark.parametrize("command", NOT_EXECUTABLE)
def test_a_program_that_cannot_be_executed(bench: Bench, command: str) -> None:
    _same_as_docker(bench, Status.NOT_EXECUTABLE, command)


@pytest.mark.parametrize("command", SIGNALED)
def test_a_command_ended_by_its_own_signal_is_signaled_and_not_timed_out(
    bench: Bench, command: str
) -> None:
    _same_as_docker(bench, Status.SIGNALED, command)


@pytest.mark.parametrize("command", TIMED_OUT)
def test_a_command_past_its_time_is_timed_out(bench: Bench, command: str) -> None:
    _check(bench, Status.TIMED_OUT, command, timeout_seconds=0.4)


@pytest.mark.parametrize("command", OUT_OF_MEMORY)
def test_a_command_past_its_memory_is_out_of_memory(bench: Bench, command: str) -> None:
    limits = bench.settings.limits.model_copy(update={"memory_bytes": 64 << 20})
    outcome = bench.run(command, limits=limits)
    assert outcome.status is Status.OUT_OF_MEMORY, outcome
    assert outcome.usage.oom_kills is None or outcome.usage.oom_kills > 0


@pytest.mark.parametrize("cwd", INVALID_CWD)
def test_a_directory_that_is_not_there_is_not_made(bench: Bench, cwd: str) -> None:
    outcome = bench.run("pwd", cwd=cwd)
    assert outcome.status is Status.INVALID_CWD, outcome
    assert outcome.preview.total_bytes == 0


@pytest.mark.parametrize("image", IMAGE_UNUSABLE)
def test_an_image_the_engine_lacks_is_unusable(bench: Bench, image: str) -> None:
    outcome = bench.run("true", image=image)
    assert outcome.status is Status.IMAGE_UNUSABLE, outcome
    assert "image build" in outcome.reason


EXEC_FORM: Mapping[tuple[str, ...], Status] = {
    ("true",): Status.SUCCEEDED,
    ("echo", "$HOME", "*"): Status.SUCCEEDED,
    ("ls", "-la"): Status.SUCCEEDED,
    ("sh", "-c", "exit 127"): Status.FAILED,
    ("sh", "-c", "exit 126"): Status.FAILED,
    ("nosuch",): Status.COMMAND_NOT_FOUND,
    ("/no/such",): Status.COMMAND_NOT_FOUND,
    ("/etc/passwd/x",): Status.COMMAND_NOT_FOUND,
    ("/etc/passwd",): Status.NOT_EXECUTABLE,
    ("/etc",): Status.NOT_EXECUTABLE,
}


@pytest.mark.parametrize(
    ("argv", "status"),
    EXEC_FORM.items(),
    ids=lambda value: shlex.join(value) if isinstance(value, tuple) else str(value),
)
def test_the_exec_form_runs_programs_without_a_shell(
    bench: Bench, argv: tuple[str, ...], status: Status
) -> None:
    outcome = bench.run(argv=argv)
    assert outcome.status is status, outcome
    if argv[:2] == ("echo", "$HOME"):
        assert outcome.preview.text == "$HOME *\n"


def test_nothing_of_ours_is_left(bench: Bench) -> None:
    assert bench.leftovers() == []
