"""A run cancelled at every point where it waits has one outcome and leaves nothing."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any

import anyio
import pytest
from interrupting import Cancelling

from sandboxrun import Outcome, Status
from sandboxrun.engine.docker import connect
from sandboxrun.model import labels
from sandboxrun.state.runs import Runs

pytestmark = pytest.mark.engine
COMMAND = (
    "echo before; sleep 0.02; echo after >&2; head -c 100000 /dev/zero | tr '\\0' x; sleep 0.02"
)
GONE_SECONDS = 5.0


def _run(cancelling: Cancelling, at: int | None, **fields: Any) -> Outcome:
    cancelling.portal.call(cancelling.runner.idle)
    cancelling.interrupter.at = at
    return cancelling.portal.call(functools.partial(cancelling.runner.run, COMMAND, **fields))


async def _left(cancelling: Cancelling) -> list[str]:
    """Name what is left of this installation, waiting for removals that are under way."""
    wanted: Mapping[str, str] = {
        labels.INSTALLATION: (cancelling.settings.state_dir / "installation").read_text().strip()
    }
    engine = await connect(str(cancelling.settings.engine))
    found = ["not looked yet"]
    try:
        with anyio.move_on_after(GONE_SECONDS):
            while found:
                await cancelling.runner.idle()
                found = [each.id for each in await engine.list_containers(wanted)]
                found += [
                    volume.name
                    for volume in await engine.list_volumes(
                        {**wanted, labels.ROLE: labels.ROLE_MOUNT}
                    )
                ]
                found = [each for each in found if each not in cancelling.runner.kept_ready]
    finally:
        await engine.aclose()
    return found


def _settled_once(cancelling: Cancelling, outcome: Outcome) -> None:
    async def row() -> tuple[str | None, int]:
        runs = Runs(cancelling.runner._store)
        return (await runs.get(outcome.run_id)).status, len(await runs.unsettled())

    assert cancelling.portal.call(row) == (outcome.status.value, 0)


def test_a_run_cancelled_at_any_await_point_ends_once_and_leaves_nothing(
    cancelling: Cancelling,
) -> None:
    undisturbed = _run(cancelling, None)
    assert undisturbed.status is Status.SUCCEEDED, undisturbed
    points = cancelling.interrupter.count
    assert points > 20
    statuses = []
    # All points on one event loop, every third on the others: the pipeline is the same code.
    # `pytest -m slow` visits all of them everywhere.
    for at in range(1, points + 1, cancelling.stride):
        outcome = _run(cancelling, at)
        statuses.append(outcome.status)
        # Late in the run the command may have ended by itself; nothing else may be said of it.
        assert outcome.status in {Status.CANCELLED, Status.SUCCEEDED}, (at, outcome)
        _settled_once(cancelling, outcome)
    assert statuses[0] is Status.CANCELLED
    # How many points follow the end depends on how often the engine is asked about it.
    # A warm run has fewer, for its container is made by nobody's run.
    assert statuses.count(Status.CANCELLED) > (20 if cancelling.warm else 50) // cancelling.stride
    assert cancelling.portal.call(_left, cancelling) == []
    print(f"{points} await points, {statuses.count(Status.CANCELLED)} cancelled")  # noqa: T201


def test_the_callers_scope_and_the_deadline_race_with_the_end(cancelling: Cancelling) -> None:
    cancelling.interrupter.at = None

    async def in_scope(seconds: float) -> bool:
        with anyio.move_on_after(seconds) as scope:
            await cancelling.runner.run(COMMAND)
        return scope.cancelled_caught

    caught = [cancelling.portal.call(in_scope, 0.03 * step) for step in range(1, 20)]
    assert caught[0]
    raced = [_run(cancelling, None, timeout_seconds=0.005 * step) for step in range(1, 20)]
    assert {outcome.status for outcome in raced} <= {Status.TIMED_OUT, Status.SUCCEEDED}
    assert raced[0].status is Status.TIMED_OUT
    assert cancelling.portal.call(_left, cancelling) == []


def test_cancelling_twice_and_after_the_end_gives_the_same_outcome(cancelling: Cancelling) -> None:
    cancelling.interrupter.at = None

    async def twice() -> list[Outcome]:
        run = await cancelling.runner.start("sleep 30")
        first, second = await run.cancel(), await run.cancel()
        ended = await cancelling.runner.start("true")
        before = await ended.outcome()
        return [first, second, before, await ended.cancel()]

    first, second, before, after = cancelling.portal.call(twice)
    assert first == second
    assert first.status is Status.CANCELLED
    assert before == after
    assert before.status is Status.SUCCEEDED


def test_closing_the_runner_settles_what_still_runs(cancelling: Cancelling) -> None:
    cancelling.interrupter.at = None

    async def close_early() -> Outcome:
        from sandboxrun import Runner  # noqa: PLC0415 - a runner of this test's own

        async with Runner.open(cancelling.settings) as runner:
            run = await runner.start("sleep 30")
            async with anyio.create_task_group() as group:
                group.start_soon(_until_started, run)
        return await run.outcome()

    assert cancelling.portal.call(close_early).status is Status.CANCELLED
    assert cancelling.portal.call(_left, cancelling) == []


async def _until_started(run: Any) -> None:
    async with aclosing(run.events()) as events:
        async for event in events:
            if event.type == "started":
                return
