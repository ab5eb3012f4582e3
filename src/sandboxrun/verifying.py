"""Verification: every promise tried out in real sandboxes, through the pipeline all runs take."""

from __future__ import annotations

import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread

from sandboxrun.checks.attempt import Attempt, Observation, parse_begun
from sandboxrun.checks.canary import PlacedCanaries, placed_canaries
from sandboxrun.checks.host import look_at_host
from sandboxrun.checks.probe import Probe, Seen
from sandboxrun.checks.result import Result, judged, result_of
from sandboxrun.checks.scenarios import Scenario
from sandboxrun.checks.subject import (
    PROGRAM_NAME,
    Ran,
    Subjects,
    observe,
    packaged_probe,
    run_attempts,
)
from sandboxrun.checks.surroundings import Surroundings
from sandboxrun.config import Settings
from sandboxrun.engine.protocol import EngineInfo
from sandboxrun.errors import EngineError
from sandboxrun.model.event import Output
from sandboxrun.model.limits import Limits
from sandboxrun.model.request import Request
from sandboxrun.policy.builtin import checks_policy
from sandboxrun.policy.load import load_policy
from sandboxrun.runner import Run, Runner
from sandboxrun.screening import screen

_PROGRAM = f"./{PROGRAM_NAME}"
_LOCAL = "unix://"
_REMOVE_SECONDS = 60.0
_HOLD_SECONDS = 300.0
"""A run that is held ends by itself after that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What is verified, and by what."""

    settings: Settings
    probes: tuple[Probe, ...]
    scenarios: tuple[Scenario, ...] = ()
    waivers: Mapping[str, str] = field(default_factory=dict)


async def verify(wanted: Verification) -> tuple[Result, ...]:
    """Run probes and scenarios in sandboxes of these settings; return their results, in order.

    The host policy's limits are in force; its rules are not, since probes are hostile on purpose.
    Raises faults of `sandboxrun.errors`. Cancelling ends the runs and removes the workspaces.
    """
    settings = wanted.settings
    host_policy = await anyio.to_thread.run_sync(load_policy, settings.policy, screen)
    async with AsyncExitStack() as opened:
        runner = await opened.enter_async_context(
            Runner.open(settings, host_policy=checks_policy(host_policy))
        )
        info = await runner.describe()
        first = await opened.enter_async_context(_subject(runner, info))
        second = await opened.enter_async_context(_subject(runner, info))
        placed = opened.enter_context(placed_canaries()) if _is_local(info) else None
        around = await _surroundings(settings, info, first, placed)
        seen = await _seen(first, around, wanted.probes)
        results = [
            judged(each, await each.play(Subjects(first, second)), around, wanted.waivers)
            for each in wanted.scenarios
        ]
        if placed is not None:
            touched = replace(around, reached=await anyio.to_thread.run_sync(placed.reached))
            seen = replace(seen, around=touched)
        return (*(result_of(probe, seen, wanted.waivers) for probe in wanted.probes), *results)


def _is_local(info: EngineInfo) -> bool:
    return info.url.startswith(_LOCAL)


class RunnerSubject:
    """Runs of a runner, in one workspace of their own."""

    def __init__(self, runner: Runner, workspace: str) -> None:
        self.limits: Limits | None = None
        """Those of the last run."""
        self._runner = runner
        self._workspace = workspace

    async def run_probe(self, request: bytes, *, timeout_seconds: float) -> Ran:
        """See `sandboxrun.checks.subject.Subject`."""
        run = await self._start(request, timeout_seconds)
        output = bytearray()
        async for event in run.events():
            if isinstance(event, Output) and event.stream == "stdout":
                output += event.data
        outcome = await run.outcome()
        self.limits = outcome.limits
        return Ran(output=bytes(output), ended=outcome.status.value, reason=outcome.reason)

    @asynccontextmanager
    async def holding(self, request: bytes, *, answers: int) -> AsyncIterator[bool]:
        """See `sandboxrun.checks.subject.Subject`."""
        run = await self._start(request, _HOLD_SECONDS)
        try:
            lines = 0
            async for event in run.events():
                if isinstance(event, Output) and event.stream == "stdout":
                    lines += event.data.count(b"\n")
                if lines >= answers:
                    break
            yield lines >= answers
        finally:
            with anyio.CancelScope(shield=True):
                await run.cancel()

    async def _start(self, request: bytes, timeout_seconds: float) -> Run:
        return await self._runner.start(
            Request(
                argv=(_PROGRAM.encode(),),
                workspace=self._workspace,
                stdin=request,
                timeout_seconds=timeout_seconds,
            )
        )


@asynccontextmanager
async def _subject(runner: Runner, info: EngineInfo) -> AsyncIterator[RunnerSubject]:
    """Yield a workspace that holds the probe program; it is removed afterwards."""
    name = f"verify-{secrets.token_hex(4)}"
    program = await anyio.to_thread.run_sync(packaged_probe, info.architecture)
    directory = await anyio.to_thread.run_sync(_directory_with, program)
    try:
        await runner.workspaces.create(name, source=directory)
    finally:
        await anyio.to_thread.run_sync(partial(shutil.rmtree, directory, ignore_errors=True))
    try:
        yield RunnerSubject(runner, name)
    finally:
        with anyio.move_on_after(_REMOVE_SECONDS, shield=True):
            # What a run leaves is removed behind it, and holds the workspace until then.
            await runner.idle()
            await runner.workspaces.remove(name)


def _directory_with(program: bytes) -> Path:
    directory = Path(tempfile.mkdtemp(prefix="sandboxrun-verify-"))
    file = directory / PROGRAM_NAME
    file.write_bytes(program)
    file.chmod(0o755)
    return directory


async def _surroundings(
    settings: Settings, info: EngineInfo, subject: RunnerSubject, placed: PlacedCanaries | None
) -> Surroundings:
    await observe(subject, ())
    if subject.limits is None:
        raise EngineError("The first run of the probe program had no limits.")
    return Surroundings(
        engine=info,
        runtime=settings.runtime or info.default_runtime,
        limits=subject.limits,
        host=None if placed is None else await anyio.to_thread.run_sync(look_at_host),
        canaries=None if placed is None else placed.canaries,
        now=time.time(),
        state_dir=str(settings.state_dir),
        checkout=str(Path(sys.modules["sandboxrun"].__path__[0])),
    )


async def _seen(subject: RunnerSubject, around: Surroundings, probes: Sequence[Probe]) -> Seen:
    """Try everything the probes want, each thing once: all in one run, but what wants its own."""
    together = [probe for probe in probes if not (probe.alone or probe.resource)]
    attempts = list(dict.fromkeys(a for probe in together for a in probe.attempts_in(around)))
    observations: dict[Attempt, Observation] = dict(
        zip(attempts, await observe(subject, attempts), strict=True)
    )
    for probe in probes:
        if probe.alone or probe.resource:
            own = probe.attempts_in(around)
            ran = await run_attempts(subject, own)
            begun = parse_begun(ran.output, len(own), ended=ran.ended)
            observations |= zip(own, begun, strict=True)
    return Seen(observations, around)
