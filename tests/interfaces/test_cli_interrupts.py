"""^C at any moment of the process's life: 130, not a word, nothing left."""

from __future__ import annotations

import random
import signal
import subprocess
from collections.abc import Iterator

import pytest
from command_line import CommandLine, installed

pytestmark = [pytest.mark.engine, pytest.mark.docker]

TRIES = 30
LATEST_SECONDS = 1.5
CANCELLED = b"sandboxrun: The caller cancelled the command. Everything it had started was killed.\n"


@pytest.fixture(scope="module")
def sandboxrun(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    with installed(tmp_path_factory) as command_line:
        yield command_line


def interrupted_after(process: subprocess.Popen[bytes], seconds: float) -> tuple[int, bytes]:
    """Return exit status and stderr of a process that got ^C after so long."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    return process.returncode, stderr


def before_us(status: int, stderr: bytes) -> bool:
    """Tell whether Python had not reached our first line: what it does then is its own."""
    return (status == -signal.SIGINT and stderr == b"") or b"import_site" in stderr


@pytest.mark.parametrize("arguments", [("exec", "sleep 60"), ("exec", "--json", "sleep 60")])
def test_a_run_can_be_interrupted_at_any_moment(
    sandboxrun: CommandLine, arguments: tuple[str, ...]
) -> None:
    ours = 0
    for _ in range(TRIES):
        status, stderr = interrupted_after(
            sandboxrun.start(*arguments), random.uniform(0, LATEST_SECONDS)
        )
        if before_us(status, stderr):
            continue
        ours += 1
        assert status == 130, stderr
        assert b"Traceback" not in stderr
        assert stderr in (b"", CANCELLED)
    assert ours > TRIES * 2 // 3
    assert sandboxrun("exec", "true").returncode == 0
    assert sandboxrun.docker("ps", "-aq", "--filter", sandboxrun.label) == b""
    assert sandboxrun.volumes("label=sandboxrun.role=mount") == []
    running = [row for row in sandboxrun.json("runs", "list") if row["status"] == "running"]
    assert running == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("runs", "list"),
        ("workspace", "list"),
        ("image", "list"),
        ("gc",),
        ("policy", "check", "ci"),
    ],
)
def test_so_can_every_other_command(sandboxrun: CommandLine, arguments: tuple[str, ...]) -> None:
    for _ in range(6):
        status, stderr = interrupted_after(sandboxrun.start(*arguments), random.uniform(0, 1.2))
        assert b"Traceback" not in stderr or before_us(status, stderr)
        assert status in (0, 130) or before_us(status, stderr), stderr


def test_a_command_that_reads_our_stdin_can_be_interrupted(sandboxrun: CommandLine) -> None:
    with subprocess.Popen(
        ["sandboxrun", "exec", "--stdin", "cat"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=sandboxrun.environment,
    ) as process:
        status, stderr = interrupted_after(process, 2.5)
    assert (status, stderr) == (130, b"")


def test_in_the_background_of_a_script_it_is_ignored(sandboxrun: CommandLine) -> None:
    process = subprocess.Popen(
        ["sh", "-c", "trap '' INT; exec sandboxrun exec 'sleep 3; echo done'"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=sandboxrun.environment,
    )
    with process:
        try:
            process.wait(1.0)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
        stdout, _ = process.communicate(timeout=60)
    assert (process.returncode, stdout) == (0, b"done\n")
