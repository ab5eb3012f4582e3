"""Warm slots: the next container of a workspace, ready before its command is known."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

import anyio
import anyio.abc
import anyio.lowlevel
import anyio.to_thread
import structlog

from sandboxrun.engine.sandbox import Sandbox, open_sandbox
from sandboxrun.errors import SandboxrunError
from sandboxrun.model import labels
from sandboxrun.model.ids import new_id
from sandboxrun.settle.task_group import plain_task_group
from sandboxrun.state.store import Store
from sandboxrun.warm.key import Recipe, SlotKey, SlotPolicy, usable
from sandboxrun.warm.maker import Maker
from sandboxrun.warm.memory import available_bytes
from sandboxrun.warm.pauses import Pauses
from sandboxrun.workspace import mount_rows
from sandboxrun.workspace.session import Session
from sandboxrun.workspace.workspaces import Workspaces

T = TypeVar("T")

CLOSE_SECONDS = 60.0
"""Longest wait for all slots to be removed."""
_LOOK_SECONDS = 5.0
"""Between two looks for slots that have waited too long."""


@dataclass(frozen=True, slots=True, eq=False)
class Slot:
    """A started container that waits for one request. Used once, then removed."""

    recipe: Recipe
    session: Session
    sandbox: Sandbox
    made_at: float
    owned: AsyncExitStack
    """What has to be closed at its end; a run that takes it takes this over."""


@dataclass(frozen=True, slots=True, eq=False)
class Coming:
    """A slot that is being made."""

    key: SlotKey | None
    """None: not known yet."""
    ready: anyio.Event = field(default_factory=anyio.Event)
    """Set when it is there, or will not be."""


@dataclass(slots=True)
class Slots:
    """The slots of one runner. Made by `open_slots`."""

    maker: Maker
    pauses: Pauses
    _workspaces: Workspaces
    _state: Store
    _group: anyio.abc.TaskGroup
    _policy: SlotPolicy
    _making: anyio.CapacityLimiter
    _idle: dict[str | None, Slot] = field(default_factory=dict)
    """By workspace: each has one, made for what its last run had."""
    _coming: dict[str | None, Coming] = field(default_factory=dict)
    _ending: set[anyio.Event] = field(default_factory=set)
    """One for each that is being removed."""
    _closing: bool = False

    async def take(self, key: SlotKey, run_id: str) -> Slot | None:
        """Give a run the slot that is exactly what it wants, waiting for one that is being made.

        None: there is none, or it cannot be used. Raises `StateError`. Cancelling leaves it to be
        removed.
        """
        coming = self._coming.get(key.workspace_id)
        if coming is not None and coming.key in {None, key}:
            await coming.ready.wait()
        slot = self._idle.pop(key.workspace_id, None)
        if slot is None:
            return None
        taken = False
        try:
            taken = self._is_good(slot, key) and await slot.session.adopt(run_id)
        finally:
            if not taken:
                self._discard(slot)
        return slot if taken else None

    def prepare(self, recipe: Recipe) -> None:
        """Make a slot of ``recipe`` ready, in the background. Returns at once."""

        async def known() -> Recipe:
            await anyio.lowlevel.checkpoint()
            return recipe

        self._expect(recipe.key.workspace_id, Coming(recipe.key), known)

    def foresee(self, workspace_id: str, work: Callable[[], Awaitable[Recipe | None]]) -> None:
        """Make a slot of what ``work`` returns ready, in the background. Returns at once.

        ``work`` may raise `SandboxrunError`; the first run meets the same and says so.
        """
        self._expect(workspace_id, Coming(None), work)

    def _expect(
        self,
        workspace_id: str | None,
        coming: Coming,
        work: Callable[[], Awaitable[Recipe | None]],
    ) -> None:
        if self._policy.limit > 0 and not self._closing and workspace_id not in self._coming:
            self._coming[workspace_id] = coming
            self._group.start_soon(self._prepare, workspace_id, coming, work)

    def forget(self, workspace_id: str) -> None:
        """Remove what waits for a workspace, in the background. Returns at once."""
        slot = self._idle.pop(workspace_id, None)
        if slot is not None:
            self._discard(slot)
        self._later(self.pauses.forget, workspace_id)

    async def idle(self) -> None:
        """Wait until no slot is being made or removed. Cancelling leaves it going on."""
        while waited := [*(coming.ready for coming in self._coming.values()), *self._ending]:
            for event in waited:
                await event.wait()

    @property
    def kept(self) -> frozenset[str]:
        """Ids of the containers that wait, and names of their mounts' volumes."""
        slots = self._idle.values()
        containers = {slot.sandbox.container for slot in slots} | self.pauses.containers
        return frozenset(containers | {slot.session.volume for slot in slots})

    def _is_good(self, slot: Slot, wanted: SlotKey) -> bool:
        now, life = time.monotonic(), self._policy.idle_seconds
        fits = usable(slot.recipe.key, slot.made_at, wanted=wanted, now=now, life=life)
        return fits and slot.sandbox.is_waiting()

    async def _prepare(
        self,
        workspace_id: str | None,
        coming: Coming,
        work: Callable[[], Awaitable[Recipe | None]],
    ) -> None:
        try:
            async with self._making:
                recipe = await work()
                if recipe is not None and await self._is_wanted(workspace_id):
                    slot = await self._made(recipe)
                    if self._closing:
                        await _close(slot)
                    else:
                        self._idle[workspace_id] = slot
        except SandboxrunError as fault:
            # The next run goes cold, and says itself what is wrong.
            structlog.get_logger().info("no_slot", workspace=workspace_id, error=fault.message)
        finally:
            del self._coming[workspace_id]
            coming.ready.set()

    async def _made(self, recipe: Recipe) -> Slot:
        slot_id = new_id("slot")
        key = recipe.key
        owned = AsyncExitStack()
        try:
            if key.workspace_id is not None:
                await self.pauses.prepare(recipe, await self._workspaces.uid(key.workspace_id))
            lease = await owned.enter_async_context(self.pauses.lease(key.workspace_id))
            session = await owned.enter_async_context(
                self._workspaces.prepared(key.workspace_id, slot_id, read_only=key.read_only)
            )
            tags = ((labels.SLOT, slot_id),)
            spec = await self.maker.spec(
                f"sandboxrun-{slot_id}", recipe, session, tags, network=lease.network
            )
            lease.used = True
            sandbox = await owned.enter_async_context(open_sandbox(self.maker.engine, spec))
            lease.sandbox = sandbox
            await self.maker.start(sandbox, spec)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await owned.aclose()
            raise
        return Slot(recipe, session, sandbox, time.monotonic(), owned)

    async def _is_wanted(self, workspace_id: str | None) -> bool:
        """Whether a slot can be of use. Not behind a writer: it would be of the wrong state."""
        free = workspace_id is None or await self._workspaces.is_free(workspace_id)
        return free and await self._has_room(workspace_id)

    async def _has_room(self, workspace_id: str | None) -> bool:
        """Make room among our own slots if the host has enough of them. Owners may be dead."""
        old = self._idle.pop(workspace_id, None)
        if old is not None:
            self._discard(old)
        waiting = len(await self._state.read(mount_rows.idle_slots)) - (old is not None)
        if waiting >= self._policy.limit:
            if not self._idle:
                return False
            oldest = min(self._idle, key=lambda each: self._idle[each].made_at)
            self._discard(self._idle.pop(oldest))
        free = await anyio.to_thread.run_sync(available_bytes)
        return free is None or free >= self._policy.free_bytes

    def _discard(self, slot: Slot) -> None:
        self._later(_close, slot)

    def _later(self, work: Callable[[T], Awaitable[None]], what: T) -> None:
        done = anyio.Event()
        self._ending.add(done)

        async def end() -> None:
            try:
                await work(what)
            finally:
                self._ending.discard(done)
                done.set()

        self._group.start_soon(end)

    async def _expire(self) -> None:
        while True:
            await anyio.sleep(_LOOK_SECONDS)
            now = time.monotonic()
            for workspace_id, slot in list(self._idle.items()):
                if now - slot.made_at >= self._policy.idle_seconds or not slot.sandbox.is_waiting():
                    del self._idle[workspace_id]
                    self._discard(slot)
            await self.pauses.expire(self._policy.idle_seconds)

    async def _close(self) -> None:
        self._closing = True
        async with anyio.create_task_group() as group:
            for slot in self._idle.values():
                group.start_soon(_close, slot)
        self._idle.clear()


async def _close(slot: Slot) -> None:
    # Shielded; everything it owns has bounds of its own.
    with anyio.CancelScope(shield=True):
        try:
            await slot.owned.aclose()
        except SandboxrunError as fault:
            structlog.get_logger().warning("slot_left", error=fault.message)


@asynccontextmanager
async def open_slots(
    maker: Maker, workspaces: Workspaces, state: Store, policy: SlotPolicy
) -> AsyncIterator[Slots]:
    """Give a runner its slots; leaving removes all of them, shielded and bounded."""
    pauses = Pauses(maker)
    try:
        async with plain_task_group() as group:
            making = anyio.CapacityLimiter(max(2, maker.info.cpus))
            slots = Slots(maker, pauses, workspaces, state, group, policy, making)
            group.start_soon(slots._expire)  # noqa: SLF001 - its maker drives it
            try:
                yield slots
            finally:
                with anyio.move_on_after(CLOSE_SECONDS, shield=True):
                    await slots._close()  # noqa: SLF001 - its maker closes it
                group.cancel_scope.cancel()
    finally:
        with anyio.move_on_after(CLOSE_SECONDS, shield=True):
            await pauses.close()
