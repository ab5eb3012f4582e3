"""One run's use of a workspace: a stack that is mounted, sealed and put away."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

import anyio

from sandboxrun.engine.protocol import Engine
from sandboxrun.errors import EngineError, StateError, WorkspaceLostError
from sandboxrun.model import labels
from sandboxrun.model.effects import Effects
from sandboxrun.model.ids import new_id
from sandboxrun.model.timings import Timings
from sandboxrun.model.workspace import SnapshotCause, Workspace
from sandboxrun.state.store import Store
from sandboxrun.workspace import mount_rows, rows
from sandboxrun.workspace.effects import effects_between
from sandboxrun.workspace.layers import Layers
from sandboxrun.workspace.line import Line, Turn
from sandboxrun.workspace.rows import MountRow
from sandboxrun.workspace.store import LayerStore

CLOSE_SECONDS = 30.0
"""How long putting a mount away may take; recovery does the rest."""
_REMOVE_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Sealed:
    """What a run left."""

    snapshot_after: str | None
    """None: nothing changed, or the workspace is a throwaway one."""
    effects: Effects


@dataclass(frozen=True, slots=True)
class Access:
    """What all sessions share."""

    engine: Engine
    state: Store
    layers: LayerStore
    line: Line


class Session:
    """A mounted stack. Made and put away by `Workspaces`."""

    def __init__(
        self,
        access: Access,
        workspace: Workspace,
        mount: MountRow,
        lowers: tuple[str, ...],
        turn: Turn | None,
        timings: Timings,
    ) -> None:
        self.workspace = workspace
        self.snapshot_before = None if workspace.name is None else mount.snapshot_id
        """The state the run starts from; None for a throwaway workspace."""
        self._access = access
        self._mount = mount
        self._lowers = lowers
        self._turn = turn
        self._timings = timings
        self._sealed: Sealed | None = None
        self._lingers = False

    async def adopt(self, run_id: str) -> bool:
        """Give a mount that was made ready ahead of time to a run, and with it the turn to write.

        False when that cannot be done at once: the workspace has moved on since, or somebody else
        writes it. Raises `StateError`. Cancelling leaves it adopted or not; leaving the session
        gives back what was taken.
        """
        access, mount = self._access, self._mount
        writes = not mount.sealed and self.workspace.name is not None

        def adopt(tx: rows.Connection) -> Turn | None:
            if writes and mount_rows.has_writers(tx, mount.workspace_id):
                return None
            if not mount_rows.adopt_mount(tx, mount, run_id):
                return None
            owner = access.state.owner
            return Turn(mount_rows.take_ticket(tx, mount.workspace_id, owner) if writes else None)

        with self._timings.stage("layer"):
            turn = await access.state.write(adopt, durable=False)
        if turn is None:
            return False
        self._mount = replace(mount, run_id=run_id)
        if writes:
            self._turn, self._lingers = turn, True
        return True

    @property
    def volume(self) -> str:
        """Name of the volume to mount at `mount_at`."""
        return self._mount.volume

    @property
    def uid(self) -> int:
        """User and group to run as."""
        return self.workspace.uid

    @property
    def mount_at(self) -> str:
        """Where the workspace is in the container."""
        return self.workspace.mount_at

    @property
    def read_only(self) -> bool:
        """Whether it is the frozen stack."""
        return self._mount.sealed

    async def seal(self) -> Sealed:
        """Make what the run wrote a snapshot, if it changed anything, and let the next writer go.

        Only for when the engine has confirmed that the container has ended. Cancelling leaves it
        unsealed: leaving the session then seals it as interrupted. A second call returns the same.
        """
        if self._sealed is None:
            with self._timings.stage("commit"):
                self._sealed = await seal(
                    self._access, self._mount, self._lowers, SnapshotCause.RUN, self._turn
                )
            if self._turn is not None:
                self._turn.left = True
                self._access.line.announce()
        return self._sealed

    async def close(self) -> None:
        """Remove the mount. What was not sealed becomes a snapshot of an interrupted run.

        Shielded and bounded; what cannot be done now is done by recovery.
        """
        with anyio.move_on_after(CLOSE_SECONDS, shield=True):
            try:
                # Where it cannot be done the rows stay, and recovery starts from them.
                with suppress(EngineError, StateError, WorkspaceLostError):
                    await put_away(self._access, self._mount, sealed=self._sealed is not None)
            finally:
                if self._lingers and self._turn is not None:
                    await self._access.line.leave(self._turn)


async def seal(
    access: Access,
    mount: MountRow,
    lowers: tuple[str, ...],
    cause: SnapshotCause,
    turn: Turn | None = None,
) -> Sealed:
    """Freeze a mount's upper layer; commit it as the workspace's new state if it changed anything.

    Raises `WorkspaceLostError` and `StateError`. Cancelling leaves it as it was or done.
    """
    upper = mount.upper
    if mount.sealed:
        return Sealed(None, Effects())
    effects = await access.layers.look(lambda look: effects_between(look, lowers, (upper, *lowers)))
    snapshot = rows.new_snapshot(
        new_id("snap"),
        mount.workspace_id,
        cause,
        parent=mount.snapshot_id,
        run_id=mount.run_id,
    )

    def commit(tx: rows.Connection) -> bool:
        workspace = rows.workspace_by_id(tx, mount.workspace_id)
        kept = not effects.nothing and workspace is not None and workspace.name is not None
        kept = mount_rows.seal_mount(tx, mount.volume) and kept
        if kept:
            rows.seal_layer(tx, upper, count_of(effects))
            rows.add_snapshot(tx, snapshot, (upper, *lowers), effects.model_dump_json())
            rows.move_head(tx, mount.workspace_id, snapshot.snapshot_id)
        if turn is not None and turn.ticket is not None:
            mount_rows.drop_tickets(tx, (turn.ticket,))
        return kept

    kept = await access.state.write(commit, durable=False)
    return Sealed(snapshot.snapshot_id if kept else None, effects)


async def put_away(access: Access, mount: MountRow, *, sealed: bool) -> bool:
    """Remove a mount, its containers and what it alone needed; False while it is still held.

    An unsealed layer is sealed as interrupted once its containers are gone. Raises engine faults
    and `StateError`. Cancelling leaves rows from which it can be done again.
    """
    if not sealed and not mount.sealed and not mount.idle:
        await _end_containers(access, mount)
        lowers = await access.state.read(lambda tx: mount_rows.lowers_of(tx, mount.volume))
        if await access.layers.use(lambda layers: layers.missing((mount.upper,))) is None:
            await seal(access, mount, lowers, SnapshotCause.INTERRUPTED)
    if not await access.layers.unmount(mount.volume):
        return False
    await access.layers.use(lambda layers: layers.drop_scratch(mount.upper))
    await access.state.write(lambda tx: _forget(tx, access, mount), durable=False)
    await remove_doomed(access)
    return True


async def remove_doomed(access: Access) -> int:
    """Remove the layers nothing needs any more; return how many. Raises `StateError`.

    Cancelling leaves the rest for the next time.
    """
    store_id = access.layers.row.store_id
    doomed = await access.state.write(
        lambda tx: mount_rows.claim_doomed(tx, store_id, access.state.owner), durable=False
    )
    removed: list[str] = []
    try:
        for layer in doomed:
            await access.layers.use(partial(_remove, layer))
            removed.append(layer)
    finally:
        if doomed:
            with anyio.move_on_after(CLOSE_SECONDS, shield=True):
                await access.state.write(
                    lambda tx: _settle_claims(tx, doomed, removed), durable=False
                )
    return len(doomed)


def _settle_claims(tx: rows.Connection, claimed: tuple[str, ...], removed: list[str]) -> None:
    mount_rows.forget_layers(tx, removed)
    mount_rows.release_claims(tx, claimed)


def _remove(layer: str, layers: Layers) -> None:
    layers.remove(layer)


def count_of(effects: Effects) -> int:
    """Return how many paths changed."""
    return sum(
        kind.count
        for tree in (effects, effects.home)
        for kind in (tree.created, tree.modified, tree.deleted)
    )


def _forget(tx: rows.Connection, access: Access, mount: MountRow) -> None:
    lowers = mount_rows.lowers_of(tx, mount.volume)
    mount_rows.remove_mount(tx, mount.volume)
    mount_rows.doom_layers(tx, access.layers.row.store_id, (mount.upper, *lowers))


async def _end_containers(access: Access, mount: MountRow) -> None:
    """Whatever still writes the layer has to be gone before it is frozen."""
    holder = (labels.RUN, mount.run_id) if mount.slot is None else (labels.SLOT, mount.slot)
    if holder[1] is None:
        return
    wanted = {labels.INSTALLATION: access.state.directory.installation_id, holder[0]: holder[1]}
    for container in await access.engine.list_containers(wanted):
        if not await access.engine.remove(container.id, timeout_seconds=_REMOVE_SECONDS):
            raise EngineError(f"The container of the run {mount.run_id} cannot be removed.")
