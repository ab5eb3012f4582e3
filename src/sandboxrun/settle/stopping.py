"""A scope that ends when somebody asks for the end of the run, or when its time is up."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
import anyio.abc

from sandboxrun.settle.cause import Cause, Stop


async def _end_at_stop(stop: Stop, scope: anyio.CancelScope) -> None:
    await stop.wait()
    scope.cancel()


async def _end_at_deadline(stop: Stop, seconds: float) -> None:
    await anyio.sleep(seconds)
    stop.ask(Cause.DEADLINE)


@asynccontextmanager
async def until_stopped(stop: Stop) -> AsyncIterator[Callable[[float], None]]:
    """Run the body until it ends or ``stop`` is asked for, whichever comes first.

    Yields a function that starts the clock: after so many seconds the cause is the deadline. The
    body must not raise faults through this scope; it keeps them as values.
    """
    async with anyio.create_task_group() as group:

        def start_clock(seconds: float) -> None:
            group.start_soon(_end_at_deadline, stop, seconds)

        group.start_soon(_end_at_stop, stop, group.cancel_scope)
        yield start_clock
        group.cancel_scope.cancel()
