"""After a crash: keep what interrupted runs wrote, and remove what nobody needs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import anyio.to_thread

from sandboxrun.errors import EngineError, WorkspaceLostError
from sandboxrun.model import labels
from sandboxrun.state.owner import Owner
from sandboxrun.workspace import mount_rows, rows
from sandboxrun.workspace.session import Access, put_away, remove_doomed


@dataclass(frozen=True, slots=True)
class RecoveredWorkspaces:
    """What a recovery did."""

    mounts: int
    """Mounts of dead owners that were put away, their writes kept as snapshots."""
    layers: int
    """Layers that were removed because nothing needs them."""
    left: int
    """Mounts the engine still holds; the next recovery tries again."""


async def recover_workspaces(access: Access) -> RecoveredWorkspaces:
    """Finish what dead processes left. Nothing of a living one is touched.

    One process at a time should do it (`sandboxrun.state.leases`). Raises `StateError`; what the
    engine refuses is left for the next time. Cancelling leaves the rest to the next recovery.
    """
    state = access.state
    done = left = 0
    for mount in await state.read(mount_rows.list_mounts):
        if mount.owner in await _dead((mount.owner,)):
            put = await _put_away(access, mount)
            done, left = done + put, left + (not put)
    await _drop_tickets(access)
    await _release_claims(access)
    await _remove_throwaways(access)
    await _remove_volumes(access)
    try:
        removed = await remove_doomed(access)
    except WorkspaceLostError:
        removed = 0
    return RecoveredWorkspaces(done, removed, left)


async def _put_away(access: Access, mount: rows.MountRow) -> bool:
    try:
        return await put_away(access, mount, sealed=mount.sealed)
    except (EngineError, WorkspaceLostError):
        # Its rows stay. A lost store cannot be mended here, and other workspaces may be well.
        return False


async def _drop_tickets(access: Access) -> None:
    held = await access.state.read(mount_rows.tickets)
    dead = await _dead(owner for _, owner in held)
    gone = tuple(ticket for ticket, owner in held if owner in dead)
    await access.state.write(lambda tx: mount_rows.drop_tickets(tx, gone), durable=False)


async def _release_claims(access: Access) -> None:
    claimed = await access.state.read(mount_rows.claimed_layers)
    dead = await _dead(owner for _, owner in claimed)
    free = [layer for layer, owner in claimed if owner in dead]
    await access.state.write(lambda tx: mount_rows.release_claims(tx, free), durable=False)


async def _remove_throwaways(access: Access) -> None:
    """Those of dead owners, and the layers that were being made for a workspace."""
    store_id = access.layers.row.store_id
    found = await access.state.read(rows.throwaways)
    made = await access.state.read(lambda tx: mount_rows.open_layers(tx, store_id))
    dead = await _dead(owner for _, owner in (*found, *made))

    def remove(tx: rows.Connection) -> None:
        for each, owner in found:
            if owner in dead:
                rows.remove_workspace(tx, each)
        unfinished = [layer for layer, maker in made if maker in dead]
        mount_rows.doom_layers(tx, store_id, unfinished)
        mount_rows.doom_layers(tx, store_id)

    await access.state.write(remove, durable=False)


async def _remove_volumes(access: Access) -> None:
    """Mount volumes that no row names any more: their row went, the engine's answer was lost."""
    wanted = {
        labels.INSTALLATION: access.state.directory.installation_id,
        labels.ROLE: labels.ROLE_MOUNT,
    }
    known = {mount.volume for mount in await access.state.read(mount_rows.list_mounts)}
    for volume in await access.engine.list_volumes(wanted):
        if volume.name in known:
            continue
        try:
            owner = Owner.parse(volume.labels.get(labels.OWNER, ""))
        except ValueError:
            continue
        if owner in await _dead((owner,)):
            await access.engine.remove_volume(volume.name)


async def _dead(owners: Iterable[Owner]) -> frozenset[Owner]:
    asked = frozenset(owners)
    return await anyio.to_thread.run_sync(
        lambda: frozenset(owner for owner in asked if not owner.is_alive())
    )
