"""How a workspace's present state becomes a mount: for a run, or ahead of one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from sandboxrun.errors import UsageError, WorkspaceLostError
from sandboxrun.model import labels
from sandboxrun.model.ids import new_id
from sandboxrun.model.timings import Timings
from sandboxrun.model.workspace import Workspace
from sandboxrun.workspace import mount_rows, rows
from sandboxrun.workspace.line import Turn
from sandboxrun.workspace.rows import MountRow
from sandboxrun.workspace.session import Access, Session, put_away
from sandboxrun.workspace.shallow import keep_shallow
from sandboxrun.workspace.store import new_layer_id


@dataclass(frozen=True, slots=True)
class Holder:
    """Whom a mount is for."""

    run_id: str | None = None
    slot: str | None = None
    """A warm slot, whose run is not known yet."""


@dataclass(frozen=True, slots=True)
class Begun:
    """A mount whose row exists, with what it is to be made of."""

    workspace: Workspace
    mount: MountRow
    lowers: tuple[str, ...]


async def begin_writing(access: Access, workspace_id: str, holder: Holder) -> Begun:
    """Add the row of a writable mount. Only for who has the turn, or alone knows the workspace.

    Raises as `Workspaces.writer`. Cancelling leaves a row that the next holder or recovery ends.
    """
    await settle_leftovers(access, workspace_id)
    await keep_shallow(access, workspace_id)
    return await access.state.write(
        lambda tx: _begun(tx, access, workspace_id, holder, read_only=False), durable=False
    )


async def begin_reading(access: Access, workspace_id: str, holder: Holder) -> Begun:
    """Add the row of a read-only mount. Raises and leaves as `begin_writing`."""
    return await access.state.write(
        lambda tx: _begun(tx, access, workspace_id, holder, read_only=True), durable=False
    )


@asynccontextmanager
async def mounted(
    access: Access, begun: Begun, held: Turn | None, timings: Timings
) -> AsyncIterator[Session]:
    """Make what a mount row stands for, and put it away at the end.

    Raises `WorkspaceLostError`, `WorkspaceLimitError` and engine faults. Cancelling is the same
    as leaving.
    """
    session = Session(access, begun.workspace, begun.mount, begun.lowers, held, timings)
    try:
        with timings.stage("layer"):
            await _prepare(access, begun)
        with timings.stage("volume"):
            await access.layers.mount(
                begun.mount.volume, begun.lowers, begun.mount.upper, _tags(access, begun)
            )
        yield session
    finally:
        await session.close()


async def settle_leftovers(access: Access, workspace_id: str) -> None:
    """Whoever has the turn finds no writer's mount but of one that died or gave up."""
    mounts = await access.state.read(lambda tx: mount_rows.list_mounts(tx, workspace_id))
    for mount in mounts:
        if not mount.sealed and not mount.idle:
            await put_away(access, mount, sealed=False)


async def _prepare(access: Access, begun: Begun) -> None:
    await access.layers.require(begun.lowers)
    upper, below = begun.mount.upper, begun.lowers[0]
    await access.layers.use(lambda layers: layers.make(upper, like=below))


def _begun(
    tx: rows.Connection, access: Access, workspace_id: str, holder: Holder, *, read_only: bool
) -> Begun:
    workspace = _ours(tx, access, workspace_id)
    lowers, layer = rows.stack_of(tx, workspace.head), new_layer_id()
    rows.add_layer(tx, layer, access.layers.row.store_id, access.state.owner)
    mount = MountRow(
        volume=new_id("ws"),
        workspace_id=workspace_id,
        snapshot_id=workspace.head,
        upper=layer,
        run_id=holder.run_id,
        owner=access.state.owner,
        sealed=read_only,
        slot=holder.slot,
    )
    mount_rows.add_mount(tx, mount, lowers)
    return Begun(workspace, mount, lowers)


def _ours(tx: rows.Connection, access: Access, workspace_id: str) -> Workspace:
    workspace = rows.workspace_by_id(tx, workspace_id)
    if workspace is None:
        raise WorkspaceLostError("The workspace was removed meanwhile.")
    lost = rows.lost_volume_of(tx, workspace_id)
    if lost is not None:
        raise WorkspaceLostError(f"The volume {lost} of workspace {workspace.name!r} is gone.")
    if rows.store_of(tx, workspace_id) != access.layers.row.store_id:
        raise UsageError(
            f"Workspace {workspace.name!r} is on another engine.",
            advice="Name the engine it was created on with --engine.",
        )
    return workspace


def _tags(access: Access, begun: Begun) -> tuple[tuple[str, str], ...]:
    tags = (
        (labels.INSTALLATION, access.state.directory.installation_id),
        (labels.ROLE, labels.ROLE_MOUNT),
        (labels.OWNER, str(access.state.owner)),
        (labels.RUN, begun.mount.run_id or ""),
    )
    slot = begun.mount.slot
    return tags if slot is None else (*tags, (labels.SLOT, slot))
