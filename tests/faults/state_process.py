"""Starting, commanding and killing `state_worker` processes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


class Worker:
    """One process that uses a state directory."""

    def __init__(self, path: Path, backend: str = "asyncio") -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.state_worker", str(path), backend],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ready(self) -> None:
        assert self.read() == {"ready": True}

    def send(self, do: str, **order: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **order}) + "\n")
        self._process.stdin.flush()

    def read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the worker ended by itself"
        answer: dict[str, Any] = json.loads(line)
        return answer

    def ask(self, do: str, **order: Any) -> dict[str, Any]:
        self.send(do, **order)
        return self.read()

    def kill(self) -> list[dict[str, Any]]:
        """Kill -9, reap, and return everything it had said and nobody had read."""
        self._process.kill()
        said, _ = self._process.communicate()
        # The last line may have been cut by the kill.
        return [json.loads(line) for line in said.splitlines(keepends=True) if line.endswith("\n")]

    def end(self) -> None:
        """Let it leave as a process does that is done."""
        said, _ = self._process.communicate()
        assert (said, self._process.returncode) == ("", 0)
