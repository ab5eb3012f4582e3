"""``sandboxrun exec`` as a user meets it: a process, its streams and its exit status."""

from __future__ import annotations

import errno
import json
import os
import pty
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import CommandLine, installed

from sandboxrun import Status

pytestmark = [pytest.mark.engine, pytest.mark.docker]


@pytest.fixture(scope="module")
def sandboxrun(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    with installed(tmp_path_factory) as command_line:
        yield command_line


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    """Yield a command line that must not have run anything in the end."""
    with installed(tmp_path_factory) as command_line:
        yield command_line
        assert command_line.json("runs", "list") == []


_NOTHING_FOR_ANYBODY = '{"host": {"memory_bytes": 67108864}, "when_full": "refuse"}'
STATUSES: dict[Status, tuple[int, tuple[str, ...], dict[str, str]]] = {
    Status.SUCCEEDED: (0, ("true",), {}),
    Status.FAILED: (77, ("exit 77",), {}),
    Status.COMMAND_NOT_FOUND: (127, ("--", "nosuch"), {}),
    Status.NOT_EXECUTABLE: (126, ("--", "/etc/passwd"), {}),
    Status.SIGNALED: (143, ("kill -TERM $$",), {}),
    Status.TIMED_OUT: (124, ("--timeout", "0.3", "sleep 60"), {}),
    Status.OUT_OF_MEMORY: (137, ("--memory", "64m", "exec python3 -c 'bytearray(1 << 30)'"), {}),
    Status.OUTPUT_LIMIT: (122, ("yes",), {"SANDBOXRUN_OUTPUT_LIMIT_BYTES": "10000"}),
    Status.REFUSED: (77, ("--policy", "strict", "npm publish"), {}),
    Status.APPROVAL_DENIED: (77, ("--policy", "strict", "true"), {}),
    Status.APPROVAL_EXPIRED: (77, ("--policy", "strict", "--wait-approval", "0.2", "true"), {}),
    Status.QUOTA_EXCEEDED: (75, ("true",), {"SANDBOXRUN_QUOTAS": _NOTHING_FOR_ANYBODY}),
    Status.IMAGE_UNUSABLE: (125, ("--image", "no/such:image", "true"), {}),
    Status.INVALID_CWD: (125, ("--cwd", "/nope", "true"), {}),
}
ELSEWHERE = {
    *(Status.CANCELLED, Status.ENGINE_FAILED, Status.LOST),
    *(Status.CONSENT_REQUIRED, Status.WORKSPACE_LOST),
}
"""These need more than a command: see the tests of their own."""


def test_every_status_is_tried() -> None:
    assert set(STATUSES) | ELSEWHERE == set(Status)


@pytest.mark.parametrize("status", STATUSES)
def test_a_status_and_its_exit_status(sandboxrun: CommandLine, status: Status) -> None:
    expected, arguments, env = STATUSES[status]
    done = sandboxrun("exec", "--json", *arguments, **env)
    outcome = json.loads(done.stdout)
    assert (outcome["status"], done.returncode) == (status.value, expected), outcome
    assert outcome["reason"]
    assert done.stderr == b""
    assert sandboxrun.json("runs", "show", outcome["run_id"])["outcome"] == outcome


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_cancels(sandboxrun: CommandLine, number: signal.Signals) -> None:
    with sandboxrun.running("exec", "--json", "sleep 60") as (process, container):
        process.send_signal(number)
        stdout, stderr = process.communicate()
    assert json.loads(stdout)["status"] == Status.CANCELLED.value
    assert (process.returncode, stderr) == (130, b"")
    assert container not in sandboxrun.docker("ps", "-aq", "--no-trunc").decode()


def test_a_container_killed_from_outside_is_no_end_of_the_command(sandboxrun: CommandLine) -> None:
    with sandboxrun.running("exec", "--json", "sleep 60") as (process, container):
        sandboxrun.docker("kill", container)
        outcome = json.loads(process.communicate()[0])
    assert (outcome["status"], process.returncode) == (Status.ENGINE_FAILED.value, 125), outcome
    assert outcome["exit_code"] is None


def test_the_run_of_a_killed_process_is_lost(sandboxrun: CommandLine) -> None:
    with sandboxrun.running("exec", "--conversation", "killed", "sleep 600") as (
        process,
        container,
    ):
        process.kill()
        process.wait()
    (row,) = [row for row in sandboxrun.json("runs", "list") if row["conversation"] == "killed"]
    assert row["status"] == "orphaned"
    assert sandboxrun("exec", "true").returncode == 0
    shown = sandboxrun.json("runs", "show", row["run_id"])
    assert shown["status"] == shown["outcome"]["status"] == Status.LOST.value
    assert shown["outcome"]["exit_code"] is None
    assert container not in sandboxrun.docker("ps", "-aq", "--no-trunc").decode()


def test_a_workspace_whose_policies_nobody_accepted_needs_consent(sandboxrun: CommandLine) -> None:
    assert sandboxrun("workspace", "create", "theirs").returncode == 0
    done = sandboxrun("exec", "--json", "-w", "theirs", "--principal", "bob", "true")
    outcome = json.loads(done.stdout)
    assert (outcome["status"], done.returncode) == (Status.CONSENT_REQUIRED.value, 77)
    assert "consent give" in outcome["reason"]


def test_a_workspace_whose_data_were_removed_is_lost_and_not_empty(
    sandboxrun: CommandLine,
) -> None:
    assert sandboxrun("workspace", "create", "gone").returncode == 0
    assert sandboxrun("exec", "-w", "gone", "touch kept").returncode == 0
    (store,) = sandboxrun.volumes("label=sandboxrun.role=store")
    where = sandboxrun.docker("volume", "inspect", "-f", "{{.Mountpoint}}", store).decode().strip()
    (kept,) = Path(where).glob("**/kept")
    shutil.rmtree(kept.parent)
    done = sandboxrun("exec", "--json", "-w", "gone", "true")
    outcome = json.loads(done.stdout)
    assert (outcome["status"], done.returncode) == (Status.WORKSPACE_LOST.value, 121)


def test_events_are_numbered_lines_from_queued_to_settled(sandboxrun: CommandLine) -> None:
    done = sandboxrun("exec", "--events", "echo out; echo err >&2; exit 3")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert [event["type"] for event in events] == [
        *("queued", "started", "output", "output", "exited", "settled")
    ]
    output = [(event["stream"], event["text"]) for event in events if event["type"] == "output"]
    assert output == [("stdout", "out\n"), ("stderr", "err\n")]
    assert events[-1]["status"] == Status.FAILED.value
    assert (done.returncode, done.stderr) == (3, b"")


USAGE = {
    "no command": ((), "No command"),
    "both forms": (("true", "--", "true"), "not both"),
    "empty exec form": (("--",), "argv"),
    "empty command": (("",), "command"),
    "unknown option": (("--nope", "true"), "--nope"),
    "env without a value": (("--env", "A", "true"), "--env"),
    "env without a name": (("--env", "=x", "true"), "env"),
    "secret that is not set": (("--secret", "NOPE", "true"), "NOPE"),
    "size in words": (("--memory", "much", "true"), "much"),
    "size with a sign": (("--disk", "-1g", "true"), "-1g"),
    "memory too small": (("--memory", "1k", "true"), "memory"),
    "no processors": (("--cpus", "0", "true"), "cpus"),
    "negative timeout": (("--timeout", "-1", "true"), "timeout"),
    "directory with NUL": (("--cwd", "", "true"), "cwd"),
    "unknown workspace": (("--workspace", "nope", "true"), "nope"),
    "unusable workspace name": (("--workspace", "../x", "true"), "workspace"),
}


@pytest.mark.parametrize("name", USAGE)
def test_a_request_that_makes_no_sense_exits_with_2(untouched: CommandLine, name: str) -> None:
    arguments, said = USAGE[name]
    done = untouched("exec", *arguments)
    assert (done.returncode, done.stdout) == (2, b""), done
    assert said in done.stderr.decode()
    assert b"Traceback" not in done.stderr


def test_a_pipe_gets_the_exact_bytes(sandboxrun: CommandLine) -> None:
    script = r"printf '\x1b[31m\xff\x00\r\xe2\x82no newline'; printf '\x1b]0;t\x07\xfe' >&2"
    done = sandboxrun("exec", script)
    assert done.stdout == b"\x1b[31m\xff\x00\r\xe2\x82no newline"
    assert done.stderr == b"\x1b]0;t\x07\xfe"
    assert done.returncode == 0


def test_the_end_of_a_run_is_explained_on_stderr(sandboxrun: CommandLine) -> None:
    done = sandboxrun("exec", "--timeout", "0.3", "echo before; sleep 60")
    assert (done.returncode, done.stdout) == (124, b"before\n")
    assert done.stderr.startswith(b"sandboxrun: The command was killed after its limit of 0.3 s.")


def _read_terminal(ours: int) -> bytes:
    try:
        return os.read(ours, 4096)
    except OSError as ended:
        # So Linux says that nobody has the other side open any more.
        if ended.errno != errno.EIO:
            raise
        return b""


def test_a_terminal_gets_no_control_sequences(sandboxrun: CommandLine) -> None:
    ours, theirs = pty.openpty()
    script = r"printf '\x1b[31mred\x1b[0m \x1b]0;title\x07 \xe2\x80\xae end'"
    with subprocess.Popen(
        ["sandboxrun", "exec", script],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        env=sandboxrun.environment,
    ) as process:
        os.close(theirs)
        shown = bytearray()
        while piece := _read_terminal(ours):
            shown += piece
    os.close(ours)
    assert process.returncode == 0
    assert b"\x1b" not in shown
    assert b"\x07" not in shown
    assert "\u202e".encode() not in shown
    assert b"red" in shown
    assert b"end" in shown
