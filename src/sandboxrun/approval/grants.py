"""The table of standing grants: each an 'always' of somebody, until it is revoked."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass

from sandboxrun.approval.question import Question
from sandboxrun.errors import UnknownApprovalError
from sandboxrun.model.ids import new_id
from sandboxrun.policy.grants import Grant
from sandboxrun.state.clock import timestamp
from sandboxrun.state.store import Store


@dataclass(frozen=True, slots=True)
class GrantRow:
    """A grant, and who gave it when. ``revoked_at`` is None while it holds."""

    grant: Grant
    given_by: str
    given_at: str
    revoked_at: str | None


@dataclass(frozen=True, slots=True)
class Grants:
    """The grants of all principals."""

    store: Store

    async def holding(self, *, principal: str, workspace: str | None) -> tuple[Grant, ...]:
        """Return the grants in force for a principal in a workspace, oldest first.

        Cancellation leaves nothing.
        """
        if workspace is None:
            return ()
        return await self.store.read(
            lambda tx: tuple(
                row.grant
                for row in _select(
                    tx,
                    "WHERE principal = ? AND workspace = ? AND revoked_at IS NULL",
                    (principal, workspace),
                )
            )
        )

    async def list(self, *, revoked: bool = False) -> tuple[GrantRow, ...]:
        """Return the grants in force, or all of them, oldest first. Cancellation leaves nothing."""
        clause = "" if revoked else "WHERE revoked_at IS NULL"
        return await self.store.read(lambda tx: tuple(_select(tx, clause, ())))

    async def revoke(self, grant_id: str) -> bool:
        """End a grant; False when it had ended before. A run that already started goes on.

        Raises `UnknownApprovalError`, `StateError`. See `Store.write` for cancellation.
        """

        def revoke(tx: sqlite3.Connection) -> bool:
            if (
                tx.execute("SELECT 1 FROM grants WHERE grant_id = ?", (grant_id,)).fetchone()
                is None
            ):
                raise UnknownApprovalError(f"There is no grant {grant_id!r}.")
            done = tx.execute(
                "UPDATE grants SET revoked_at = ? WHERE grant_id = ? AND revoked_at IS NULL",
                (timestamp(), grant_id),
            )
            return done.rowcount == 1

        return await self.store.write(revoke)


def insert_grant(tx: sqlite3.Connection, question: Question, *, given_by: str) -> str | None:
    """Give the grant a question offers, inside a caller's transaction; None when it offers none."""
    if question.always is None or question.workspace is None:
        return None
    grant = Grant(
        grant_id=new_id("grant"),
        principal=question.principal,
        workspace=question.workspace,
        pattern=question.always,
        lifts=frozenset(objection.key for objection in question.objections),
        env_names=question.obligations.env_names,
    )
    tx.execute(
        "INSERT INTO grants (grant_id, principal, workspace, given_by, given_at, detail)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (
            grant.grant_id,
            grant.principal,
            grant.workspace,
            given_by,
            timestamp(),
            grant.model_dump_json(include={"pattern", "lifts", "env_names"}),
        ),
    )
    return grant.grant_id


def grant_holds(tx: sqlite3.Connection, grant_id: str) -> bool:
    """Tell whether a grant is in force, inside a caller's transaction."""
    row = tx.execute(
        "SELECT 1 FROM grants WHERE grant_id = ? AND revoked_at IS NULL", (grant_id,)
    ).fetchone()
    return row is not None


def _select(tx: sqlite3.Connection, clause: str, values: tuple[str, ...]) -> list[GrantRow]:
    rows = tx.execute(
        "SELECT grant_id, principal, workspace, given_by, given_at, revoked_at, detail"  # noqa: S608 - clauses are ours, values are bound
        f" FROM grants {clause} ORDER BY given_at, grant_id",
        values,
    )
    return [_row(row) for row in rows]


def _row(row: tuple[str, ...]) -> GrantRow:
    grant_id, principal, workspace, given_by, given_at, revoked_at, detail = row
    told = {"grant_id": grant_id, "principal": principal, "workspace": workspace}
    grant = Grant.model_validate(told | json.loads(detail))
    return GrantRow(grant, given_by, given_at, revoked_at)
