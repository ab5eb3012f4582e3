"""Network namespaces, made once and used by one container after the other.

Most of a container's start is its network. A pause container has ``network=none`` and does
nothing; a run's container joins its namespace. Each belongs to one workspace for life, because
counters, metrics and connections that linger outlive the container that made them; it serves one
container at a time, and the next only after the engine has confirmed that the last one is gone.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import anyio

from sandboxrun.engine.sandbox import Sandbox, open_sandbox
from sandboxrun.errors import SandboxrunError
from sandboxrun.model.ids import new_id
from sandboxrun.warm.key import Recipe
from sandboxrun.warm.maker import NO_NETWORK, Maker

PER_WORKSPACE = 2
"""One for the run that ends, one for the slot made ready behind it."""
CLOSE_SECONDS = 30.0


@dataclass(slots=True, eq=False)
class Pause:
    """One namespace."""

    workspace_id: str
    sandbox: Sandbox
    owned: AsyncExitStack
    leased: bool = False
    idle_since: float = field(default_factory=time.monotonic)


@dataclass(slots=True)
class Lease:
    """The use of a network for one container."""

    network: str
    """For `ContainerSpec.network`."""
    used: bool = False
    """Set before the container is created."""
    sandbox: Sandbox | None = None
    """The container, once it is there."""

    @property
    def is_free(self) -> bool:
        """Whether nothing can be in the namespace any more."""
        return not self.used or (self.sandbox is not None and self.sandbox.removed)


@dataclass(slots=True)
class Pauses:
    """All namespaces of one runner. Whoever makes it closes it."""

    maker: Maker
    _pauses: list[Pause] = field(default_factory=list)
    _making: dict[str, int] = field(default_factory=dict)

    @property
    def containers(self) -> frozenset[str]:
        """Ids of all of them."""
        return frozenset(pause.sandbox.container for pause in self._pauses)

    @asynccontextmanager
    async def lease(self, workspace_id: str | None) -> AsyncIterator[Lease]:
        """Lend an idle namespace of the workspace, or no network of anybody's.

        Leaving gives it back if its container is gone, and ends it otherwise. Cancelling is the
        same as leaving.
        """
        pause = None if workspace_id is None else await self._idle(workspace_id)
        lease = Lease(NO_NETWORK if pause is None else f"container:{pause.sandbox.container}")
        try:
            yield lease
        finally:
            if pause is not None:
                pause.leased, pause.idle_since = False, time.monotonic()
                if not lease.is_free:
                    await self._end(pause)

    async def prepare(self, recipe: Recipe, uid: int) -> None:
        """Make a namespace for the workspace unless it has enough or an idle one.

        Raises engine faults. Cancelling leaves none.
        """
        workspace_id = recipe.key.workspace_id
        if workspace_id is None:
            return
        held = [pause for pause in self._pauses if pause.workspace_id == workspace_id]
        idle = any(not pause.leased for pause in held)
        if idle or len(held) + self._making.get(workspace_id, 0) >= PER_WORKSPACE:
            return
        self._making[workspace_id] = self._making.get(workspace_id, 0) + 1
        try:
            self._pauses.append(await self._made(workspace_id, recipe, uid))
        finally:
            self._making[workspace_id] -= 1

    async def forget(self, workspace_id: str) -> None:
        """End the idle namespaces of a workspace. Shielded and bounded."""
        for pause in [each for each in self._pauses if each.workspace_id == workspace_id]:
            if not pause.leased:
                await self._end(pause)

    async def expire(self, life_seconds: float) -> None:
        """End those that died, or that no container has used for so long. Shielded and bounded."""
        latest = time.monotonic() - life_seconds
        for pause in [each for each in self._pauses if not each.leased]:
            if not pause.leased and (pause.idle_since <= latest or not pause.sandbox.is_waiting()):
                await self._end(pause)

    async def close(self) -> None:
        """End all of them. Shielded and bounded."""
        async with anyio.create_task_group() as group:
            for pause in list(self._pauses):
                group.start_soon(self._end, pause)

    async def _idle(self, workspace_id: str) -> Pause | None:
        for pause in list(self._pauses):
            if pause.workspace_id == workspace_id and not pause.leased:
                if pause.sandbox.is_waiting():
                    pause.leased = True
                    return pause
                await self._end(pause)
        return None

    async def _made(self, workspace_id: str, recipe: Recipe, uid: int) -> Pause:
        owned = AsyncExitStack()
        try:
            name = new_id("sandboxrun-pause")
            spec = await self.maker.pause(name, recipe, uid)
            sandbox = await owned.enter_async_context(open_sandbox(self.maker.engine, spec))
            await self.maker.start(sandbox, spec)
        except BaseException:
            await owned.aclose()
            raise
        return Pause(workspace_id, sandbox, owned)

    async def _end(self, pause: Pause) -> None:
        if pause in self._pauses:
            self._pauses.remove(pause)
            with anyio.move_on_after(CLOSE_SECONDS, shield=True):
                try:
                    await pause.owned.aclose()
                except SandboxrunError:
                    # Its labels stay with it, and recovery removes it.
                    return
