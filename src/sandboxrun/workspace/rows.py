"""The rows of workspaces, snapshots, layers and mounts. Every function runs in a transaction.

A row comes before what it stands for and goes after it, so a process may die anywhere: what is on
the disk is always named by a row, and recovery knows what to do with it.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from sqlite3 import Connection as Connection  # noqa: PLC0414 - callers name it from here
from typing import Final

from sandboxrun.errors import UnknownSnapshotError, UnknownWorkspaceError, UsageError
from sandboxrun.model.text import escaped
from sandboxrun.model.uids import UID_COUNT, UID_FIRST
from sandboxrun.model.workspace import Snapshot, SnapshotCause, SnapshotState, Workspace
from sandboxrun.state.clock import timestamp
from sandboxrun.state.owner import Owner

_TRIES: Final = 64
_WORKSPACE: Final = "workspace_id, name, head, uid, mount_at, created_at"
_SNAPSHOT: Final = (
    "snapshot_id, workspace_id, parent, run_id, cause, state, created_at, (SELECT count(*) FROM"
    " snapshot_layers AS l WHERE l.snapshot_id = snapshots.snapshot_id)"
)


_LOST = " lost "
"""Stands in the engine's name of a store that was set aside."""
_MOUNTS_OF_STORE = (
    "DELETE FROM mounts WHERE upper IN (SELECT layer_id FROM layers WHERE store_id = ?)"
)


@dataclass(frozen=True, slots=True)
class StoreRow:
    """The volume that holds an installation's layers on one engine."""

    store_id: str
    """Written in the volume, too."""
    volume: str
    base: str
    """An empty layer below every stack: overlayfs wants two lower ones."""


@dataclass(frozen=True, slots=True)
class MountRow:
    """A stack that is mounted for a run."""

    volume: str
    workspace_id: str
    snapshot_id: str
    upper: str
    """The layer that is written. A reader has one, too: an engine may want to set the root's owner
    before it mounts read-only."""
    run_id: str | None
    """None: no run has been given it yet."""
    owner: Owner
    sealed: bool
    """Whether the upper layer is what it will be; a reader's is from the start."""
    slot: str | None = None
    """The warm slot it was made for."""

    @property
    def idle(self) -> bool:
        """Whether nothing was ever run on it."""
        return self.slot is not None and self.run_id is None


def find_store(tx: sqlite3.Connection, engine_id: str) -> StoreRow | None:
    """Return the store on an engine."""
    row = tx.execute(
        "SELECT store_id, volume, base FROM stores WHERE engine_id = ?", (engine_id,)
    ).fetchone()
    return None if row is None else StoreRow(*row)


def add_store(tx: sqlite3.Connection, engine_id: str, store: StoreRow, maker: Owner) -> StoreRow:
    """Add the store of an engine, or return the one another process has added."""
    found = find_store(tx, engine_id)
    if found is not None:
        return found
    tx.execute(
        "INSERT INTO stores (store_id, engine_id, volume, base, created_at) VALUES (?, ?, ?, ?, ?)",
        (store.store_id, engine_id, store.volume, store.base, timestamp()),
    )
    add_layer(tx, store.base, store.store_id, maker)
    seal_layer(tx, store.base, 0)
    return store


def set_store_aside(tx: sqlite3.Connection, engine_id: str, store_id: str) -> None:
    """Let an engine have a new store in place of one that is lost.

    The named workspaces in it stay listed, so that they are told to be lost and not unknown.
    """
    name = f"{engine_id}{_LOST}{store_id}"
    tx.execute("UPDATE stores SET engine_id = ? WHERE store_id = ?", (name, store_id))
    tx.execute("DELETE FROM workspaces WHERE store_id = ? AND name IS NULL", (store_id,))
    tx.execute(_MOUNTS_OF_STORE, (store_id,))


def lost_volume_of(tx: sqlite3.Connection, workspace_id: str) -> str | None:
    """Return the volume a workspace was lost with, or None where it is not lost."""
    row = tx.execute(
        "SELECT s.volume FROM stores AS s JOIN workspaces AS w USING (store_id)"
        " WHERE w.workspace_id = ? AND instr(s.engine_id, ?)",
        (workspace_id, _LOST),
    ).fetchone()
    return None if row is None else str(row[0])


def forget_lost_stores(tx: sqlite3.Connection) -> None:
    """Forget the stores that were set aside and that no workspace is in any more."""
    found = tx.execute("SELECT store_id FROM stores WHERE instr(engine_id, ?)", (_LOST,))
    for (store_id,) in found.fetchall():
        forget_store(tx, store_id)


def forget_store(tx: sqlite3.Connection, store_id: str) -> bool:
    """Forget a store that is lost and all that was in it; False while a workspace is in it."""
    kept = "SELECT 1 FROM workspaces WHERE store_id = ? AND name IS NOT NULL"
    if tx.execute(kept, (store_id,)).fetchone() is not None:
        return False
    for query in (
        "DELETE FROM workspaces WHERE store_id = ?",
        _MOUNTS_OF_STORE,
        (
            "DELETE FROM mounts WHERE volume IN (SELECT volume FROM mount_layers AS m"
            " JOIN layers AS l ON m.layer_id = l.layer_id WHERE l.store_id = ?)"
        ),
        "DELETE FROM layers WHERE store_id = ?",
        "DELETE FROM stores WHERE store_id = ?",
    ):
        tx.execute(query, (store_id,))
    return True


def free_uid(tx: sqlite3.Connection) -> int:
    """Return a uid that no workspace has, or any when the pool is used up."""
    for _ in range(_TRIES):
        uid = UID_FIRST + secrets.randbelow(UID_COUNT)
        if tx.execute("SELECT 1 FROM workspaces WHERE uid = ?", (uid,)).fetchone() is None:
            return uid
    return UID_FIRST + secrets.randbelow(UID_COUNT)


def add_layer(tx: sqlite3.Connection, layer: str, store_id: str, maker: Owner) -> None:
    """Add a layer that ``maker`` is about to make."""
    tx.execute(
        "INSERT INTO layers (layer_id, store_id, state, maker) VALUES (?, ?, 'open', ?)",
        (layer, store_id, str(maker)),
    )


def seal_layer(tx: sqlite3.Connection, layer: str, entries: int) -> None:
    """Note that nobody writes the layer any more; ``entries`` is how much it holds."""
    tx.execute(
        "UPDATE layers SET state = 'sealed', entries = ? WHERE layer_id = ?", (entries, layer)
    )


def add_workspace(
    tx: sqlite3.Connection, workspace: Workspace, store_id: str, owner: Owner | None
) -> None:
    """Add a workspace; ``owner`` is given for a throwaway one. Raises `UsageError`: name taken."""
    if workspace.name is not None and is_taken(tx, workspace.name):
        raise UsageError(
            f"Workspace {workspace.name!r} exists already.", advice="Choose another name."
        )
    tx.execute(
        f"INSERT INTO workspaces ({_WORKSPACE}, store_id, owner) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608 - ours
        (
            workspace.workspace_id,
            workspace.name,
            workspace.head,
            workspace.uid,
            workspace.mount_at,
            workspace.created_at,
            store_id,
            None if owner is None else str(owner),
        ),
    )


def find_workspace(tx: sqlite3.Connection, name: str) -> Workspace:
    """Return a workspace by name. Raises `UnknownWorkspaceError`."""
    row = tx.execute(f"SELECT {_WORKSPACE} FROM workspaces WHERE name = ?", (name,)).fetchone()  # noqa: S608 - ours
    if row is None:
        raise UnknownWorkspaceError(f"There is no workspace {escaped(name.encode())!r}.")
    return _workspace(row)


def workspace_by_id(tx: sqlite3.Connection, workspace_id: str) -> Workspace | None:
    """Return a workspace by its id, or None when it was removed."""
    row = tx.execute(
        f"SELECT {_WORKSPACE} FROM workspaces WHERE workspace_id = ?",  # noqa: S608 - ours
        (workspace_id,),
    ).fetchone()
    return None if row is None else _workspace(row)


def store_of(tx: sqlite3.Connection, workspace_id: str) -> str:
    """Return the id of the store a workspace is in."""
    row = tx.execute("SELECT store_id FROM workspaces WHERE workspace_id = ?", (workspace_id,))
    return str(row.fetchone()[0])


def list_workspaces(tx: sqlite3.Connection) -> tuple[Workspace, ...]:
    """Return all but throwaway ones, by name."""
    rows = tx.execute(f"SELECT {_WORKSPACE} FROM workspaces WHERE name IS NOT NULL ORDER BY name")  # noqa: S608 - ours
    return tuple(map(_workspace, rows))


def throwaways(tx: sqlite3.Connection) -> tuple[tuple[str, Owner], ...]:
    """Return the ids and owners of all throwaway workspaces."""
    rows = tx.execute("SELECT workspace_id, owner FROM workspaces WHERE name IS NULL")
    return tuple((each, Owner.parse(owner)) for each, owner in rows)


def remove_workspace(tx: sqlite3.Connection, workspace_id: str) -> None:
    """Remove a workspace and its snapshots; its layers go when nothing else needs them."""
    tx.execute("DELETE FROM workspaces WHERE workspace_id = ?", (workspace_id,))


def is_taken(tx: sqlite3.Connection, name: str) -> bool:
    """Whether a workspace has this name."""
    found = tx.execute("SELECT 1 FROM workspaces WHERE name = ?", (name,)).fetchone()
    return found is not None


def add_snapshot(
    tx: sqlite3.Connection, snapshot: Snapshot, stack: Iterable[str], effects: str | None = None
) -> None:
    """Add a snapshot of ``stack``, the uppermost layer first. ``effects`` is JSON."""
    tx.execute(
        "INSERT INTO snapshots (snapshot_id, workspace_id, parent, run_id, cause, state,"
        " created_at, effects) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            snapshot.snapshot_id,
            snapshot.workspace_id,
            snapshot.parent,
            snapshot.run_id,
            snapshot.cause,
            snapshot.state,
            snapshot.created_at,
            effects,
        ),
    )
    set_stack(tx, snapshot.snapshot_id, stack)


def set_stack(tx: sqlite3.Connection, snapshot_id: str, stack: Iterable[str]) -> None:
    """Say which layers a snapshot is made of."""
    tx.execute("DELETE FROM snapshot_layers WHERE snapshot_id = ?", (snapshot_id,))
    tx.executemany(
        "INSERT INTO snapshot_layers (snapshot_id, position, layer_id) VALUES (?, ?, ?)",
        [(snapshot_id, position, layer) for position, layer in enumerate(stack)],
    )


def stack_of(tx: sqlite3.Connection, snapshot_id: str) -> tuple[str, ...]:
    """Return a snapshot's layers, the uppermost first."""
    rows = tx.execute(
        "SELECT layer_id FROM snapshot_layers WHERE snapshot_id = ? ORDER BY position",
        (snapshot_id,),
    )
    return tuple(layer for (layer,) in rows)


def stack_of_head(tx: sqlite3.Connection, workspace_id: str) -> tuple[str, ...]:
    """Return the layers of a workspace's present state, the uppermost first."""
    rows = tx.execute(
        "SELECT layer_id FROM snapshot_layers WHERE snapshot_id = (SELECT head FROM workspaces"
        " WHERE workspace_id = ?) ORDER BY position",
        (workspace_id,),
    )
    return tuple(layer for (layer,) in rows)


def sizes_of(tx: sqlite3.Connection, stack: tuple[str, ...]) -> tuple[int, ...]:
    """Return how many entries each layer holds."""
    query = "SELECT entries FROM layers WHERE layer_id = ?"
    return tuple(int(tx.execute(query, (layer,)).fetchone()[0]) for layer in stack)


def find_snapshot(tx: sqlite3.Connection, workspace_id: str, snapshot_id: str) -> Snapshot:
    """Return one snapshot of a workspace. Raises `UnknownSnapshotError`."""
    row = tx.execute(
        f"SELECT {_SNAPSHOT} FROM snapshots WHERE workspace_id = ? AND snapshot_id = ?",  # noqa: S608 - ours
        (workspace_id, snapshot_id),
    ).fetchone()
    if row is None:
        raise UnknownSnapshotError(
            f"The workspace has no snapshot {escaped(snapshot_id.encode())!r}."
        )
    return _snapshot(row)


def list_snapshots(tx: sqlite3.Connection, workspace_id: str) -> tuple[Snapshot, ...]:
    """Return a workspace's snapshots, oldest first."""
    rows = tx.execute(
        f"SELECT {_SNAPSHOT} FROM snapshots WHERE workspace_id = ? ORDER BY seq",  # noqa: S608 - ours
        (workspace_id,),
    )
    return tuple(map(_snapshot, rows))


def move_head(tx: sqlite3.Connection, workspace_id: str, snapshot_id: str) -> None:
    """Make a snapshot the one the next run starts from."""
    tx.execute("UPDATE workspaces SET head = ? WHERE workspace_id = ?", (snapshot_id, workspace_id))


def last_committed(tx: sqlite3.Connection) -> int | None:
    """Return the number of the newest snapshot that is not durable yet."""
    row = tx.execute("SELECT max(seq) FROM snapshots WHERE state = 'committed'").fetchone()
    return None if row[0] is None else int(row[0])


def make_durable(tx: sqlite3.Connection, up_to: int) -> int:
    """Mark all snapshots up to a number as durable; return how many."""
    done = tx.execute(
        "UPDATE snapshots SET state = 'durable' WHERE state = 'committed' AND seq <= ?", (up_to,)
    )
    return done.rowcount


def new_snapshot(
    snapshot_id: str,
    workspace_id: str,
    cause: SnapshotCause,
    *,
    parent: str | None,
    run_id: str | None = None,
) -> Snapshot:
    """Return a committed snapshot of now."""
    return Snapshot(
        snapshot_id=snapshot_id,
        workspace_id=workspace_id,
        parent=parent,
        run_id=run_id,
        cause=cause,
        state=SnapshotState.COMMITTED,
        created_at=timestamp(),
        depth=0,
    )


def _workspace(row: tuple[str, str | None, str, int, str, str]) -> Workspace:
    workspace_id, name, head, uid, mount_at, created_at = row
    return Workspace(
        workspace_id=workspace_id,
        name=name,
        head=head,
        uid=uid,
        mount_at=mount_at,
        created_at=created_at,
    )


def _snapshot(row: tuple[str, str, str | None, str | None, str, str, str, int]) -> Snapshot:
    snapshot_id, workspace_id, parent, run_id, cause, state, created_at, depth = row
    return Snapshot(
        snapshot_id=snapshot_id,
        workspace_id=workspace_id,
        parent=parent,
        run_id=run_id,
        cause=SnapshotCause(cause),
        state=SnapshotState(state),
        created_at=created_at,
        depth=depth,
    )
