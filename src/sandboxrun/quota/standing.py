"""The ledger as people read it."""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from dataclasses import dataclass

from sandboxrun.model.quotas import Quotas
from sandboxrun.quota import rows
from sandboxrun.quota.admission import Account, usage_of
from sandboxrun.quota.bounds import bounds_of
from sandboxrun.quota.claim import HOST, Resource, Scope
from sandboxrun.state.store import Store


@dataclass(frozen=True, slots=True)
class Line:
    """One account's use of one resource, in the unit of `Resource`."""

    account: str
    principal: str | None
    """Whose conversation it is."""
    name: str | None
    resource: Resource
    used: int
    bound: int | None
    """None: not bounded."""
    waiting: int
    """Runs on this account that are in the ledger and not granted."""


async def standing_of(store: Store, quotas: Quotas) -> tuple[Line, ...]:
    """Return what is in use or bounded, the widest accounts first.

    Raises `StateError`. Cancelling leaves nothing.
    """
    return await store.read(lambda tx: _lines(tx, quotas))


def _lines(tx: sqlite3.Connection, quotas: Quotas) -> tuple[Line, ...]:
    tickets = [each.ticket for each in rows.rows(tx)]
    since = time.time() - quotas.window_seconds
    usage = usage_of(each.claim for each in tickets if each.held)
    for subject in rows.spenders(tx):
        usage[subject, Resource.SECONDS] += rows.spent(tx, subject, since=since)
    bounds = _bounds(quotas)
    waiting: Counter[Account] = Counter()
    for ticket in tickets:
        for subject in ticket.claim.subjects:
            for resource, bound in ticket.bounds.get(subject.scope, {}).items():
                bounds[subject, resource] = bound
            for resource in Resource:
                waiting[subject, resource] += not ticket.held
    order = list(Scope)
    accounts = sorted(
        {each for each in (*usage, *bounds, *waiting) if usage[each] or waiting[each]}
        | {(HOST, each) for each in Resource},
        key=lambda each: (order.index(each[0].scope), each[0], list(Resource).index(each[1])),
    )
    return tuple(
        Line(
            account=subject.scope.value,
            principal=subject.principal or None,
            name=subject.name or None,
            resource=resource,
            used=usage[subject, resource],
            bound=bounds.get((subject, resource)),
            waiting=waiting[subject, resource],
        )
        for subject, resource in accounts
        if resource is not Resource.WRITERS
    )


def _bounds(quotas: Quotas) -> dict[Account, int]:
    return {(HOST, resource): bound for resource, bound in bounds_of(quotas)[Scope.HOST].items()}
