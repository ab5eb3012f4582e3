"""A runner on a real engine, driven from synchronous tests through a portal."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal

from sandboxrun import Outcome, Runner, Settings
from sandboxrun.engine.managed import ManagedEngine
from sandboxrun.engine.protocol import EngineKind
from sandboxrun.errors import EngineError, InstallError

RUNTIMES = ("crun", "runc")


def engine_address(kind: EngineKind) -> str:
    """Return the engine the tests use; skip where none can be had."""
    named = os.environ.get(f"SANDBOXRUN_TEST_{kind.value.upper()}")
    if named:
        return named
    try:
        return ManagedEngine.of(
            Path(os.environ.get("SANDBOXRUN_TEST_STATE", "build/state")), kind
        ).up()
    except (InstallError, EngineError) as fault:
        pytest.skip(f"no {kind.value}: {fault}")


@dataclass(frozen=True)
class Bench:
    """A runner, and how to call it from a synchronous test."""

    runner: Runner
    portal: BlockingPortal
    settings: Settings

    def run(self, command: str | None = None, **fields: Any) -> Outcome:
        return self.portal.call(functools.partial(self.runner.run, command, **fields))

    def docker(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        """Call the Docker client on the same engine."""
        return subprocess.run(
            ["docker", "-H", str(self.settings.engine), *arguments],
            capture_output=True,
            check=False,
        )

    def cli(
        self, *arguments: str, stdin: bytes = b"", env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        """Call the command line as a user would."""
        return subprocess.run(
            ["sandboxrun", *arguments],
            input=stdin,
            capture_output=True,
            check=False,
            env=self.environment | (env if env is not None else {}),
        )

    @property
    def environment(self) -> dict[str, str]:
        bin_directory = str(Path(sys.executable).parent)
        return {
            "PATH": f"{bin_directory}:{os.environ['PATH']}",
            "HOME": os.environ.get("HOME", "/"),
            "SANDBOXRUN_STATE_DIR": str(self.settings.state_dir),
            "SANDBOXRUN_ENGINE": str(self.settings.engine),
            "SANDBOXRUN_POLICY": self.settings.policy,
        }

    def leftovers(self) -> list[str]:
        """Name every container and mount of this installation."""
        label = f"label=sandboxrun.installation={self.installation}"
        containers = self.docker("ps", "-aq", "--filter", label).stdout.split()
        volumes = self.docker(
            "volume", "ls", "-q", "--filter", label, "--filter", "label=sandboxrun.role=mount"
        ).stdout.split()
        return [name.decode() for name in containers + volumes]

    @property
    def installation(self) -> str:
        return (self.settings.state_dir / "installation").read_text().strip()
