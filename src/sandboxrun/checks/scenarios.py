"""Promises about more than one run: what is left of the one before, and what the neighbour sees."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from sandboxrun.checks.attempt import Attempt, encode_attempts
from sandboxrun.checks.judging import listed
from sandboxrun.checks.probe import Excuse, Group, Severity, State, Verdict, held, opened
from sandboxrun.checks.subject import Subject, Subjects, observe
from sandboxrun.checks.surroundings import Surroundings

Play: TypeAlias = Callable[[Subjects], Awaitable[Verdict]]
_HEARTBEAT: Final = ".sandboxrun-heartbeat"
_LIFETIME: Final = "120"
_TIMEOUT_SECONDS: Final = 3.0
_ENDED_AT_DEADLINE: Final = "timed_out"
_FIRST_PORT: Final = 20_000
_PORTS: Final = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One promise that takes several runs to try."""

    id: str
    group: Group
    severity: Severity
    promise: str
    play: Play
    """Carries it out. Raises faults of the subjects."""
    excuses: tuple[Excuse, ...] = ()

    def excuse(self, around: Surroundings) -> str | None:
        """Return why it is not promised here, or None where it is."""
        return next((each.reason for each in self.excuses if each.when(around)), None)


def _untested(what: str) -> Verdict:
    return Verdict(State.UNTESTED, what)


async def _no_survivors(subjects: Subjects) -> Verdict:
    """Leave a daemon that ignores every signal it can; it is gone when the run has ended."""
    (began,) = await observe(subjects.first, [Attempt("daemon", (_HEARTBEAT, _LIFETIME))])
    if not began.succeeded:
        return _untested(f"the daemon did not start: {began}")
    return await _heartbeat(subjects.first)


async def _heartbeat(subject: Subject) -> Verdict:
    (beats,) = await observe(subject, [Attempt("heartbeat", (_HEARTBEAT,))])
    if not beats.succeeded:
        return _untested(f"it left no heartbeat: {beats}")
    return opened("its heart still beats") if beats.value else held("its heart has stopped")


async def _deadline(subjects: Subjects) -> Verdict:
    """At the deadline everything is ended, also what does not listen."""
    attempts = [Attempt("daemon", (_HEARTBEAT, _LIFETIME)), Attempt("pause", ("60000",), 90.0)]
    ran = await subjects.first.run_probe(
        encode_attempts(attempts), timeout_seconds=_TIMEOUT_SECONDS
    )
    if ran.ended != _ENDED_AT_DEADLINE:
        return opened(f"the run ended as {ran.ended}")
    return await _heartbeat(subjects.first)


async def _nothing_left(subjects: Subjects) -> Verdict:
    """Of what is not in the workspace the next run finds nothing."""
    name, key = f"left-{secrets.token_hex(6)}", str(1 + secrets.randbelow(2**30))
    (left,) = await observe(subjects.first, [Attempt("leave", (name, key))])
    if not left.value:
        return _untested("nothing could be left")
    (found,) = await observe(subjects.first, [Attempt("find", (name, key))])
    if found.value or not found.succeeded:
        return opened(listed(found.text.splitlines()) or str(found))
    return held(f"{left.value} things left, none found")


async def _neighbour(subjects: Subjects) -> Verdict:
    """While one sandbox listens and offers, another one sees and reaches nothing of it."""
    name, port = f"near-{secrets.token_hex(4)}", str(_FIRST_PORT + secrets.randbelow(_PORTS))
    key = str(1 + secrets.randbelow(2**30))
    offers = [
        Attempt("offer", (name, port, _LIFETIME)),
        Attempt("leave", (name, key)),
        Attempt("pause", (f"{_LIFETIME}000",), float(_LIFETIME) + 10),
    ]
    tries = [
        Attempt("unix", (f"@{name}",)),
        Attempt("tcp", ("127.0.0.1", port)),
        Attempt("find", (name, key)),
        Attempt("scan", (name,), 180.0),
    ]
    async with subjects.first.holding(encode_attempts(offers), answers=2) as began:
        if not began:
            return _untested("the neighbour did not start")
        socket, connection, found, scanned = await observe(subjects.second, tries)
    wrong = [
        str(each) for each, done in zip(tries, (socket, connection), strict=False) if done.succeeded
    ]
    wrong += [line for each in (found, scanned) for line in each.text.splitlines()]
    return opened(listed(wrong)) if wrong else held("neither seen nor reached")


SCENARIOS: Final = (
    Scenario(
        id="proc.no_survivors",
        group=Group.PROCESSES,
        severity=Severity.ESCAPE,
        promise="Nothing a run started outlives it.",
        play=_no_survivors,
    ),
    Scenario(
        id="proc.deadline",
        group=Group.PROCESSES,
        severity=Severity.DOS,
        promise="At its deadline a run ends, with everything it started.",
        play=_deadline,
    ),
    Scenario(
        id="fs.nothing_left",
        group=Group.FILES,
        severity=Severity.LEAK,
        promise="Outside the workspace nothing of one run is there in the next.",
        play=_nothing_left,
    ),
    Scenario(
        id="net.neighbour",
        group=Group.NETWORK,
        severity=Severity.ESCAPE,
        promise="Sandboxes that run at the same time neither see nor reach each other.",
        play=_neighbour,
    ),
)
