"""What a script really runs: a real bash, recording stubs, and a container around both.

The executor is any callable from scripts to the stubs they ran, so that the project's own sandbox
can take the place of a plain container.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from typing import Protocol

import pytest

# Read one script at a time from stdin, run it with nothing but stubs and the base tools on PATH,
# and answer with what the stubs wrote down.
_DRIVER = r"""
set -u
mkdir -p /s /w && cd /w
for n in $(seq 0 29); do
  printf '#!/bin/sh\necho "${0##*/}" >> "$R"\nexit %d\n' $((n % 2)) > /s/k$n
done
chmod +x /s/*
export PATH=/s:/usr/bin:/bin HOME=/w
mkfifo /r/pipe; exec 9<>/r/pipe
number=0
while IFS= read -r -d '' script; do
  for left in /w/*; do [[ -e $left ]] && rm -rf /w/*; break; done
  # A file of its own: what a script leaves running must not write into the next one's record.
  number=$((number + 1)) record=/r/$number
  : > $record
  R=$record timeout -s KILL 10 bash --noprofile --norc -c "$script" </dev/null >/dev/null 2>&1
  read -r -t 0.01 -u 9
  mapfile -t names < $record
  printf '%s ' "${names[@]}"; printf '\0'
done
"""


class Executor(Protocol):
    """Runs scripts and says which stubs each of them ran."""

    def __call__(self, scripts: Sequence[str]) -> list[frozenset[str]]:
        """Return, for each script, the names of the stubs that were executed."""
        ...


class ContainerExecutor:
    """Runs many scripts in one hardened container of a Docker engine."""

    def __init__(self, image: str) -> None:
        self._command = [
            "docker", "run", "--rm", "-i", "--network", "none", "--cap-drop", "ALL",
            "--security-opt", "no-new-privileges", "--read-only", "--pids-limit", "256",
            "--memory", "512m", "--user", "65534:65534", "--label", "sandboxrun.test=screening",
            "--tmpfs", "/s:exec,mode=1777", "--tmpfs", "/w:mode=1777", "--tmpfs", "/tmp",
            "--tmpfs", "/r:mode=1777", image, "bash", "-c", _DRIVER,
        ]  # fmt: skip

    def __call__(self, scripts: Sequence[str]) -> list[frozenset[str]]:
        done = subprocess.run(
            self._command,
            input=b"".join(script.encode() + b"\0" for script in scripts),
            capture_output=True,
            timeout=3600,
            check=False,
        )
        answers = done.stdout.split(b"\0")[:-1]
        assert len(answers) == len(scripts), done.stderr[-2000:]
        return [frozenset(answer.decode().split()) for answer in answers]


def any_executor() -> Executor:
    """Return an executor, or skip the test where there is none."""
    image = os.environ.get("SANDBOXRUN_FUZZ_IMAGE", "debian:bookworm-slim")
    if shutil.which("docker") is None:
        pytest.skip("no docker client")
    probe = ["docker", "image", "inspect", image]
    if subprocess.run(probe, capture_output=True, check=False).returncode != 0:
        pytest.skip(f"no engine with the image {image} (SANDBOXRUN_FUZZ_IMAGE, DOCKER_HOST)")
    return ContainerExecutor(image)
