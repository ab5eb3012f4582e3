"""A probe: one promise, how it is tried, and when it counts as kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeAlias

from sandboxrun.checks.attempt import Attempt, Observation
from sandboxrun.checks.surroundings import Surroundings


class Severity(StrEnum):
    """What a broken promise means."""

    ESCAPE = "escape"
    """Something outside can be read, changed or run."""
    EXFIL = "exfil"
    """Data can leave."""
    DOS = "dos"
    """The host or other sandboxes can be kept from working."""
    LEAK = "leak"
    """Something about the host or others can be seen."""
    SURFACE = "surface"
    """More of the kernel can be reached than is needed."""
    HARDENING = "hardening"
    """A layer is missing behind one that holds."""


class Group(StrEnum):
    """What it is about."""

    NETWORK = "network"
    PRIVILEGES = "privileges"
    SYSCALLS = "syscalls"
    FILES = "files"
    SECRETS = "secrets"
    LEAKS = "leaks"
    TIME = "time"
    LIMITS = "limits"
    PROCESSES = "processes"
    RESOURCES = "resources"


class State(StrEnum):
    """What a probe found."""

    HELD = "held"
    OPEN = "open"
    NOT_APPLICABLE = "n/a"
    """There is nothing here that could be open. It counts as neither, and says why."""
    UNTESTED = "untested"
    """The attempt gave no answer."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found, in a sentence."""

    state: State
    detail: str


def held(detail: str) -> Verdict:
    """Return the verdict that the promise was kept."""
    return Verdict(State.HELD, detail)


def opened(detail: str) -> Verdict:
    """Return the verdict that it was not."""
    return Verdict(State.OPEN, detail)


def not_applicable(reason: str) -> Verdict:
    """Return the verdict that there is nothing that could be open."""
    return Verdict(State.NOT_APPLICABLE, reason)


@dataclass(frozen=True, slots=True)
class Seen:
    """What is known when a probe is judged."""

    observations: Mapping[Attempt, Observation]
    around: Surroundings

    def __call__(self, attempt: Attempt) -> Observation:
        """Return what became of ``attempt``; one that was never made is unanswered."""
        return self.observations.get(attempt, Observation(end="not tried", error=0, value=-1))


Judge: TypeAlias = Callable[[tuple[Attempt, ...], Seen], Verdict]
Attempts: TypeAlias = Callable[[Surroundings], tuple[Attempt, ...]]


class Claim(Protocol):
    """What every result is about: a promise with a name."""

    @property
    def id(self) -> str:
        """Unique, ``group.name``."""
        ...

    @property
    def group(self) -> Group:
        """What it is about."""
        ...

    @property
    def severity(self) -> Severity:
        """What it means when it is broken."""
        ...

    @property
    def promise(self) -> str:
        """The promise, in a sentence."""
        ...

    def excuse(self, around: Surroundings) -> str | None:
        """Return why it is not promised here, or None where it is."""
        ...


@dataclass(frozen=True, slots=True)
class Excuse:
    """Where a promise is not given, and which missing feature of the host that is due to."""

    when: Callable[[Surroundings], bool]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One promise. Data: what is tried is a list, and how it is judged a pure function."""

    id: str
    group: Group
    severity: Severity
    promise: str
    """What is promised, in a sentence."""
    attempts: tuple[Attempt, ...] | Attempts
    judge: Judge
    excuses: tuple[Excuse, ...] = ()
    """Where it is not promised. Everywhere else it is."""
    alone: bool = False
    """Whether it wants a run of its own, because it may end others' attempts."""
    resource: bool = False
    """Whether it takes resources up to their limit; in a run of its own."""

    def attempts_in(self, around: Surroundings) -> tuple[Attempt, ...]:
        """Return what is tried in these surroundings."""
        return self.attempts if isinstance(self.attempts, tuple) else self.attempts(around)

    def verdict(self, seen: Seen) -> Verdict:
        """Judge. An attempt without an answer makes no promise kept. Pure."""
        attempts = self.attempts_in(seen.around)
        for attempt in attempts:
            found = seen(attempt)
            if not found.answered and not found.ended_by_limit:
                # Alone, it is the attempt itself that ended the run.
                state = State.OPEN if self.alone else State.UNTESTED
                return Verdict(state, f"{attempt}: {found}")
        return self.judge(attempts, seen)

    def excuse(self, around: Surroundings) -> str | None:
        """Return why it is not promised here, or None where it is."""
        return next((each.reason for each in self.excuses if each.when(around)), None)
