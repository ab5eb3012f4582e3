"""Ctrl-C and SIGTERM cancel the run; a second one changes nothing."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from sandboxrun.runner import Run
from sandboxrun.settle.task_group import plain_task_group


@asynccontextmanager
async def cancel_on_signal(run: Run) -> AsyncIterator[None]:
    """Cancel ``run`` at SIGINT, SIGTERM or SIGHUP while the body runs."""
    async with plain_task_group() as group:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as received:

            async def forward() -> None:
                async for _ in received:
                    run.request_cancel()

            group.start_soon(forward)
            yield
            group.cancel_scope.cancel()
