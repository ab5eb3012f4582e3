"""The engine and the runners the benchmarks use."""

from __future__ import annotations

import functools
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anyio.from_thread import BlockingPortal, start_blocking_portal

from sandboxrun import Outcome, Runner, Settings
from sandboxrun.engine.managed import ManagedEngine
from sandboxrun.engine.protocol import EngineKind
from sandboxrun.model.event import Output
from sandboxrun.model.ordering import Ordering


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Two runners on one engine, which differ in ordering only, and the client of the engine."""

    runners: dict[Ordering, Runner]
    portal: BlockingPortal
    settings: Settings
    podman: str | None
    """Address of a managed Podman, where one is up."""

    @property
    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "SANDBOXRUN_STATE_DIR": str(self.settings.state_dir),
            "SANDBOXRUN_ENGINE": str(self.settings.engine),
        }

    def run(self, command: str, ordering: Ordering = Ordering.EXACT, **fields: Any) -> Outcome:
        runner = self.runners[ordering]
        outcome = self.portal.call(functools.partial(runner.run, command, **fields))
        if outcome.exit_code != 0 or outcome.ordering is not ordering:
            raise RuntimeError(f"not a measurement: {outcome}")
        return outcome

    def output(self, command: str, ordering: Ordering) -> bytes:
        """Return both streams of a run in the order it reports."""

        async def collect() -> bytes:
            run = await self.runners[ordering].start(command)
            return b"".join([e.data async for e in run.events() if isinstance(e, Output)])

        return self.portal.call(collect)

    def docker(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        """Call the Docker client; both streams go to the caller through one pipe."""
        command = ["docker", "-H", str(self.settings.engine), *arguments]
        return subprocess.run(
            command,
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )


def engine_address(state_dir: Path) -> str:
    named = os.environ.get("SANDBOXRUN_ENGINE")
    return ManagedEngine.of(state_dir, EngineKind.DOCKER).up() if named is None else named


def podman_address(state_dir: Path) -> str | None:
    managed = ManagedEngine.of(state_dir, EngineKind.PODMAN)
    return managed.url if managed.is_running() else None


def _remove_volumes(engine: str, state: Path) -> None:
    """Remove the volumes of an installation whose state directory is about to go."""
    label = f"label=sandboxrun.installation={(state / 'installation').read_text().strip()}"
    client = ["docker", "-H", engine, "volume"]
    listed = subprocess.run(
        [*client, "ls", "-q", "--filter", label], check=True, capture_output=True
    )
    for name in listed.stdout.decode().split():
        subprocess.run([*client, "rm", name], check=True, capture_output=True)


@contextmanager
def surroundings() -> Iterator[Surroundings]:
    """Yield runners with a state directory of their own, on the engine the settings name."""
    base = Settings.read()
    with ExitStack() as stack:
        state = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "state"
        engine = engine_address(base.state_dir)
        stack.callback(_remove_volumes, engine, state)
        portal = stack.enter_context(start_blocking_portal())
        runners = {}
        for ordering in (Ordering.EXACT, Ordering.ARRIVAL):
            changed = {"state_dir": state, "engine": engine, "ordering": ordering}
            settings = base.model_copy(update=changed)
            opening = portal.wrap_async_context_manager(Runner.open(settings))
            runners[ordering] = stack.enter_context(opening)
        settings = base.model_copy(update={"state_dir": state, "engine": engine})
        yield Surroundings(runners, portal, settings, podman_address(base.state_dir))
