"""The rows of mounts, of writers that wait, and of layers that nothing needs any more."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Final

from sandboxrun.state.clock import timestamp
from sandboxrun.state.owner import Owner
from sandboxrun.workspace.rows import MountRow

_MOUNT: Final = "volume, workspace_id, snapshot_id, upper, run_id, owner, sealed, slot"
_UNNEEDED: Final = (
    "state <> 'doomed' AND NOT EXISTS (SELECT 1 FROM snapshot_layers AS s"
    " WHERE s.layer_id = layers.layer_id) AND NOT EXISTS (SELECT 1 FROM mount_layers AS m"
    " WHERE m.layer_id = layers.layer_id) AND NOT EXISTS (SELECT 1 FROM mounts AS w"
    " WHERE w.upper = layers.layer_id) AND NOT EXISTS (SELECT 1 FROM stores AS b"
    " WHERE b.base = layers.layer_id)"
)


def add_mount(tx: sqlite3.Connection, mount: MountRow, lowers: Iterable[str]) -> None:
    """Add a mount that is about to be made; it keeps its layers."""
    tx.execute(
        f"INSERT INTO mounts ({_MOUNT}, mounted_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608 - ours
        (
            mount.volume,
            mount.workspace_id,
            mount.snapshot_id,
            mount.upper,
            mount.run_id,
            str(mount.owner),
            int(mount.sealed),
            mount.slot,
            timestamp(),
        ),
    )
    tx.executemany(
        "INSERT INTO mount_layers (volume, position, layer_id) VALUES (?, ?, ?)",
        [(mount.volume, position, layer) for position, layer in enumerate(lowers)],
    )


def seal_mount(tx: sqlite3.Connection, volume: str) -> bool:
    """Note that the mount's upper layer has become what it will be; False when it had."""
    done = tx.execute("UPDATE mounts SET sealed = 1 WHERE volume = ? AND sealed = 0", (volume,))
    return done.rowcount == 1


def remove_mount(tx: sqlite3.Connection, volume: str) -> None:
    """Remove a mount whose volume is gone."""
    tx.execute("DELETE FROM mounts WHERE volume = ?", (volume,))


def lowers_of(tx: sqlite3.Connection, volume: str) -> tuple[str, ...]:
    """Return the frozen layers of a mount, the uppermost first."""
    rows = tx.execute(
        "SELECT layer_id FROM mount_layers WHERE volume = ? ORDER BY position", (volume,)
    )
    return tuple(layer for (layer,) in rows)


def list_mounts(tx: sqlite3.Connection, workspace_id: str | None = None) -> tuple[MountRow, ...]:
    """Return all mounts, or those of one workspace."""
    where, values = (" WHERE workspace_id = ?", (workspace_id,)) if workspace_id else ("", ())
    rows = tx.execute(f"SELECT {_MOUNT} FROM mounts{where}", values)  # noqa: S608 - ours
    return tuple(
        MountRow(volume, workspace, snapshot, upper, run, Owner.parse(owner), bool(sealed), slot)
        for volume, workspace, snapshot, upper, run, owner, sealed, slot in rows
    )


def in_use(tx: sqlite3.Connection, workspace_id: str) -> bool:
    """Whether a run has the workspace mounted, or waits to write it. Idle slots do not count."""
    mounted = "SELECT 1 FROM mounts WHERE workspace_id = ? AND (slot IS NULL OR run_id IS NOT NULL)"
    return any(
        tx.execute(query, (workspace_id,)).fetchone()
        for query in (mounted, "SELECT 1 FROM writers WHERE workspace_id = ?")
    )


def idle_slots(tx: sqlite3.Connection) -> tuple[Owner, ...]:
    """Return the owner of every slot that waits for a run, of all processes."""
    rows = tx.execute("SELECT owner FROM mounts WHERE slot IS NOT NULL AND run_id IS NULL")
    return tuple(Owner.parse(owner) for (owner,) in rows)


def adopt_mount(tx: sqlite3.Connection, mount: MountRow, run_id: str) -> bool:
    """Give an idle slot's mount to a run; False when its state is not the present one any more."""
    done = tx.execute(
        "UPDATE mounts SET run_id = ? WHERE volume = ? AND run_id IS NULL AND EXISTS (SELECT 1 FROM"
        " workspaces AS w WHERE w.workspace_id = mounts.workspace_id AND w.head = mounts.snapshot_id)",
        (run_id, mount.volume),
    )
    return done.rowcount == 1


def doom_layers(tx: sqlite3.Connection, store_id: str, among: Iterable[str] | None = None) -> None:
    """Mark the layers that no snapshot and no mount needs, so that they are removed.

    All sealed ones, for one that is being made is not needed yet; or those ``among`` given ones.
    """
    if among is None:
        sealed = "AND state = 'sealed'"
        tx.execute(
            f"UPDATE layers SET state = 'doomed', maker = NULL WHERE store_id = ? {sealed} AND {_UNNEEDED}",  # noqa: S608 - ours
            (store_id,),
        )
        return
    tx.executemany(
        f"UPDATE layers SET state = 'doomed', maker = NULL WHERE store_id = ? AND layer_id = ? AND {_UNNEEDED}",  # noqa: S608 - ours
        [(store_id, layer) for layer in among],
    )


def claim_doomed(tx: sqlite3.Connection, store_id: str, remover: Owner) -> tuple[str, ...]:
    """Return the layers that are to be removed and that nobody else removes at the moment."""
    rows = tx.execute(
        "UPDATE layers SET maker = ? WHERE state = 'doomed' AND maker IS NULL AND store_id = ?"
        " RETURNING layer_id",
        (str(remover), store_id),
    )
    return tuple(layer for (layer,) in rows.fetchall())


def claimed_layers(tx: sqlite3.Connection) -> tuple[tuple[str, Owner], ...]:
    """Return the layers somebody set out to remove, and who."""
    rows = tx.execute(
        "SELECT layer_id, maker FROM layers WHERE state = 'doomed' AND maker IS NOT NULL"
    )
    return tuple((layer, Owner.parse(maker)) for layer, maker in rows)


def release_claims(tx: sqlite3.Connection, layers: Iterable[str]) -> None:
    """Let somebody else remove these layers."""
    tx.executemany(
        "UPDATE layers SET maker = NULL WHERE layer_id = ? AND state = 'doomed'",
        [(layer,) for layer in layers],
    )


def open_layers(tx: sqlite3.Connection, store_id: str) -> tuple[tuple[str, Owner], ...]:
    """Return the layers that are being made or written, and by whom."""
    rows = tx.execute(
        "SELECT layer_id, maker FROM layers WHERE state = 'open' AND store_id = ?", (store_id,)
    )
    return tuple((layer, Owner.parse(maker)) for layer, maker in rows)


def forget_layers(tx: sqlite3.Connection, layers: Iterable[str]) -> None:
    """Remove the rows of layers that are gone."""
    tx.executemany(
        "DELETE FROM layers WHERE layer_id = ? AND state = 'doomed'",
        [(layer,) for layer in layers],
    )


def take_ticket(tx: sqlite3.Connection, workspace_id: str, owner: Owner) -> int:
    """Stand in line as a writer of a workspace."""
    done = tx.execute(
        "INSERT INTO writers (workspace_id, owner, asked_at) VALUES (?, ?, ?)",
        (workspace_id, str(owner), timestamp()),
    )
    return int(done.lastrowid or 0)


def has_writers(tx: sqlite3.Connection, workspace_id: str) -> bool:
    """Whether somebody writes a workspace, or waits to."""
    query = "SELECT 1 FROM writers WHERE workspace_id = ?"
    return tx.execute(query, (workspace_id,)).fetchone() is not None


def ahead_of(
    tx: sqlite3.Connection, workspace_id: str, ticket: int
) -> tuple[tuple[int, Owner], ...]:
    """Return the tickets before ``ticket`` and who holds them."""
    rows = tx.execute(
        "SELECT ticket, owner FROM writers WHERE workspace_id = ? AND ticket < ? ORDER BY ticket",
        (workspace_id, ticket),
    )
    return tuple((number, Owner.parse(owner)) for number, owner in rows)


def drop_tickets(tx: sqlite3.Connection, tickets: Iterable[int]) -> None:
    """Leave the line."""
    tx.executemany("DELETE FROM writers WHERE ticket = ?", [(each,) for each in tickets])


def tickets(tx: sqlite3.Connection) -> tuple[tuple[int, Owner], ...]:
    """Return all tickets and who holds them."""
    rows = tx.execute("SELECT ticket, owner FROM writers")
    return tuple((number, Owner.parse(owner)) for number, owner in rows)
