"""What is done behind the verdict: the engine's confirmation, removal, unmounting."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import anyio
import anyio.abc
import structlog

from sandboxrun.audit.log import AuditLog
from sandboxrun.engine.sandbox import Sandbox
from sandboxrun.errors import SandboxrunError
from sandboxrun.settle.task_group import plain_task_group


@dataclass(slots=True)
class Behind:
    """Puts away what runs have left. Made by `open_behind`."""

    _group: anyio.abc.TaskGroup
    _audit: AuditLog
    _left: int = 0
    _changed: anyio.Event = field(default_factory=anyio.Event)

    def leave(self, run_id: str, owned: AsyncExitStack, sandbox: Sandbox | None) -> None:
        """Take over what a settled run owns. Returns at once."""
        self._left += 1
        self._group.start_soon(self._put_away, run_id, owned, sandbox)

    async def idle(self) -> None:
        """Wait until everything that was left is put away. Cancelling leaves it going on."""
        while self._left:
            await self._changed.wait()

    async def _put_away(self, run_id: str, owned: AsyncExitStack, sandbox: Sandbox | None) -> None:
        # Shielded: what it owns has bounds of its own, and nobody else would do it.
        with anyio.CancelScope(shield=True):
            try:
                await self._confirm(run_id, sandbox)
            finally:
                try:
                    await owned.aclose()
                except SandboxrunError as fault:
                    structlog.get_logger().warning(
                        "left_behind", run_id=run_id, error=fault.message
                    )
                self._left -= 1
                self._changed.set()
                self._changed = anyio.Event()

    async def _confirm(self, run_id: str, sandbox: Sandbox | None) -> None:
        """Record a contradiction, and say it loudly: it changes no outcome any more."""
        found = None if sandbox is None else await sandbox.contradiction()
        if found is None:
            return
        try:
            await self._audit.contradict(run_id, found)
        except SandboxrunError as fault:
            structlog.get_logger().error("not_recorded", run_id=run_id, error=fault.message)


@asynccontextmanager
async def open_behind(audit: AuditLog) -> AsyncIterator[Behind]:
    """Give what puts away; leaving waits for everything that is being put away."""
    async with plain_task_group() as group:
        yield Behind(group, audit)
