"""Whatever the probe program can be run in, and how it is run there."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Final, Protocol

from sandboxrun.checks.attempt import Attempt, Observation, encode_attempts, parse_observations
from sandboxrun.errors import ProtocolError
from sandboxrun.init.binary import packaged_program

PROGRAM_NAME: Final = "sandboxrun-probe"
SLACK_SECONDS: Final = 60.0
"""How much longer than all its attempts a run of the program may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """One run of the probe program."""

    output: bytes
    """Its standard output."""
    ended: str
    """How the run ended, in the words of `sandboxrun.model.status.Status`."""
    reason: str


class Subject(Protocol):
    """A sandbox for every call, the workspace being the same one."""

    async def run_probe(self, request: bytes, *, timeout_seconds: float) -> Ran:
        """Run the probe program with ``request`` as its standard input.

        Raises faults of `sandboxrun.errors`. Cancelling ends the run.
        """
        ...

    def holding(self, request: bytes, *, answers: int) -> AbstractAsyncContextManager[bool]:
        """Run it until so many attempts are answered, and let it go on until the end of the block.

        Gives whether they were. Leaving ends the run. Raises faults of `sandboxrun.errors`.
        """
        ...


@dataclass(frozen=True, slots=True)
class Subjects:
    """Two of them, with different workspaces."""

    first: Subject
    second: Subject


async def observe(subject: Subject, attempts: Sequence[Attempt]) -> tuple[Observation, ...]:
    """Try all of ``attempts`` in one run and return what became of them, in order.

    Raises `ProtocolError` when the program did not answer all of them, and faults of the subject.
    Cancelling ends the run.
    """
    ran = await run_attempts(subject, attempts)
    try:
        return parse_observations(ran.output, len(attempts))
    except ProtocolError as fault:
        raise ProtocolError(
            f"{fault.message} The run ended as {ran.ended}: {ran.reason}"
        ) from fault


async def run_attempts(subject: Subject, attempts: Sequence[Attempt]) -> Ran:
    """Try all of ``attempts`` in one run, however it ends. Raises faults of the subject."""
    seconds = sum(attempt.seconds for attempt in attempts) + SLACK_SECONDS
    return await subject.run_probe(encode_attempts(attempts), timeout_seconds=seconds)


def packaged_probe(machine: str) -> bytes:
    """Return the probe program for ``machine``. Raises `InstallError` when there is none."""
    return packaged_program("checks", PROGRAM_NAME, machine)
