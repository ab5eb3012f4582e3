"""The ledger's rows. Everything here runs inside a caller's transaction."""

from __future__ import annotations

import json
import sqlite3
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from sandboxrun.errors import StateError
from sandboxrun.quota.admission import Account, admit, round_for
from sandboxrun.quota.claim import HOST, Bounds, Claim, Resource, Scope, Subject, Ticket
from sandboxrun.state.owner import Owner

_TICKET: Final = (
    "ticket, round, run_id, principal, conversation, workspace, amounts, bounds, held, owner"
)
_WHOSE: Final = {
    Scope.HOST: "1",
    Scope.PRINCIPAL: "principal = :name",
    Scope.CONVERSATION: "principal = :principal AND conversation = :name",
    Scope.WORKSPACE: "workspace = :name",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One ticket and the process it belongs to."""

    ticket: Ticket
    owner: Owner


def add(tx: sqlite3.Connection, claim: Claim, bounds: Bounds, owner: Owner) -> None:
    """Stand in line."""
    current = tx.execute("SELECT round FROM quota_round").fetchone()[0]
    mine = [each.ticket for each in rows(tx) if each.ticket.claim.turn_of == claim.turn_of]
    tx.execute(
        "INSERT INTO quota_tickets (round, run_id, principal, conversation, workspace, amounts,"
        " bounds, owner) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            round_for(claim, mine, current),
            claim.run_id,
            claim.principal,
            claim.conversation,
            claim.workspace,
            json.dumps(claim.amounts),
            json.dumps(bounds, sort_keys=True),
            str(owner),
        ),
    )


def rows(tx: sqlite3.Connection) -> tuple[Row, ...]:
    """Return all tickets. Raises `StateError` for rows that were changed by somebody else."""
    known: dict[str, Bounds] = {}
    found = tx.execute(f"SELECT {_TICKET} FROM quota_tickets ORDER BY ticket")  # noqa: S608 - ours
    try:
        return tuple(_row(each, known) for each in found)
    except (ValueError, AttributeError, TypeError) as error:
        raise StateError(f"The ledger of quotas was changed: {error}.") from error


def _row(row: tuple[object, ...], known: dict[str, Bounds]) -> Row:
    number, turn, run_id, principal, conversation, workspace, amounts, bounds, held, owner = row
    text = str(bounds)
    if text not in known:
        known[text] = {Scope(scope): _amounts(each) for scope, each in json.loads(text).items()}
    claim = Claim(
        run_id=str(run_id),
        principal=str(principal),
        conversation=None if conversation is None else str(conversation),
        workspace=None if workspace is None else str(workspace),
        amounts=_amounts(json.loads(str(amounts))),
    )
    ticket = Ticket(int(str(number)), int(str(turn)), claim, known[text], bool(held))
    return Row(ticket, Owner.parse(str(owner)))


def _amounts(document: dict[str, int]) -> dict[Resource, int]:
    return {Resource(name): int(amount) for name, amount in document.items()}


def grant(tx: sqlite3.Connection, *, since: float) -> tuple[str, ...]:
    """Grant whatever fits now, whoever waits for it; return the runs it was granted to.

    Time spent before ``since`` (seconds of the wall clock) no longer counts.
    """
    tickets = [each.ticket for each in rows(tx)]
    waiting = [each for each in tickets if not each.held]
    if not waiting:
        return ()
    granted = admit(tickets, spent_by(tx, waiting, since=since))
    tx.executemany(
        "UPDATE quota_tickets SET held = 1 WHERE ticket = ?", [(each.number,) for each in granted]
    )
    if granted:
        latest = max(each.round for each in granted)
        tx.execute("UPDATE quota_round SET round = max(round, ?)", (latest,))
    return tuple(each.claim.run_id for each in granted)


def drop(tx: sqlite3.Connection, run_ids: Iterable[str]) -> None:
    """Give back what these runs held, or their places in the line."""
    tx.executemany("DELETE FROM quota_tickets WHERE run_id = ?", [(each,) for each in run_ids])


def held_of(tx: sqlite3.Connection, owner: Owner) -> frozenset[str]:
    """Return the runs of one process whose tickets are granted."""
    found = tx.execute(
        "SELECT run_id FROM quota_tickets WHERE held = 1 AND owner = ?", (str(owner),)
    )
    return frozenset(run_id for (run_id,) in found)


def spend(tx: sqlite3.Connection, claim: Claim, milliseconds: int, *, since: float) -> None:
    """Note the time a run took, and forget what was before ``since``."""
    now = time.time()
    # What seems to be from the future was written before the clock was set back.
    tx.execute("UPDATE quota_spent SET at = ? WHERE at > ?", (now, now))
    tx.execute("DELETE FROM quota_spent WHERE at < ?", (since,))
    tx.execute(
        "INSERT INTO quota_spent (principal, conversation, workspace, milliseconds, at)"
        " VALUES (?, ?, ?, ?, ?)",
        (claim.principal, claim.conversation, claim.workspace, milliseconds, now),
    )


def spent_by(
    tx: sqlite3.Connection, tickets: Sequence[Ticket], *, since: float
) -> Counter[Account]:
    """Return the time that was used up on the accounts these tickets have bounds for."""
    wanted = {
        subject
        for each in tickets
        for subject in each.claim.subjects
        if Resource.SECONDS in each.bounds.get(subject.scope, {})
    }
    return Counter({(each, Resource.SECONDS): spent(tx, each, since=since) for each in wanted})


def spent(tx: sqlite3.Connection, subject: Subject, *, since: float) -> int:
    """Return the milliseconds that count on one account."""
    whose = _WHOSE[subject.scope]
    query = f"SELECT coalesce(sum(milliseconds), 0) FROM quota_spent WHERE at >= :since AND {whose}"  # noqa: S608 - ours
    values = {"name": subject.name, "principal": subject.principal, "since": since}
    return int(tx.execute(query, values).fetchone()[0])


def spenders(tx: sqlite3.Connection) -> frozenset[Subject]:
    """Return every account time was spent on."""
    found = tx.execute("SELECT DISTINCT principal, conversation, workspace FROM quota_spent")
    accounts = {HOST}
    for principal, conversation, workspace in found:
        claim = Claim(
            run_id="",
            principal=principal,
            conversation=conversation,
            workspace=workspace,
            amounts={},
        )
        accounts.update(claim.subjects)
    return frozenset(accounts)
