"""Show a run while it goes on: its streams, its events, or only its outcome."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import dataclass
from enum import StrEnum, auto
from typing import assert_never

import anyio.to_thread

from sandboxrun.model.event import event_json
from sandboxrun.model.limits import MIB
from sandboxrun.model.outcome import Outcome
from sandboxrun.model.status import Status
from sandboxrun.output.escape import TerminalEscaper, escape
from sandboxrun.runner import Run

_QUIET = frozenset({Status.SUCCEEDED, Status.FAILED})


class Mode(StrEnum):
    """What is printed."""

    STREAMS = auto()
    """The command's stdout and stderr, on ours."""
    EVENTS = auto()
    """Events, as JSON Lines."""
    OUTCOME = auto()
    """The outcome, as one JSON object."""


class _Stream:
    """One of our own streams. A terminal gets control sequences escaped, a pipe the exact bytes."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._escaper = TerminalEscaper() if os.isatty(descriptor) else None

    def write(self, data: bytes) -> None:
        if self._escaper is not None:
            data = self._escaper.feed(data).encode()
        self._write_all(data)

    def finish(self) -> None:
        if self._escaper is not None:
            self._write_all(self._escaper.finish().encode())

    def _write_all(self, data: bytes) -> None:
        _write_all(self._descriptor, data)


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


@dataclass(frozen=True, slots=True)
class Console:
    """Descriptors of whoever gave the command."""

    stdout: int = 1
    stderr: int = 2

    def print(self, line: str) -> None:
        """Write a line to stdout. Blocks."""
        _write_all(self.stdout, f"{line}\n".encode())

    def say(self, text: str) -> None:
        """Write what we have to say ourselves to stderr. Blocks."""
        _write_all(self.stderr, f"sandboxrun: {text}\n".encode("utf-8", "backslashreplace"))


async def follow(run: Run, mode: Mode, console: Console) -> Outcome:
    """Print ``run`` in ``mode`` until it is settled and return its outcome.

    A reader that goes away (a closed pipe) cancels the run. Cancelling leaves the run going on.
    """
    try:
        match mode:
            case Mode.STREAMS:
                await _streams(run, console)
                return await _explained(run, console)
            case Mode.EVENTS:
                await _events(run, console)
                return await run.outcome()
            case Mode.OUTCOME:
                outcome = await run.outcome()
                await anyio.to_thread.run_sync(console.print, outcome.model_dump_json())
                return outcome
            case _:
                assert_never(mode)
    except BrokenPipeError:
        await run.cancel()
        raise


async def _streams(run: Run, console: Console) -> None:
    ours = {"stdout": _Stream(console.stdout), "stderr": _Stream(console.stderr)}
    async with aclosing(run.display()) as parts:
        async for name, data in parts:
            # In a thread: a reader of ours may be slow, and the run must not wait for it.
            await anyio.to_thread.run_sync(ours[name].write, data)
    for stream in ours.values():
        stream.finish()


async def _events(run: Run, console: Console) -> None:
    async with aclosing(run.events()) as events:
        async for event in events:
            await anyio.to_thread.run_sync(console.print, event_json(event))


async def _explained(run: Run, console: Console) -> Outcome:
    """Say on stderr what the command's own output cannot: why it was ended, and what was cut."""
    outcome = await run.outcome()
    killed = outcome.usage.oom_kills is not None and outcome.usage.oom_kills > 0
    if outcome.status not in _QUIET or killed:
        await anyio.to_thread.run_sync(console.say, escape(outcome.reason))
    if run.output_cut and outcome.status in _QUIET:
        await anyio.to_thread.run_sync(
            console.say,
            f"The command wrote {outcome.preview.total_bytes} bytes; what is past the output limit "
            "was counted and not kept.",
        )
    for note in clamped_notes(outcome):
        await anyio.to_thread.run_sync(console.say, note)
    return outcome


def clamped_notes(outcome: Outcome) -> Iterator[str]:
    """Yield a sentence for each limit of which less was given than asked for."""
    if outcome.decision is None:
        return
    given = outcome.limits
    now = {"cpus": given.cpus, "memory_mib": given.memory_bytes / MIB, "pids": given.pids}
    now["disk_mib"] = given.disk_bytes / MIB
    for name, asked in outcome.decision.clamped.items():
        what = name.removesuffix("_mib")
        unit = " MiB" if name.endswith("_mib") else ""
        got = f"; it got {now[name]:g}{unit}" if name in now else ""
        yield f"{what}: {asked:g}{unit} is more than this run may have{got}."
