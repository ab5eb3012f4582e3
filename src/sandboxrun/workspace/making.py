"""How workspaces come to be: from nothing, a directory, an image, or another workspace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sandboxrun.engine.never_started import never_started
from sandboxrun.engine.protocol import Engine
from sandboxrun.errors import ImageUnusableError, UsageError
from sandboxrun.model import labels
from sandboxrun.model.ids import new_id
from sandboxrun.model.limits import MIB
from sandboxrun.model.workspace import SnapshotCause, Workspace
from sandboxrun.state.clock import timestamp
from sandboxrun.workspace import mount_rows, rows
from sandboxrun.workspace.seed import Seed, from_archive, plant
from sandboxrun.workspace.session import Access, remove_doomed
from sandboxrun.workspace.store import new_layer_id

ROOT_UID: Final = 0
IMAGE_BYTES: Final = 2048 * MIB
"""The largest directory of an image a workspace can start with; it passes through memory."""


async def make_workspace(
    access: Access,
    name: str | None,
    seed: Seed | None,
    *,
    mount_at: str,
    as_root: bool,
    created: Callable[[rows.Connection, str], None],
) -> Workspace:
    """Make a workspace, or a throwaway one when ``name`` is None.

    ``created`` is called in the transaction that adds it. Raises as `Workspaces.create`.
    Cancelling leaves nothing but a layer that recovery removes.
    """
    layer, row = new_layer_id(), access.layers.row
    owner = access.state.owner

    def reserve(tx: rows.Connection) -> int:
        rows.add_layer(tx, layer, row.store_id, owner)
        return ROOT_UID if as_root else rows.free_uid(tx)

    uid = await access.state.write(reserve, durable=False)
    await access.layers.require(())
    entries = await access.layers.use(lambda layers: plant(layers, layer, uid, seed))
    workspace = Workspace(
        workspace_id=new_id("ws"),
        name=name,
        head=new_id("snap"),
        uid=uid,
        mount_at=mount_at,
        created_at=timestamp(),
    )

    def add(tx: rows.Connection) -> None:
        rows.seal_layer(tx, layer, entries)
        rows.add_workspace(tx, workspace, row.store_id, owner if name is None else None)
        if name is not None:
            created(tx, workspace.workspace_id)
        first = rows.new_snapshot(
            workspace.head, workspace.workspace_id, SnapshotCause.CREATED, parent=None
        )
        rows.add_snapshot(tx, first, (layer, row.base))

    await access.state.write(add, durable=name is not None)
    return workspace


def fork_workspace(tx: rows.Connection, name: str, new: str, at: str | None) -> Workspace:
    """Add a workspace ``new`` with the present state of ``name``, or its snapshot ``at``.

    Raises `UnknownWorkspaceError`, `UnknownSnapshotError`, and `UsageError` for a taken name.
    """
    source = rows.find_workspace(tx, name)
    parent = source.head if at is None else at
    rows.find_snapshot(tx, source.workspace_id, parent)
    workspace_id, snapshot_id = new_id("ws"), new_id("snap")
    workspace = source.model_copy(
        update={
            "workspace_id": workspace_id,
            "name": new,
            "head": snapshot_id,
            "created_at": timestamp(),
        }
    )
    rows.add_workspace(tx, workspace, rows.store_of(tx, source.workspace_id), None)
    forked = rows.new_snapshot(snapshot_id, workspace_id, SnapshotCause.FORKED, parent=parent)
    rows.add_snapshot(tx, forked, rows.stack_of(tx, parent))
    return workspace


async def discard_workspace(access: Access, workspace_id: str) -> None:
    """Remove a throwaway workspace and its layers. Cancelling leaves the layers to recovery."""

    def discard(tx: rows.Connection) -> None:
        stack = rows.stack_of_head(tx, workspace_id)
        rows.remove_workspace(tx, workspace_id)
        mount_rows.doom_layers(tx, access.layers.row.store_id, stack)

    await access.state.write(discard, durable=False)
    await remove_doomed(access)


async def seed_from_image(engine: Engine, reference: str, path: str, *, installation: str) -> Seed:
    """Return the seed of a directory inside an image; nothing of the image is run.

    Raises `ImageUnusableError` for an image the engine has not, `UsageError` when the image has no
    such directory, and engine faults, also for one larger than `IMAGE_BYTES`. Cancelling leaves
    nothing.
    """
    image = await engine.inspect_image(reference)
    if image is None:
        raise ImageUnusableError(f"The engine has no image {reference!r}.")
    tags = ((labels.INSTALLATION, installation), (labels.ROLE, labels.ROLE_LOOK))
    async with never_started(engine, image, labels=tags) as container:
        archive = await engine.get_archive(container, path, limit_bytes=IMAGE_BYTES)
    if archive is None:
        raise UsageError(
            f"The image has no {path!r}.", advice="Name a directory that exists in the image."
        )
    return from_archive(archive)
