"""The policy of a workspace: a text that was checked when it was attached, and its document."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from functools import lru_cache

from sandboxrun.policy.document import Document
from sandboxrun.policy.load import parse_policy
from sandboxrun.state.clock import timestamp
from sandboxrun.state.store import Store


@dataclass(frozen=True, slots=True)
class WorkspacePolicies:
    """Which workspace has which policy. One without has only the host's."""

    store: Store

    async def attach(self, workspace: str, text: str, *, by: str) -> Document:
        """Give a workspace a policy in place of the one it has; it must be consented to anew.

        The examples of its rules are the caller's to check. Raises `PolicyError`, `StateError`.
        See `Store.write` for cancellation.
        """
        document = _parsed(text)

        def write(tx: sqlite3.Connection) -> None:
            tx.execute(
                "INSERT INTO workspace_policies (workspace, document, attached_by, attached_at)"
                " VALUES (?, ?, ?, ?) ON CONFLICT (workspace) DO UPDATE SET"
                " document = excluded.document, attached_by = excluded.attached_by,"
                " attached_at = excluded.attached_at",
                (workspace, text, by, timestamp()),
            )

        await self.store.write(write)
        return document

    async def detach(self, workspace: str) -> bool:
        """Leave a workspace with the host's policy only; False when it had no other.

        See `Store.write` for cancellation.
        """

        def write(tx: sqlite3.Connection) -> bool:
            done = tx.execute("DELETE FROM workspace_policies WHERE workspace = ?", (workspace,))
            return done.rowcount == 1

        return await self.store.write(write)

    async def get(self, workspace: str) -> Document | None:
        """Return the policy of a workspace, None for one that has none.

        Raises `PolicyError` when what is stored is no policy any more: nothing may run then.
        Cancellation leaves nothing.
        """
        return await self.store.read(lambda tx: policy_of(tx, workspace))


def inherit_restrictions(tx: sqlite3.Connection, *, parent: str, child: str) -> None:
    """Give a fork the policy and the switch of what it was forked from, in a caller's transaction.

    Grants stay behind: a yes was for the workspace it was said in.
    """
    tx.execute(
        "INSERT OR REPLACE INTO workspace_policies (workspace, document, attached_by, attached_at)"
        " SELECT ?, document, attached_by, attached_at FROM workspace_policies WHERE workspace = ?",
        (child, parent),
    )
    tx.execute(
        "INSERT OR REPLACE INTO workspace_access (workspace, allowed, changed_by, changed_at)"
        " SELECT ?, allowed, changed_by, changed_at FROM workspace_access WHERE workspace = ?",
        (child, parent),
    )


def policy_of(tx: sqlite3.Connection, workspace: str) -> Document | None:
    """Return the policy of a workspace, inside a caller's transaction. Raises `PolicyError`."""
    text = _text(tx, workspace)
    return None if text is None else _parsed(text)


def _text(tx: sqlite3.Connection, workspace: str) -> str | None:
    row = tx.execute(
        "SELECT document FROM workspace_policies WHERE workspace = ?", (workspace,)
    ).fetchone()
    return None if row is None else str(row[0])


@lru_cache(maxsize=64)
def _parsed(text: str) -> Document:
    return parse_policy(text, source="the workspace's policy")
