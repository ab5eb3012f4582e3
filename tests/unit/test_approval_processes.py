"""Answers from other processes: every order ends in one outcome, and never in a run without a yes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from tests.approval_world import World, opened_world

from sandboxrun.approval.approvals import Answered, Approval, Heard, boot_clock
from sandboxrun.approval.authorise import Ending, Permit, Stopped, authorise, confirm
from sandboxrun.approval.question import Answer

pytestmark = pytest.mark.anyio

ROUNDS = 20
ROOT = Path(__file__).parents[2]


@pytest.fixture
def anyio_backend() -> str:
    """Races between processes look the same from either event loop."""
    return "asyncio"


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with opened_world(tmp_path / "s") as opened:
        yield opened


class Other:
    """Another process of `approval_process`."""

    def __init__(self, *role: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.unit.approval_process", *role],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )

    def send(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    async def read(self) -> str:
        assert self.process.stdout is not None
        return (await anyio.to_thread.run_sync(self.process.stdout.readline)).strip()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.process.stdin.close()


@contextmanager
def others(*roles: tuple[str, ...]) -> Iterator[list[Other]]:
    started: list[Other] = []
    try:
        started.extend(Other(*role) for role in roles)
        yield started
    finally:
        for other in started:
            other.end()


def state_of(world: World) -> str:
    return str(world.store.directory.path)


async def asked(world: World, deadline_seconds: float = 60) -> Approval:
    now = await world.evaluate()
    return await world.approvals.ask(
        now.question, digest=now.bound.digest(), deadline_seconds=deadline_seconds
    )


async def shown(world: World) -> str:
    """Return the id of the question that another task puts."""
    with anyio.fail_after(60):
        while not (pending := await world.approvals.pending()):  # noqa: ASYNC110 - a row, not an event
            await anyio.sleep(0.01)
    return pending[0].approval_id


async def test_of_two_answers_one_wins(world: World) -> None:
    state = state_of(world)
    with others(("answer", state, "ann", "yes"), ("answer", state, "bob", "no")) as two:
        assert [await other.read() for other in two] == ["ready", "ready"]
        for _ in range(ROUNDS):
            question = await asked(world)
            at = boot_clock() + 3_000_000
            for other in two:
                other.send(f"{question.approval_id} {at}")
            ended = await world.approvals.wait(question.approval_id)
            heard = [await other.read() for other in two]
            assert sorted(heard) == [Heard.ANSWERED_BEFORE, Heard.RECORDED]
            winner = ["ann", "bob"][heard.index(Heard.RECORDED)]
            word = {"ann": Answered.APPROVED, "bob": Answered.DENIED}[winner]
            assert (ended.answer, ended.answered_by) == (word, winner)
            assert ended.reason == f"{winner} says so"
            assert await world.approvals.get(question.approval_id) == ended


async def test_an_answer_at_the_deadline_is_in_time_or_late_and_never_both(world: World) -> None:
    with others(("answer", state_of(world), "ann", "yes")) as (other,):
        assert await other.read() == "ready"
        for number in range(ROUNDS):
            question = await asked(world, deadline_seconds=0.05)
            at = question.deadline_ns + (number - ROUNDS // 2) * 1_000_000
            other.send(f"{question.approval_id} {at}")
            ended = await world.approvals.wait(question.approval_id)
            heard = await other.read()
            in_time = heard == Heard.RECORDED
            assert heard in (Heard.RECORDED, Heard.EXPIRED)
            assert ended.answer is (Answered.APPROVED if in_time else Answered.EXPIRED)
            assert await world.approvals.get(question.approval_id) == ended


async def test_a_cancelled_question_never_becomes_a_run(world: World) -> None:
    with others(("answer", state_of(world), "ann", "yes")) as (other,):
        assert await other.read() == "ready"
        for number in range(ROUNDS):
            permits: list[Permit | Stopped] = []
            ids: list[str] = []
            async with anyio.create_task_group() as tasks:

                async def ask(
                    scope: anyio.CancelScope,
                    permits: list[Permit | Stopped] = permits,
                    ids: list[str] = ids,
                    number: int = number,
                ) -> None:
                    async def shown(question: object) -> Answer:
                        del question
                        (row,) = await world.approvals.pending()
                        ids.append(row.approval_id)
                        other.send(row.approval_id)
                        await anyio.sleep(number * 0.001)
                        scope.cancel()
                        await anyio.sleep_forever()
                        raise AssertionError

                    permits.append(await authorise(world.evaluate, world.approvals, approver=shown))

                tasks.start_soon(ask, tasks.cancel_scope)
            heard = await other.read()
            row = await world.approvals.get(ids[0])
            if heard == Heard.RECORDED:
                assert row.answer is Answered.APPROVED
            else:
                assert (heard, row.answer) == (Heard.ANSWERED_BEFORE, Answered.CANCELLED)
                assert permits == []
            assert row.redeemed_at is None
            assert await world.approvals.pending() == ()


async def test_an_answer_of_another_process_permits_one_launch(world: World) -> None:
    with others(("answer", state_of(world), "ann", "yes")) as (other,):
        assert await other.read() == "ready"
        ended: list[Permit | Stopped] = []

        async def ask() -> None:
            ended.append(await authorise(world.evaluate, world.approvals, wait_seconds=60))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            other.send(await shown(world))
        (permit,) = ended
        assert isinstance(permit, Permit)
        assert permit.approved_by == "ann"
        launched: list[object] = []

        async def launch() -> None:
            launched.append(await confirm(permit, world.evaluate, world.approvals))

        async with anyio.create_task_group() as tasks:
            for _ in range(8):
                tasks.start_soon(launch)
        assert launched.count(None) == 1


async def test_a_no_of_another_process_stops_it(world: World) -> None:
    with others(("answer", state_of(world), "bob", "no")) as (other,):
        assert await other.read() == "ready"
        ended: list[Permit | Stopped] = []

        async def ask() -> None:
            ended.append(await authorise(world.evaluate, world.approvals, wait_seconds=60))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            other.send(await shown(world))
        (stopped,) = ended
        assert isinstance(stopped, Stopped)
        assert stopped.ending is Ending.APPROVAL_DENIED
        assert stopped.reason.startswith(
            "bob said no: bob says so\nIt was asked because: `git push"
        )


async def test_the_owner_hears_an_answer_wherever_it_comes_from(world: World) -> None:
    with others(("own", state_of(world))) as (owner,):
        approval_id = await owner.read()
        heard = await world.approvals.answer(approval_id, Answer(approved=True, by="here"))
        assert heard is Heard.RECORDED
        word, by, _ = (await owner.read()).split()
        assert (word, by) == (Answered.APPROVED, "here")


async def test_a_question_dies_with_its_owner(world: World) -> None:
    with others(("own", state_of(world))) as (owner,):
        approval_id = await owner.read()
        assert [each.approval_id for each in await world.approvals.pending()] == [approval_id]
        owner.process.kill()
        owner.process.wait()
        assert await world.approvals.pending() == ()
        heard = await world.approvals.answer(approval_id, Answer(approved=True, by="late"))
        assert heard is Heard.RUN_ENDED
        assert (await world.approvals.get(approval_id)).answer is None
