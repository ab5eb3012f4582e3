"""Workspaces as plain named volumes of the engine."""

from __future__ import annotations

import os
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio
import anyio.to_thread
from pydantic import BaseModel, ConfigDict

from sandboxrun.engine.protocol import Engine, VolumeInfo
from sandboxrun.engine.spec import VolumeSpec
from sandboxrun.errors import EngineError, UnknownWorkspaceError, UsageError
from sandboxrun.model import labels
from sandboxrun.model.ids import new_id
from sandboxrun.model.uids import UID_COUNT, UID_FIRST

REMOVE_SECONDS = 10.0


class Workspace(BaseModel):
    """One workspace. ``volume`` is random and never reused; ``uid`` owns its files."""

    model_config = ConfigDict(frozen=True)

    name: str
    volume: str
    uid: int
    created: str


@dataclass(frozen=True, slots=True)
class Mounted:
    """The volume a run mounts at ``/workspace`` and the uid it runs as."""

    volume: str
    uid: int


def uid_of(volume: str) -> int:
    """Return the uid of a lineage: the same for every run on ``volume``, different for most others."""
    return UID_FIRST + zlib.crc32(volume.encode()) % UID_COUNT


class Workspaces:
    """Create, find, list and remove workspaces of one installation."""

    def __init__(self, engine: Engine, installation: str) -> None:
        self._engine = engine
        self._installation = installation

    async def create(self, name: str) -> Workspace:
        """Create an empty workspace. Raises `UsageError` if the name is taken.

        Cancelling may leave the volume, which then is the workspace.
        """
        if await self._find(name) is not None:
            raise UsageError(f"Workspace {name!r} exists already.", advice="Choose another name.")
        tags = (*self._tags(labels.ROLE_WORKSPACE), (labels.WORKSPACE, name))
        return _workspace(await self._engine.create_volume(VolumeSpec(new_id("ws"), tags)))

    async def show(self, name: str) -> Workspace:
        """Return one workspace. Raises `UnknownWorkspaceError`. Cancelling leaves nothing."""
        volume = await self._find(name)
        if volume is None:
            raise UnknownWorkspaceError(f"There is no workspace {name!r}.")
        return _workspace(volume)

    async def list(self) -> list[Workspace]:
        """Return all workspaces by name. Cancelling leaves nothing behind."""
        found = await self._engine.list_volumes(dict(self._tags(labels.ROLE_WORKSPACE)))
        return sorted(map(_workspace, found), key=lambda workspace: workspace.name)

    async def remove(self, name: str) -> None:
        """Remove a workspace and everything in it. Raises `UsageError` while a run uses it.

        Cancelling leaves it whole or gone.
        """
        workspace = await self.show(name)
        if not await self._engine.remove_volume(workspace.volume):
            raise UsageError(
                f"Workspace {name!r} is in use.", advice="Wait for its run, or cancel it."
            )

    @asynccontextmanager
    async def mounted(self, name: str | None, owner: str) -> AsyncIterator[Mounted]:
        """Yield the named workspace, or a throwaway one that is removed at the end.

        Raises `UnknownWorkspaceError`. Removal is shielded and bounded; the owner label lets a
        later recovery remove what was left.
        """
        if name is not None:
            workspace = await self.show(name)
            await self._give(workspace.volume, workspace.uid)
            yield Mounted(workspace.volume, workspace.uid)
            return
        volume = new_id("tmp")
        tags = (*self._tags(labels.ROLE_THROWAWAY), (labels.OWNER, owner))
        try:
            # Shielded: an abandoned creation may be carried out after the removal below.
            with anyio.CancelScope(shield=True):
                await self._engine.create_volume(VolumeSpec(volume, tags))
            await self._give(volume, uid_of(volume))
            yield Mounted(volume, uid_of(volume))
        finally:
            with anyio.CancelScope(shield=True), anyio.move_on_after(REMOVE_SECONDS):
                await self._discard(volume)

    async def _give(self, volume: str, uid: int) -> None:
        """Make ``uid`` the owner of an empty volume's root; engines give it to root."""
        found = await self._engine.inspect_volume(volume)
        if found is not None and os.geteuid() == 0:
            await anyio.to_thread.run_sync(os.chown, found.mountpoint, uid, uid)

    async def _discard(self, volume: str) -> None:
        try:
            await self._engine.remove_volume(volume)
        except EngineError:
            # Recovery removes throwaway volumes whose owner is gone.
            return

    async def _find(self, name: str) -> VolumeInfo | None:
        wanted = dict(self._tags(labels.ROLE_WORKSPACE)) | {labels.WORKSPACE: name}
        found = await self._engine.list_volumes(wanted)
        return min(found, key=lambda volume: volume.name) if found else None

    def _tags(self, role: str) -> tuple[tuple[str, str], ...]:
        return ((labels.INSTALLATION, self._installation), (labels.ROLE, role))


def _workspace(volume: VolumeInfo) -> Workspace:
    return Workspace(
        name=volume.labels[labels.WORKSPACE],
        volume=volume.name,
        uid=uid_of(volume.name),
        created=volume.created,
    )
