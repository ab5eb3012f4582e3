"""Waking those who wait for something new."""

from __future__ import annotations

import anyio


class Changes:
    """A count of changes that tasks of one event loop can wait on. Nothing is missed.

    Telling is not an await, so it cannot be cancelled half-way.
    """

    def __init__(self) -> None:
        self._count = 0
        self._final = False
        self._waiting: list[anyio.Event] = []
        self._ended: list[anyio.Event] = []

    @property
    def count(self) -> int:
        """How many changes there were."""
        return self._count

    @property
    def final(self) -> bool:
        """Whether there will be no more."""
        return self._final

    def notify(self, *, final: bool = False) -> None:
        """Say that something changed, and with ``final`` that it was the last time."""
        self._count += 1
        waiting, self._waiting = self._waiting, []
        if final:
            self._final = True
            waiting += self._ended
            self._ended = []
        for event in waiting:
            event.set()

    async def wait(self, seen: int) -> None:
        """Return when there were more than ``seen`` changes, or there will be no more.

        Cancelling leaves nothing behind.
        """
        if self._count == seen and not self._final:
            await self._wait_in(self._waiting)

    async def wait_final(self) -> None:
        """Return when there will be no more changes. Cancelling leaves nothing behind."""
        if not self._final:
            await self._wait_in(self._ended)

    async def _wait_in(self, waiting: list[anyio.Event]) -> None:
        event = anyio.Event()
        waiting.append(event)
        try:
            await event.wait()
        finally:
            if event in waiting:
                waiting.remove(event)
