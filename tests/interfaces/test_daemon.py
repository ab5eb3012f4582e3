"""The daemon: what `exec` says and does through it is what it says and does without."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from real_engine import engine_url
from sandboxrun.interfaces.daemon import wire

pytestmark = [pytest.mark.engine, pytest.mark.docker, pytest.mark.timeout(300)]
SANDBOXRUN = str(Path(sys.executable).with_name("sandboxrun"))
GONE_SECONDS = 30.0


@dataclass(frozen=True)
class Place:
    state: Path
    environment: dict[str, str]

    def call(
        self, *arguments: str, stdin: bytes = b"", **environment: str
    ) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [SANDBOXRUN, *arguments],
            input=stdin,
            capture_output=True,
            check=False,
            env=self.environment | environment,
        )

    def without(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        return self.call(*arguments, SANDBOXRUN_DAEMON="off")

    def begin(self, *arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [SANDBOXRUN, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environment,
        )

    def outcome(self, *arguments: str, **environment: str) -> dict[str, object]:
        done = self.call("exec", "--json", *arguments, **environment)
        found: dict[str, object] = json.loads(done.stdout)
        return found

    def pid(self) -> int | None:
        found: int | None = json.loads(self.call("daemon", "status", "--json").stdout)["pid"]
        return found

    def left(self) -> list[str]:
        """Name the containers and mounts of this installation."""
        installation = (self.state / "installation").read_text().strip()
        label = f"label=sandboxrun.installation={installation}"
        found = self._docker("ps", "-aq", "--filter", label)
        for volume in self._docker("volume", "ls", "-q", "--filter", label):
            [about] = json.loads(b"".join(self._docker_raw("volume", "inspect", volume)))
            if about["Labels"].get("sandboxrun.role") == "mount":
                found.append(volume)
        return found

    def _docker(self, *arguments: str) -> list[str]:
        return [line.decode() for line in b"".join(self._docker_raw(*arguments)).split()]

    def _docker_raw(self, *arguments: str) -> list[bytes]:
        command = ["docker", "-H", self.environment["SANDBOXRUN_ENGINE"], *arguments]
        return [subprocess.run(command, capture_output=True, check=False).stdout]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    bin_directory = str(Path(sys.executable).parent)
    found = Place(
        tmp_path / "s",
        {
            "PATH": f"{bin_directory}:{os.environ['PATH']}",
            "HOME": str(tmp_path),
            "SANDBOXRUN_STATE_DIR": str(tmp_path / "s"),
            "SANDBOXRUN_ENGINE": engine_url(),
        },
    )
    yield found
    found.call("daemon", "stop")
    assert found.left() == []


@pytest.fixture
def served(place: Place) -> Place:
    assert place.call("workspace", "create", "w").returncode == 0
    done = place.call("daemon", "start")
    assert done.returncode == 0, done.stderr
    return place


SECRET = {"MY_TOKEN": "s3cr3t-value-9f8e7d"}
COMMANDS = [
    ("echo out; echo err >&2",),
    ("exit 7",),
    ("nosuch",),
    ("kill -9 $$",),
    ("-t", "0.5", "sleep 60"),
    ("--", "printf", "%s|", "a b", "", "\u00e9"),
    ("-e", "GREETING=hello", 'echo "$GREETING"'),
    ("--secret", "MY_TOKEN", 'echo "$MY_TOKEN" | wc -c'),
    ("--cwd", "/tmp", "pwd"),
    ("--cwd", "/nowhere", "pwd"),
    ("printf 'a\\0b\\377'",),
    ("sudo rm -rf /",),
    ("--no-such-option",),
    (),
    ("-w", "nosuch", "true"),
    ("--image", "nosuch:1", "true"),
    ("--memory", "lots", "true"),
    ("--json", "-w", "nosuch", "true"),
    ("--json", "--events", "-w", "nosuch", "true"),
    ("--json", "--memory", "lots", "true"),
]


def test_commands_end_the_same_with_and_without_it(served: Place) -> None:
    for arguments in COMMANDS:
        given = ("exec", "-w", "w", *arguments)
        theirs = served.call(*given, SANDBOXRUN_DAEMON="off", **SECRET)
        ours = served.call(*given, **SECRET)
        assert (ours.returncode, ours.stdout, ours.stderr) == (
            theirs.returncode,
            theirs.stdout,
            theirs.stderr,
        ), arguments


def test_processes_share_warm_containers(served: Place) -> None:
    colds = [
        served.outcome("-w", "w", f"echo {number} >> f")["started_cold"] for number in range(4)
    ]
    assert colds[1:] == [False] * 3
    assert served.call("exec", "-w", "w", "cat f").stdout == b"0\n1\n2\n3\n"
    assert served.outcome("-w", "w", "true", SANDBOXRUN_DAEMON="off")["started_cold"] is True


def test_standard_input_is_passed_on(served: Place) -> None:
    assert served.call("exec", "--stdin", "cat", stdin=b"given\n").stdout == b"given\n"


def test_it_declines_what_would_be_different(served: Place) -> None:
    outcome = served.outcome("-w", "w", "true", SANDBOXRUN_TIMEOUT_SECONDS="7")
    assert outcome["started_cold"] is True
    outcome = served.outcome("-w", "w", "true", **SECRET)
    assert outcome["started_cold"] is True
    outcome = served.outcome("--policy", "rollout", "true")
    assert outcome["started_cold"] is True


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_the_command_line_ends_the_run(served: Place, number: signal.Signals) -> None:
    with served.begin("exec", "-w", "w", "echo begun; sleep 60") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        process.send_signal(number)
        assert process.wait(timeout=GONE_SECONDS) == 130
    assert [each["status"] for each in runs(served)] == ["cancelled"]


def test_a_killed_command_line_ends_the_run(served: Place) -> None:
    with served.begin("exec", "-w", "w", "echo begun; sleep 60") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        process.kill()
    deadline = time.monotonic() + GONE_SECONDS
    while [each["status"] for each in runs(served)] != ["cancelled"]:
        assert time.monotonic() < deadline


def test_a_reader_that_goes_away_ends_the_run(served: Place) -> None:
    with served.begin("exec", "-w", "w", "while echo y; do :; done") as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(timeout=GONE_SECONDS) == 141


def test_a_killed_daemon_leaves_nothing_behind_its_successor(served: Place) -> None:
    with served.begin("exec", "-w", "w", "echo kept > f; echo begun; sleep 60") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        pid = served.pid()
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        _, said = process.communicate(timeout=GONE_SECONDS)
    assert process.returncode == 121
    assert b"The daemon ended" in said
    # The socket is still there; nobody listens, and the command line does without.
    assert served.call("exec", "-w", "w", "cat f").stdout == b"kept\n"
    assert sorted(each["status"] for each in runs(served)) == ["lost", "succeeded"]
    assert served.left() == []
    assert served.call("daemon", "start").returncode == 0
    assert served.outcome("-w", "w", "true")["status"] == "succeeded"


def runs(place: Place) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads(place.call("runs", "list", "--json").stdout)
    return found


def test_there_is_one(served: Place) -> None:
    assert b"already" in served.call("daemon", "start").stdout
    refused = served.call("daemon", "run")
    assert refused.returncode != 0
    assert b"serves" in refused.stderr


def test_it_ends_when_idle(place: Place) -> None:
    assert place.call("daemon", "start", "--idle", "1").returncode == 0
    deadline = time.monotonic() + GONE_SECONDS
    while place.pid() is not None:
        assert time.monotonic() < deadline
    assert not (place.state / wire.SOCKET).exists()
    assert place.call("daemon", "status").returncode == 1
    assert place.call("daemon", "stop").returncode == 0


def test_it_is_started_on_demand_where_that_is_wanted(place: Place) -> None:
    assert place.call("exec", "true", SANDBOXRUN_DAEMON="auto").returncode == 0
    deadline = time.monotonic() + GONE_SECONDS
    while place.pid() is None:
        assert time.monotonic() < deadline


def test_its_socket_is_its_users(served: Place) -> None:
    found = (served.state / wire.SOCKET).stat()
    assert stat.S_IMODE(found.st_mode) == 0o600
    assert stat.S_ISSOCK(found.st_mode)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0",
        b"GET / HTTP/1.1\r\n\r\n",
        wire.HELLO + b"9999999999",
        wire.HELLO + b"0000000003a\0b",
    ],
)
def test_what_is_no_request_is_declined(served: Place, data: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(served.state / wire.SOCKET))
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        connection.settimeout(GONE_SECONDS)
        with contextlib.suppress(ConnectionResetError):
            assert connection.recv(16) in {wire.DECLINED, b""}
    assert served.call("exec", "-w", "w", "echo still").stdout == b"still\n"
