"""Who may start now: the rules of the ledger. Pure.

Tickets are looked at round by round: each conversation has one ticket a round, so one that asks
for a hundred runs does not keep the others waiting. A ticket that lacks something closes that
account to the later ones that need the same, so nobody is overtaken for ever; accounts it does
not lack stay open.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from sandboxrun.quota.claim import Claim, Resource, Scope, Subject, Ticket

Account: TypeAlias = tuple[Subject, Resource]
Usage: TypeAlias = Mapping[Account, int]

_NAMES: Final = {
    Scope.HOST: "This host",
    Scope.PRINCIPAL: "The principal",
    Scope.CONVERSATION: "The conversation",
    Scope.WORKSPACE: "The workspace",
}


@dataclass(frozen=True, slots=True)
class Shortage:
    """One account that has too little for a claim."""

    subject: Subject
    resource: Resource
    wanted: int
    used: int
    bound: int

    @property
    def account(self) -> Account:
        """Which one it is."""
        return self.subject, self.resource

    @property
    def is_lasting(self) -> bool:
        """Whether it would not fit if nobody else used anything."""
        return self.wanted > self.bound

    def sentence(self) -> str:
        """Say it with its numbers."""
        scope, _, name = self.subject
        who = _NAMES[scope] + (f" {name!a}" if name else "")
        used, bound = shown(self.resource, self.used), shown(self.resource, self.bound)
        wanted = shown(self.resource, self.wanted)
        if self.resource is Resource.WRITERS:
            return f"{who} has a run that writes it and one that is next."
        what = _WORDS[self.resource]
        if self.is_lasting:
            return f"{who} may have {bound} {what}, and this run alone needs {wanted}."
        return f"{who} uses {used} of {bound} {what}, and this run needs {wanted}."


_WORDS: Final = {
    Resource.RUNS: "runs at a time",
    Resource.CPUS: "CPUs",
    Resource.MEMORY: "of memory",
    Resource.PROCESSES: "processes",
    Resource.DISK: "of disk",
    Resource.SECONDS: "of running time",
    Resource.WRITERS: "writers",
}


def shown(resource: Resource, amount: int) -> str:
    """Return an amount as people write it."""
    match resource:
        case Resource.CPUS:
            return f"{amount / 1000:g}"
        case Resource.SECONDS:
            return f"{amount / 1000:g} s"
        case Resource.MEMORY | Resource.DISK:
            return f"{amount / (1 << 20):,.0f} MiB"
        case Resource.RUNS | Resource.PROCESSES | Resource.WRITERS:
            return str(amount)


def usage_of(claims: Iterable[Claim]) -> Counter[Account]:
    """Return what ``claims`` use together, by account."""
    usage: Counter[Account] = Counter()
    for claim in claims:
        _add(usage, claim)
    return usage


def _add(usage: Counter[Account], claim: Claim) -> None:
    for subject in claim.subjects:
        for resource, amount in claim.amounts.items():
            usage[subject, resource] += amount


def shortages(ticket: Ticket, usage: Usage) -> tuple[Shortage, ...]:
    """Return what a ticket lacks, the widest account first."""
    found = []
    for subject in ticket.claim.subjects:
        for resource, bound in ticket.bounds.get(subject.scope, {}).items():
            wanted = ticket.claim.amounts.get(resource, 0)
            used = usage.get((subject, resource), 0)
            if wanted > 0 and used + wanted > bound:
                found.append(Shortage(subject, resource, wanted, used, bound))
    return tuple(found)


def admit(tickets: Iterable[Ticket], spent: Usage) -> tuple[Ticket, ...]:
    """Return the waiting tickets that are to be granted now, in their order.

    ``tickets`` are all there are; ``spent`` is what earlier runs used up.
    """
    every = sorted(tickets, key=lambda each: (each.round, each.number))
    usage = usage_of(each.claim for each in every if each.held)
    usage.update(spent)
    closed: set[Account] = set()
    granted = []
    for ticket in every:
        if ticket.held:
            continue
        lacking = shortages(ticket, usage)
        if not lacking and closed.isdisjoint(_needed(ticket)):
            granted.append(ticket)
            _add(usage, ticket.claim)
        closed.update(each.account for each in lacking)
    return tuple(granted)


def _needed(ticket: Ticket) -> Iterable[Account]:
    for subject in ticket.claim.subjects:
        for resource, amount in ticket.claim.amounts.items():
            if amount > 0:
                yield subject, resource


def round_for(claim: Claim, tickets: Iterable[Ticket], current: int) -> int:
    """Return the round of a new ticket: after the last of its conversation, and not in the past."""
    own = [each.round for each in tickets if each.claim.turn_of == claim.turn_of]
    return max([current, *(each + 1 for each in own)])
