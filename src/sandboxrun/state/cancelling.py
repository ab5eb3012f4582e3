"""A run is ended on behalf of another process, whether its owner lives or not."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum

import anyio
import anyio.to_thread

from sandboxrun.state.requests import POLL_SECONDS, RequestKind, ask, wait_answer
from sandboxrun.state.runs import RunRow, Runs
from sandboxrun.state.store import Store

Recover = Callable[[RunRow], Awaitable[None]]
"""Cleans up after a dead owner and settles its run."""


class Cancelled(StrEnum):
    """What became of the wish."""

    ENDED_BEFORE = "ended_before"
    """The run had its outcome already; nothing was done."""
    CANCELLED = "cancelled"
    """Its owner ended it."""
    RECOVERED = "recovered"
    """Its owner was dead; recovery settled it."""
    OWNER_DEAD = "owner_dead"
    """Its owner is dead and the run is not settled yet; the next start of a runner does it."""
    NO_ANSWER = "no_answer"
    """Its owner lives and did not answer in time. The request stands."""


@dataclass(frozen=True, slots=True)
class CancelReport:
    """What became of the wish, and the run as it is now."""

    result: Cancelled
    run: RunRow


async def cancel_run(
    store: Store, run_id: str, *, wait_seconds: float, recover: Recover | None = None
) -> CancelReport:
    """Have a run ended by its owner, or by ``recover`` where the owner is dead.

    Raises `UnknownRunError`, `StateError`. Cancellation leaves the request asked.
    """
    runs = Runs(store)
    run = await runs.get(run_id)
    if run.status is not None:
        return CancelReport(Cancelled.ENDED_BEFORE, run)
    if not await anyio.to_thread.run_sync(run.owner.is_alive):
        return await _recovered(runs, run, recover)
    request_id = await ask(store, run_id, RequestKind.CANCEL)
    with anyio.move_on_after(wait_seconds):
        await wait_answer(store, request_id, timeout_seconds=wait_seconds)
        return CancelReport(Cancelled.CANCELLED, await _settled(runs, run_id))
    run = await runs.get(run_id)
    if run.status is not None:
        return CancelReport(Cancelled.CANCELLED, run)
    if not await anyio.to_thread.run_sync(run.owner.is_alive):
        return await _recovered(runs, run, recover)
    return CancelReport(Cancelled.NO_ANSWER, run)


async def _settled(runs: Runs, run_id: str) -> RunRow:
    while (run := await runs.get(run_id)).status is None:  # noqa: ASYNC110 - another process's event
        await anyio.sleep(POLL_SECONDS)
    return run


async def _recovered(runs: Runs, run: RunRow, recover: Recover | None) -> CancelReport:
    if recover is not None:
        await recover(run)
    run = await runs.get(run.run_id)
    result = Cancelled.OWNER_DEAD if run.status is None else Cancelled.RECOVERED
    return CancelReport(result, run)
