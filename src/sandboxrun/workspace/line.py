"""Writers of one workspace stand in line, across tasks and processes, first come first served.

The line is in the store: a ticket whose owner has died is nobody's turn.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio
import anyio.to_thread

from sandboxrun.state.owner import Owner
from sandboxrun.state.store import Store
from sandboxrun.workspace import mount_rows

_POLL_SECONDS = 0.02
"""How late the end of another process's turn is noticed; of this one's at once."""
_ALIVE_CHECK_POLLS = 25
_LEAVE_SECONDS = 10.0


@dataclass(slots=True)
class Turn:
    """The right to write a workspace."""

    ticket: int | None
    """None where nobody has to wait for anybody."""
    left: bool = False
    """Whether it was given up already, in a transaction of its holder."""


class Line:
    """All lines of one process's store."""

    def __init__(self, state: Store) -> None:
        self._state = state
        self._news = anyio.Event()

    @asynccontextmanager
    async def turn(
        self, workspace_id: str, waiting: Callable[[], None] | None = None
    ) -> AsyncIterator[Turn]:
        """Wait until all writers that came before are done, and hold the turn for the block.

        ``waiting`` is called once if there is somebody to wait for. Raises `StateError`.
        Cancelling leaves the line; a process that dies is passed over.
        """
        owner = self._state.owner
        ticket = await self._state.write(
            lambda tx: mount_rows.take_ticket(tx, workspace_id, owner), durable=False
        )
        held = Turn(ticket)
        try:
            await self._first(workspace_id, ticket, waiting)
            yield held
        finally:
            await self.leave(held)

    async def leave(self, held: Turn) -> None:
        """Let the next writer go, unless that was done. Shielded and bounded. Raises `StateError`."""
        if not held.left and held.ticket is not None:
            held.left = True
            with anyio.move_on_after(_LEAVE_SECONDS, shield=True):
                await self._drop((held.ticket,))
        self.announce()

    async def is_free(self, workspace_id: str) -> bool:
        """Return whether nobody writes or waits to. Raises `StateError`. Cancelling leaves nothing."""
        return not await self._state.read(lambda tx: mount_rows.has_writers(tx, workspace_id))

    def announce(self) -> None:
        """Wake those of this process who wait: somebody has left."""
        self._news.set()
        self._news = anyio.Event()

    async def _first(
        self, workspace_id: str, ticket: int, waiting: Callable[[], None] | None
    ) -> None:
        polls = 0
        while True:
            news = self._news
            ahead = await self._state.read(lambda tx: mount_rows.ahead_of(tx, workspace_id, ticket))
            if not ahead:
                return
            if polls % _ALIVE_CHECK_POLLS == 0 and (dead := await _dead(ahead)):
                await self._drop(dead)
                continue
            if polls == 0 and waiting is not None:
                waiting()
            polls += 1
            with anyio.move_on_after(_POLL_SECONDS):
                await news.wait()

    async def _drop(self, tickets: tuple[int, ...]) -> None:
        await self._state.write(lambda tx: mount_rows.drop_tickets(tx, tickets), durable=False)


async def _dead(held: tuple[tuple[int, Owner], ...]) -> tuple[int, ...]:
    """Return the tickets whose owner cannot use them any more."""
    alive = await anyio.to_thread.run_sync(
        lambda: {owner: owner.is_alive() for owner in {owner for _, owner in held}}
    )
    return tuple(number for number, owner in held if not alive[owner])
