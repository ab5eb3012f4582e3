"""Workspaces: created, forked, restored, compared, and lent to runs."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from enum import Enum, auto
from pathlib import Path
from typing import Protocol, TypeAlias

import anyio
import anyio.to_thread

from sandboxrun.engine.protocol import Engine
from sandboxrun.errors import UsageError, WorkspaceLostError
from sandboxrun.model.difference import PathDifference
from sandboxrun.model.effects import Effects
from sandboxrun.model.timings import Timings
from sandboxrun.model.workspace import DEFAULT_MOUNT, NAME_PATTERN, Snapshot, Workspace
from sandboxrun.state.store import Store
from sandboxrun.workspace import mount_rows, rows
from sandboxrun.workspace.difference import difference_between
from sandboxrun.workspace.effects import effects_between
from sandboxrun.workspace.layers import Layers
from sandboxrun.workspace.line import Line
from sandboxrun.workspace.making import (
    discard_workspace,
    fork_workspace,
    make_workspace,
    seed_from_image,
)
from sandboxrun.workspace.mounting import (
    Holder,
    begin_reading,
    begin_writing,
    mounted,
    settle_leftovers,
)
from sandboxrun.workspace.recover import RecoveredWorkspaces, recover_workspaces
from sandboxrun.workspace.seed import Seed, check_mount, from_directory
from sandboxrun.workspace.session import Access, Session, remove_doomed
from sandboxrun.workspace.store import LayerStore, open_overlay_store

_REMOVE_SECONDS = 30.0


class Change(Enum):
    """What became of a workspace."""

    MADE = auto()
    RESTORED = auto()
    REMOVED = auto()


Watcher: TypeAlias = Callable[[Workspace, Change], None]


class Custody(Protocol):
    """Whoever keeps rows about workspaces: told inside the transaction that makes or ends one."""

    def created(
        self, tx: rows.Connection, workspace_id: str, *, forked_from: str | None = None
    ) -> None:
        """Note that a named workspace is being made, perhaps as a fork of another."""
        ...

    def removed(self, tx: rows.Connection, workspace_id: str) -> None:
        """Note that it is being removed."""
        ...


class Workspaces:
    """All workspaces of one installation on one engine. Made by `open_workspaces`."""

    def __init__(
        self, engine: Engine, state: Store, layers: LayerStore, custody: Custody | None = None
    ) -> None:
        self._custody = custody
        self._watchers: list[Watcher] = []
        self._state = state
        self._layers = layers
        self._access = Access(engine, state, layers, Line(state))

    def watch(self, watcher: Watcher) -> None:
        """Have ``watcher`` called after each change of a workspace that is not a run's."""
        self._watchers.append(watcher)

    async def create(
        self,
        name: str,
        *,
        source: Path | str | None = None,
        seed: Seed | None = None,
        mount_at: str = DEFAULT_MOUNT,
        as_root: bool = False,
    ) -> Workspace:
        """Create a workspace: empty, with a copy of the directory ``source``, or with ``seed``.

        Raises `UsageError` when the name is taken or the seed unusable, and engine faults.
        Cancelling leaves nothing but a layer that recovery removes.
        """
        _require_name(name)
        if await self._state.read(lambda tx: rows.is_taken(tx, name)):
            raise UsageError(f"Workspace {name!r} exists already.", advice="Choose another name.")
        check_mount(mount_at)
        if source is not None:
            seed = await anyio.to_thread.run_sync(from_directory, Path(source))
        return self._told(await self._create(name, seed, mount_at, as_root=as_root), Change.MADE)

    async def image_seed(self, image: str, path: str) -> Seed:
        """Return the seed of a directory inside an image; see `seed_from_image`."""
        installation = self._state.directory.installation_id
        return await seed_from_image(self._access.engine, image, path, installation=installation)

    async def show(self, name: str) -> Workspace:
        """Return one workspace. Raises `UnknownWorkspaceError`. Cancelling leaves nothing."""
        return await self._state.read(lambda tx: rows.find_workspace(tx, name))

    async def is_free(self, workspace_id: str) -> bool:
        """Return whether nobody writes a workspace or waits to. Cancelling leaves nothing."""
        return await self._access.line.is_free(workspace_id)

    async def uid(self, workspace_id: str) -> int:
        """Return the user a workspace's commands run as. Raises `WorkspaceLostError`."""
        found = await self._state.read(lambda tx: rows.workspace_by_id(tx, workspace_id))
        if found is None:
            raise WorkspaceLostError("The workspace was removed meanwhile.")
        return found.uid

    async def list(self) -> tuple[Workspace, ...]:
        """Return all workspaces by name. Cancelling leaves nothing."""
        return await self._state.read(rows.list_workspaces)

    async def snapshots(self, name: str) -> tuple[Snapshot, ...]:
        """Return a workspace's snapshots, oldest first. Raises `UnknownWorkspaceError`."""
        workspace = await self.show(name)
        return await self._state.read(lambda tx: rows.list_snapshots(tx, workspace.workspace_id))

    async def fork(self, name: str, new: str, *, at: str | None = None) -> Workspace:
        """Make an independent workspace of the present state, or of the snapshot ``at``.

        Takes the same time whatever the size; running writers are not waited for. Raises
        `UnknownWorkspaceError`, `UnknownSnapshotError` and `UsageError` for a taken name.
        Cancelling leaves it made or not.
        """
        _require_name(new)

        def fork(tx: rows.Connection) -> Workspace:
            parent = rows.find_workspace(tx, name)
            forked = fork_workspace(tx, name, new, at)
            if self._custody is not None:
                self._custody.created(tx, forked.workspace_id, forked_from=parent.workspace_id)
            return forked

        return self._told(await self._state.write(fork, durable=False), Change.MADE)

    async def restore(self, name: str, snapshot_id: str) -> Workspace:
        """Make a snapshot the present state again, after the running writers. Later ones stay.

        Raises `UnknownWorkspaceError` and `UnknownSnapshotError`. Cancelling leaves the old
        state or the new one.
        """
        workspace = await self.show(name)
        async with self._access.line.turn(workspace.workspace_id):
            await settle_leftovers(self._access, workspace.workspace_id)

            def move(tx: rows.Connection) -> Workspace:
                rows.find_snapshot(tx, workspace.workspace_id, snapshot_id)
                rows.move_head(tx, workspace.workspace_id, snapshot_id)
                return rows.find_workspace(tx, name)

            restored = await self._state.write(move, durable=False)
        return self._told(restored, Change.RESTORED)

    async def effects(self, name: str, old: str, new: str) -> Effects:
        """Return what snapshot ``new`` changes against ``old``, as in outcomes.

        Raises `UnknownWorkspaceError` and `UnknownSnapshotError`. Cancelling leaves nothing.
        """
        before, after = await self.stacks(name, old, new)
        return await self._layers.look(lambda look: effects_between(look, before, after))

    async def difference(
        self, name: str, old: str, new: str, *, text: bool = False, limit: int = 10_000
    ) -> tuple[PathDifference, ...]:
        """Return what differs path by path, with unified diffs where ``text`` is asked for.

        Raises `UnknownWorkspaceError` and `UnknownSnapshotError`. Cancelling leaves nothing.
        """
        before, after = await self.stacks(name, old, new)
        return await self._layers.look(
            lambda look: difference_between(look, before, after, text=text, limit=limit)
        )

    async def stacks(self, name: str, *snapshots: str) -> tuple[tuple[str, ...], ...]:
        """Return the layers of snapshots. Raises `UnknownSnapshotError`. Leaves nothing."""
        workspace = await self.show(name)

        def find(tx: rows.Connection) -> tuple[tuple[str, ...], ...]:
            for each in snapshots:
                rows.find_snapshot(tx, workspace.workspace_id, each)
            return tuple(rows.stack_of(tx, each) for each in snapshots)

        return await self._state.read(find)

    async def remove(self, name: str) -> None:
        """Remove a workspace, its snapshots and what only they need.

        Raises `UnknownWorkspaceError`, and `UsageError` while a run uses it. Cancelling leaves
        it whole, or gone with some of its layers left to recovery.
        """
        workspace = await self.show(name)

        def remove(tx: rows.Connection) -> None:
            if mount_rows.in_use(tx, workspace.workspace_id):
                raise UsageError(
                    f"Workspace {name!r} is in use.", advice="Wait for its run, or cancel it."
                )
            rows.remove_workspace(tx, workspace.workspace_id)
            if self._custody is not None:
                self._custody.removed(tx, workspace.workspace_id)
            mount_rows.doom_layers(tx, self._layers.row.store_id)
            rows.forget_lost_stores(tx)

        await self._state.write(remove)
        self._told(workspace, Change.REMOVED)
        # The layers of a lost store went with it.
        with suppress(WorkspaceLostError):
            await remove_doomed(self._access)

    @asynccontextmanager
    async def writer(
        self,
        name: str,
        run_id: str,
        *,
        waiting: Callable[[], None] | None = None,
        timings: Timings | None = None,
    ) -> AsyncIterator[Session]:
        """Mount a workspace for one run that may write it, after those that came before.

        ``waiting`` is called once if there is a wait. Seal the session once the container has
        ended; leaving it unsealed removes the run's containers and keeps what was written as an
        interrupted run's snapshot. Raises `UnknownWorkspaceError`, `WorkspaceLostError`,
        `WorkspaceLimitError`, `StateError` and engine faults. Cancelling while waiting leaves
        nothing; later it is the same as leaving.
        """
        spent = Timings() if timings is None else timings
        workspace = await self.show(name)
        async with self._access.line.turn(workspace.workspace_id, waiting) as held:
            with spent.stage("layer"):
                begun = await begin_writing(self._access, workspace.workspace_id, Holder(run_id))
            async with mounted(self._access, begun, held, spent) as session:
                yield session

    @asynccontextmanager
    async def reader(
        self, name: str, run_id: str, *, timings: Timings | None = None
    ) -> AsyncIterator[Session]:
        """Mount the present state of a workspace read-only. Waits for nobody.

        Raises as `writer` does. Cancelling is the same as leaving.
        """
        workspace = await self.show(name)
        spent = Timings() if timings is None else timings
        with spent.stage("layer"):
            begun = await begin_reading(self._access, workspace.workspace_id, Holder(run_id))
        async with mounted(self._access, begun, None, spent) as session:
            yield session

    @asynccontextmanager
    async def prepared(
        self, workspace_id: str | None, slot: str, *, read_only: bool = False
    ) -> AsyncIterator[Session]:
        """Mount a workspace's present state, or a new throwaway one, for a run still to come.

        `Session.adopt` gives it to that run. The workspace stays free for others meanwhile.
        Raises as `writer` does. Cancelling is the same as leaving, which leaves nothing.
        """
        holder, spent = Holder(slot=slot), Timings()
        if workspace_id is None:
            async with self._throwaway(holder, None, spent) as session:
                yield session
            return
        if read_only:
            begun = await begin_reading(self._access, workspace_id, holder)
        else:
            async with self._access.line.turn(workspace_id):
                begun = await begin_writing(self._access, workspace_id, holder)
        async with mounted(self._access, begun, None, spent) as session:
            yield session

    @asynccontextmanager
    async def throwaway(
        self, run_id: str, *, seed: Seed | None = None, timings: Timings | None = None
    ) -> AsyncIterator[Session]:
        """Mount a workspace that is gone afterwards, empty or with what ``seed`` brings.

        Raises as `create` and `writer` do. Cancelling is the same as leaving.
        """
        spent = Timings() if timings is None else timings
        async with self._throwaway(Holder(run_id), seed, spent) as session:
            yield session

    @asynccontextmanager
    async def _throwaway(
        self, holder: Holder, seed: Seed | None, spent: Timings
    ) -> AsyncIterator[Session]:
        with spent.stage("layer"):
            workspace = await self._create(None, seed, DEFAULT_MOUNT, as_root=False)
        try:
            with spent.stage("layer"):
                begun = await begin_writing(self._access, workspace.workspace_id, holder)
            async with mounted(self._access, begun, None, spent) as session:
                yield session
        finally:
            with anyio.move_on_after(_REMOVE_SECONDS, shield=True):
                await discard_workspace(self._access, workspace.workspace_id)

    async def recover(self) -> RecoveredWorkspaces:
        """Finish what dead processes left; see `recover_workspaces`."""
        return await recover_workspaces(self._access)

    async def make_durable(self) -> int:
        """Sync the store and mark what is committed by now as durable; return how many.

        Meant for the background: it waits for other programs' dirty pages, too. Cancelling
        leaves them committed.
        """
        up_to = await self._state.read(rows.last_committed)
        if up_to is None:
            return 0
        await self._layers.use(Layers.sync)
        return await self._state.write(lambda tx: rows.make_durable(tx, up_to))

    def _told(self, workspace: Workspace, change: Change) -> Workspace:
        for watcher in self._watchers:
            watcher(workspace, change)
        return workspace

    async def _create(
        self, name: str | None, seed: Seed | None, mount_at: str, *, as_root: bool
    ) -> Workspace:
        return await make_workspace(
            self._access, name, seed, mount_at=mount_at, as_root=as_root, created=self._created
        )

    def _created(self, tx: rows.Connection, workspace_id: str) -> None:
        if self._custody is not None:
            self._custody.created(tx, workspace_id)


async def open_workspaces(
    engine: Engine, engine_id: str, state: Store, *, custody: Custody | None = None
) -> Workspaces:
    """Return the workspaces on an engine; its store is made at the first call.

    Raises engine faults; a lost store is told where it is used. Cancelling may leave an empty
    volume.
    """
    return Workspaces(engine, state, await open_overlay_store(engine, engine_id, state), custody)


def _require_name(name: str) -> None:
    if re.fullmatch(NAME_PATTERN, name) is None:
        raise UsageError(
            f"{name!a} cannot name a workspace.",
            advice="Use up to 63 letters, digits, '_', '.' and '-', the first a letter or digit.",
        )
