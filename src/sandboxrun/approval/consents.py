"""The tables of consents and of the workspaces' execution switches.

A consent is for one principal, one workspace and exactly the policies named by their digests.
``workspace`` is whatever identifies a workspace to the caller; where names are reused it must be
its id, so that a new workspace never inherits the consent of an old one.
"""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass

from sandboxrun.errors import UnknownWorkspaceError
from sandboxrun.model.ids import new_id
from sandboxrun.policy.authority import Authority, Consent, PolicyDigests
from sandboxrun.state.clock import timestamp
from sandboxrun.state.store import Store


@dataclass(frozen=True, slots=True)
class Consents:
    """Who accepted what."""

    store: Store

    async def give(
        self, *, principal: str, workspace: str, digests: PolicyDigests, given_by: str
    ) -> Consent:
        """Record a consent; it replaces the earlier one. Raises `StateError`.

        See `Store.write` for cancellation.
        """
        return await self.store.write(
            lambda tx: insert_consent(
                tx, principal=principal, workspace=workspace, digests=digests, given_by=given_by
            )
        )

    async def latest(self, *, principal: str, workspace: str) -> Consent | None:
        """Return the consent in force, whatever policies it is for. Cancellation leaves nothing."""
        return await self.store.read(lambda tx: _latest(tx, principal, workspace))

    async def revoke(self, *, principal: str, workspace: str) -> bool:
        """Take the consent back; False when there was none. See `Store.write` for cancellation."""

        def revoke(tx: sqlite3.Connection) -> bool:
            done = tx.execute(
                "UPDATE consents SET revoked_at = ?"
                " WHERE principal = ? AND workspace = ? AND revoked_at IS NULL",
                (timestamp(), principal, workspace),
            )
            return done.rowcount > 0

        return await self.store.write(revoke)

    async def set_access(self, workspace: str, *, allowed: bool, by: str) -> None:
        """Turn execution in a workspace on or off. See `Store.write` for cancellation."""
        await self.store.write(
            lambda tx: tx.execute(
                "INSERT INTO workspace_access (workspace, allowed, changed_by, changed_at)"
                " VALUES (?, ?, ?, ?) ON CONFLICT (workspace) DO UPDATE SET"
                " allowed = excluded.allowed, changed_by = excluded.changed_by,"
                " changed_at = excluded.changed_at",
                (workspace, int(allowed), by, timestamp()),
            )
        )

    async def authority(
        self, *, principal: str, workspace: str, conversation: str | None = None
    ) -> Authority:
        """Return in whose name a command would run: the switch and the consent, in one view.

        Cancellation leaves nothing.
        """

        def look(tx: sqlite3.Connection) -> Authority:
            return Authority(
                principal=principal,
                workspace=workspace,
                conversation=conversation,
                execution=_allowed(tx, workspace),
                consent=_latest(tx, principal, workspace),
            )

        return await self.store.read(look)


def insert_consent(
    tx: sqlite3.Connection,
    *,
    principal: str,
    workspace: str,
    digests: PolicyDigests,
    given_by: str,
) -> Consent:
    """Record a consent in place of the earlier one, inside a caller's transaction."""
    consent = Consent(
        consent_id=new_id("consent"),
        principal=principal,
        workspace=workspace,
        digests=digests,
        given_by=given_by,
        given_at=timestamp(),
    )
    tx.execute(
        "UPDATE consents SET revoked_at = ?"
        " WHERE principal = ? AND workspace = ? AND revoked_at IS NULL",
        (consent.given_at, principal, workspace),
    )
    tx.execute(
        "INSERT INTO consents (consent_id, principal, workspace, policy_digest, given_at, detail)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (
            consent.consent_id,
            principal,
            workspace,
            digests.combined(),
            consent.given_at,
            json.dumps({"given_by": given_by, "digests": digests.model_dump()}),
        ),
    )
    return consent


def forget_workspace(tx: sqlite3.Connection, workspace: str) -> None:
    """Drop consents, grants, switch and policy of a removed workspace, in a caller's transaction."""
    tx.execute("DELETE FROM consents WHERE workspace = ?", (workspace,))
    tx.execute("DELETE FROM grants WHERE workspace = ?", (workspace,))
    tx.execute("DELETE FROM workspace_access WHERE workspace = ?", (workspace,))
    tx.execute("DELETE FROM workspace_policies WHERE workspace = ?", (workspace,))


def _latest(tx: sqlite3.Connection, principal: str, workspace: str) -> Consent | None:
    row = tx.execute(
        "SELECT consent_id, given_at, detail FROM consents"
        " WHERE principal = ? AND workspace = ? AND revoked_at IS NULL"
        " ORDER BY given_at DESC, consent_id DESC LIMIT 1",
        (principal, workspace),
    ).fetchone()
    if row is None:
        return None
    consent_id, given_at, detail = row
    told = json.loads(detail)
    digests = PolicyDigests.model_validate(told["digests"])
    return Consent(consent_id, principal, workspace, digests, told["given_by"], given_at)


def _allowed(tx: sqlite3.Connection, workspace: str) -> bool:
    row = tx.execute(
        "SELECT allowed FROM workspace_access WHERE workspace = ?", (workspace,)
    ).fetchone()
    return row is None or bool(row[0])


async def workspace_names(store: Store) -> dict[str, str]:
    """Return the name of each workspace by what identifies it. Cancellation leaves nothing."""
    return await store.read(
        lambda tx: dict(
            tx.execute("SELECT workspace_id, name FROM workspaces WHERE name IS NOT NULL")
        )
    )


async def workspace_identity(store: Store, name: str) -> str:
    """Return what identifies the workspace called ``name``: its id, which is never reused.

    Raises `UnknownWorkspaceError`. Cancellation leaves nothing.
    """

    def look(tx: sqlite3.Connection) -> str | None:
        row = tx.execute("SELECT workspace_id FROM workspaces WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    found = await store.read(look)
    if found is None:
        raise UnknownWorkspaceError(f"There is no workspace {name!r}.")
    return found
