"""What a run asks of the ledger, and on whose account. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, TypeAlias


class Resource(StrEnum):
    """What is counted. All amounts are whole numbers in the unit named here."""

    RUNS = "runs"
    CPUS = "cpus"
    """Thousandths of a CPU."""
    MEMORY = "memory_bytes"
    PROCESSES = "processes"
    DISK = "disk_bytes"
    SECONDS = "seconds"
    """Milliseconds of wall-clock time: the time limit while a run goes on, then what it took."""
    WRITERS = "writers"
    """Runs that write one workspace: they stand in its line one after another."""


class Scope(StrEnum):
    """On whose account it goes, from the widest."""

    HOST = "host"
    PRINCIPAL = "principal"
    CONVERSATION = "conversation"
    WORKSPACE = "workspace"


class Subject(NamedTuple):
    """One account."""

    scope: Scope
    principal: str
    """Whose conversation it is; empty for the other scopes."""
    name: str


HOST = Subject(Scope.HOST, "", "")
Amounts: TypeAlias = Mapping[Resource, int]
Bounds: TypeAlias = Mapping[Scope, Amounts]
"""The most there may be, by scope. What is left out is not bounded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What one run asks for."""

    run_id: str
    principal: str
    conversation: str | None
    workspace: str | None
    """Its name; None for a throwaway one."""
    amounts: Amounts

    @property
    def subjects(self) -> tuple[Subject, ...]:
        """The accounts it goes on."""
        found = [HOST, Subject(Scope.PRINCIPAL, "", self.principal)]
        if self.conversation is not None:
            found.append(Subject(Scope.CONVERSATION, self.principal, self.conversation))
        if self.workspace is not None:
            found.append(Subject(Scope.WORKSPACE, "", self.workspace))
        return tuple(found)

    @property
    def turn_of(self) -> tuple[str, str | None]:
        """Whose turn it takes: conversations take turns, and so do principals without one."""
        return self.principal, self.conversation


@dataclass(frozen=True, slots=True)
class Ticket:
    """A claim in the ledger."""

    number: int
    round: int
    """Turns are taken in rounds: of each conversation, one ticket a round."""
    claim: Claim
    bounds: Bounds
    """What the process that asks goes by."""
    held: bool
    """Granted; otherwise it waits."""
