"""The installed program as a user calls it, with a state directory of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from real_engine import engine_url
from sandboxrun.engine.protocol import EngineKind

STARTS = "type=container", "event=start"


@dataclass(frozen=True)
class CommandLine:
    """The installed program, with a state directory of its own."""

    environment: dict[str, str]
    engine: str

    def __call__(self, *arguments: str | bytes, **env: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            ["sandboxrun", *arguments],
            capture_output=True,
            check=False,
            stdin=subprocess.DEVNULL,
            env=self.environment | env,
        )

    def start(self, *arguments: str | bytes, **env: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            ["sandboxrun", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environment | env,
        )

    def json(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "--json").stdout)

    def docker(self, *arguments: str) -> bytes:
        return subprocess.run(
            ["docker", "-H", self.engine, *arguments], capture_output=True, check=True
        ).stdout

    @property
    def state(self) -> Path:
        return Path(self.environment["SANDBOXRUN_STATE_DIR"])

    @property
    def installation(self) -> str:
        return (self.state / "installation").read_text().strip()

    @property
    def label(self) -> str:
        return f"label=sandboxrun.installation={self.installation}"

    def volumes(self, *filters: str) -> list[str]:
        wanted = [part for each in (self.label, *filters) for part in ("--filter", each)]
        return self.docker("volume", "ls", "-q", *wanted).decode().split()

    @contextmanager
    def running(self, *arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
        """Yield a process and the id of its container, once the engine has started that."""
        filters = [part for each in (*STARTS, self.label) for part in ("--filter", each)]
        watch = ["docker", "-H", self.engine, "events", "--format", "{{.ID}}", *filters]
        # From a moment before: the watcher may connect after the start.
        now = self.docker("info", "--format", "{{.SystemTime}}").decode().strip()
        process = self.start(*arguments)
        with subprocess.Popen([*watch, "--since", now], stdout=subprocess.PIPE) as watcher, process:
            try:
                assert watcher.stdout is not None
                yield process, watcher.stdout.readline().decode().strip()
            finally:
                watcher.kill()
                process.kill()


def command_line_at(state: Path, home: Path) -> CommandLine:
    engine = engine_url(EngineKind.DOCKER)
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(home),
        "SANDBOXRUN_STATE_DIR": str(state),
        "SANDBOXRUN_ENGINE": engine,
    }
    return CommandLine(environment, engine)


@contextmanager
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    state = tmp_path_factory.mktemp("state") / "s"
    command_line = command_line_at(state, tmp_path_factory.mktemp("home"))
    with cleaned(command_line):
        yield command_line


@contextmanager
def cleaned(command_line: CommandLine) -> Iterator[None]:
    """Require that no container is left, and remove the volumes."""
    # The state directory and its installation id are there from the first command on.
    assert command_line("runs", "list").returncode == 0
    label = command_line.label
    yield
    assert command_line.docker("ps", "-aq", "--filter", label) == b""
    left = command_line.docker("volume", "ls", "-q", "--filter", label).decode().split()
    for volume in left:
        command_line.docker("volume", "rm", volume)
