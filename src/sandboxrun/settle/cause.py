"""Who asked for a run to be ended. The first to ask is the cause; later ones change nothing."""

from __future__ import annotations

from enum import StrEnum

import anyio


class Cause(StrEnum):
    """Why sandboxrun itself ended a run."""

    CANCELLED = "cancelled"
    DEADLINE = "deadline"
    OUTPUT_LIMIT = "output_limit"


class Stop:
    """A request to end one run, asked for at most once.

    Safe to use from any task of the run's event loop. Asking is not an await, so it cannot be
    cancelled half-way.
    """

    def __init__(self) -> None:
        self._cause: Cause | None = None
        self._asked = anyio.Event()

    @property
    def cause(self) -> Cause | None:
        """The first cause, or None while nobody asked."""
        return self._cause

    def ask(self, cause: Cause) -> bool:
        """Ask for the end. True if this call is the one that decided."""
        if self._cause is not None:
            return False
        self._cause = cause
        self._asked.set()
        return True

    async def wait(self) -> None:
        """Return once the end was asked for. Cancelling leaves nothing behind."""
        await self._asked.wait()
