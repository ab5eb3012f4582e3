"""A runner on a real engine, driven from synchronous tests through a portal."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anyio.from_thread import BlockingPortal

from sandboxrun import Outcome, Runner, Settings
from sandboxrun.model import labels

RUNTIMES = ("crun", "runc")


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
        """Name what runs left: every container and mount of this installation that waits for none."""
        self.portal.call(self.runner.idle)
        engine = self.runner._tools.engine
        ours = {labels.INSTALLATION: self.installation}
        containers = self.portal.call(engine.list_containers, ours)
        volumes = self.portal.call(engine.list_volumes, ours | {labels.ROLE: labels.ROLE_MOUNT})
        found = [each.id for each in containers] + [each.name for each in volumes]
        kept = self.runner.kept_ready
        return [each for each in found if each not in kept]

    @property
    def installation(self) -> str:
        return (self.settings.state_dir / "installation").read_text().strip()
