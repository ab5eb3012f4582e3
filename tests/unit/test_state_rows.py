"""Runs, requests between processes, one-owner duties."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from tests.state_samples import new_run

from sandboxrun.errors import StateError, UnknownRunError
from sandboxrun.state.cancelling import Cancelled, cancel_run
from sandboxrun.state.directory import StateDirectory
from sandboxrun.state.leases import lease, renew
from sandboxrun.state.owner import Owner
from sandboxrun.state.requests import (
    RequestDesk,
    RequestKind,
    RunRequest,
    answer,
    ask,
    pending,
    wait_answer,
)
from sandboxrun.state.runs import RunRow, Runs, insert_run
from sandboxrun.state.store import Store, open_store

pytestmark = pytest.mark.anyio


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    with StateDirectory.open(tmp_path / "s") as directory:
        async with open_store(directory) as opened:
            yield opened


@asynccontextmanager
async def served(store: Store) -> AsyncIterator[RequestDesk]:
    desk = RequestDesk(store)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(desk.serve)
        yield desk
        tasks.cancel_scope.cancel()


def dead_owner() -> Owner:
    script = "from sandboxrun.state.owner import Owner; print(Owner.current())"
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, stdout=subprocess.PIPE, text=True
    )
    return Owner.parse(done.stdout.strip())


async def test_a_run_is_settled_exactly_once(store: Store) -> None:
    runs = Runs(store)
    run = new_run(workspace="demo")
    await runs.insert(run)
    assert [row.run_id for row in await runs.unsettled()] == [run.run_id]
    verdicts: list[bool] = []

    async def settle(number: int) -> None:
        done = await runs.settle(run.run_id, status="failed", outcome_json=f'{{"n":{number}}}')
        verdicts.append(done)

    async with anyio.create_task_group() as tasks:
        for number in range(20):
            tasks.start_soon(settle, number)
    assert sorted(verdicts) == [False] * 19 + [True]
    row = await runs.get(run.run_id)
    assert (row.status, row.workspace, row.owner) == ("failed", "demo", store.owner)
    assert row.settled_at is not None
    assert await runs.unsettled() == ()


async def test_unknown_runs_are_named(store: Store) -> None:
    runs = Runs(store)
    with pytest.raises(UnknownRunError, match="'run-x'"):
        await runs.get("run-x")
    with pytest.raises(UnknownRunError, match="'run-x'"):
        await runs.settle("run-x", status="failed", outcome_json="{}")
    with pytest.raises(UnknownRunError, match="'run-x'"):
        await runs.every(limit=1, after="run-x")
    with pytest.raises(UnknownRunError, match="'run-x'"):
        await ask(store, "run-x", RequestKind.CANCEL)


async def test_runs_are_listed_newest_first_and_filtered(store: Store) -> None:
    runs = Runs(store)
    made = [new_run(workspace="even" if number % 2 == 0 else None) for number in range(6)]
    for run in made:
        await runs.insert(run)
    for run in made[:3]:
        await runs.settle(run.run_id, status="succeeded", outcome_json="{}")
    ids = [run.run_id for run in made]

    async def listed(**wanted: object) -> list[str]:
        return [row.run_id for row in await runs.list(**wanted)]  # type: ignore[arg-type]

    assert await listed(limit=100) == ids[::-1]
    assert await listed(limit=2) == [ids[5], ids[4]]
    assert await listed(limit=100, workspace="even") == [ids[4], ids[2], ids[0]]
    assert await listed(limit=100, status="succeeded") == [ids[2], ids[1], ids[0]]
    assert await listed(limit=100, status="succeeded", workspace="even") == [ids[2], ids[0]]
    assert await listed(limit=100, status="failed") == []
    first = await runs.every(limit=4)
    rest = await runs.every(limit=4, after=first[-1].run_id)
    assert [row.run_id for row in (*first, *rest)] == ids


async def test_a_request_reaches_the_owner_and_its_answer_comes_back(store: Store) -> None:
    run = new_run()
    await Runs(store).insert(run)
    async with served(store) as desk, desk.watch(run.run_id) as asked:
        with StateDirectory.open(store.directory.path) as directory:
            async with open_store(directory) as other, anyio.create_task_group() as tasks:

                async def owner() -> None:
                    request = await anext(asked)
                    assert (request.run_id, request.kind) == (run.run_id, RequestKind.CANCEL)
                    assert request.payload == '{"why":"test"}'
                    assert await answer(store, request.request_id, '{"done":true}')
                    assert not await answer(store, request.request_id, '{"done":false}')

                tasks.start_soon(owner)
                request_id = await ask(other, run.run_id, RequestKind.CANCEL, '{"why":"test"}')
                with anyio.fail_after(10):
                    said = await wait_answer(other, request_id, timeout_seconds=10)
                assert said == '{"done":true}'
    assert await pending(store) == ()


async def test_a_request_goes_to_the_watcher_of_its_run_once(store: Store) -> None:
    mine, other = new_run(), new_run()
    for run in (mine, other):
        await Runs(store).insert(run)
    early = await ask(store, mine.run_id, RequestKind.CANCEL)
    await ask(store, other.run_id, RequestKind.CANCEL)
    got: list[RunRequest] = []
    async with served(store) as desk:
        async with desk.watch(mine.run_id) as asked:
            with anyio.fail_after(10):
                got.append(await anext(asked))
            late = await ask(store, mine.run_id, RequestKind.CANCEL)
            with anyio.fail_after(10):
                got.append(await anext(asked))
            with pytest.raises(ValueError, match="watched already"):
                async with desk.watch(mine.run_id):
                    pass
        # What nobody answered is handed to the next watcher.
        async with desk.watch(mine.run_id) as asked:
            with anyio.fail_after(10):
                again = [await anext(asked), await anext(asked)]
    assert [request.request_id for request in got] == [early, late]
    assert [request.request_id for request in again] == [early, late]


async def test_a_request_of_an_unknown_kind_is_let_be(store: Store) -> None:
    run = new_run()
    await Runs(store).insert(run)
    strange = await ask(store, run.run_id, RequestKind.CANCEL)
    await store.write(lambda tx: tx.execute("UPDATE requests SET kind = 'from the future'"))
    known = await ask(store, run.run_id, RequestKind.CANCEL)
    assert [request.request_id for request in await pending(store)] == [known]
    assert strange != known


async def test_an_answer_that_does_not_come_is_not_waited_for(store: Store) -> None:
    run = new_run()
    await Runs(store).insert(run)
    request_id = await ask(store, run.run_id, RequestKind.CANCEL)
    assert await wait_answer(store, request_id, timeout_seconds=0.01) is None
    assert [request.request_id for request in await pending(store)] == [request_id]


async def test_a_duty_has_one_holder(store: Store) -> None:
    async with lease(store, "recovery") as held:
        assert held is not None
        assert held.taken_from is None
        await renew(store, held)
        async with lease(store, "recovery") as second:
            assert second is None
        async with lease(store, "gc") as other:
            assert other is not None
    with pytest.raises(StateError, match="taken over"):
        await renew(store, held)
    async with lease(store, "recovery") as again:
        assert again is not None


async def test_a_duty_is_taken_over_from_the_dead_only(store: Store) -> None:
    dead = dead_owner()
    unknown = replace(store.owner, pid_namespace=1)
    for name, owner in (("a", dead), ("b", unknown)):
        await store.write(
            lambda tx, name=name, owner=owner: tx.execute(  # type: ignore[misc]
                "INSERT INTO leases VALUES (?, ?, 'token', 'then', 'then')", (name, str(owner))
            )
        )
    async with lease(store, "a") as held:
        assert held is not None
        assert held.taken_from == dead
    async with lease(store, "b") as held:
        assert held is None


async def test_a_cancelled_holder_gives_its_duty_back(store: Store) -> None:
    async with anyio.create_task_group() as tasks:
        holding = anyio.Event()

        async def hold() -> None:
            async with lease(store, "recovery") as held:
                assert held is not None
                holding.set()
                await anyio.sleep_forever()

        tasks.start_soon(hold)
        await holding.wait()
        tasks.cancel_scope.cancel()
    async with lease(store, "recovery") as held:
        assert held is not None


async def test_cancelling_an_ended_run_does_nothing(store: Store) -> None:
    run = new_run()
    await Runs(store).insert(run)
    await Runs(store).settle(run.run_id, status="succeeded", outcome_json="{}")
    report = await cancel_run(store, run.run_id, wait_seconds=1)
    assert (report.result, report.run.status) == (Cancelled.ENDED_BEFORE, "succeeded")
    assert await pending(store) == ()


async def test_cancelling_asks_the_owner_and_waits_for_the_end(store: Store) -> None:
    run = new_run()
    runs = Runs(store)
    await runs.insert(run)
    async with (
        served(store) as desk,
        desk.watch(run.run_id) as asked,
        anyio.create_task_group() as tasks,
    ):

        async def owner() -> None:
            request = await anext(asked)
            await answer(store, request.request_id, "{}")
            await runs.settle(run.run_id, status="cancelled", outcome_json="{}")

        tasks.start_soon(owner)
        report = await cancel_run(store, run.run_id, wait_seconds=10)
    assert (report.result, report.run.status) == (Cancelled.CANCELLED, "cancelled")


async def test_cancelling_gives_up_waiting_for_a_mute_owner(store: Store) -> None:
    run = new_run()
    await Runs(store).insert(run)
    report = await cancel_run(store, run.run_id, wait_seconds=0.05)
    assert (report.result, report.run.status) == (Cancelled.NO_ANSWER, None)
    assert len(await pending(store)) == 1


async def test_cancelling_what_a_dead_owner_left_recovers_it(store: Store) -> None:
    run = new_run()
    runs = Runs(store)
    dead = dead_owner()
    await store.write(lambda tx: insert_run(tx, run, dead))
    report = await cancel_run(store, run.run_id, wait_seconds=1)
    assert report.result is Cancelled.OWNER_DEAD

    async def recover(found: RunRow) -> None:
        assert found.owner == dead
        await runs.settle(found.run_id, status="lost", outcome_json="{}")

    report = await cancel_run(store, run.run_id, wait_seconds=1, recover=recover)
    assert (report.result, report.run.status) == (Cancelled.RECOVERED, "lost")
    assert await pending(store) == ()
