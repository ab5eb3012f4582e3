"""The ledger: reserved, waited for, refused with numbers, and always given back."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from tests.quota_samples import DEAD, Containers, amounts, claim, ledger_in

from sandboxrun.errors import EngineError, QuotaExceededError
from sandboxrun.model.limits import GIB, MIB, Limits
from sandboxrun.model.quotas import Quota, Quotas, WhenFull
from sandboxrun.quota import rows
from sandboxrun.quota.bounds import amounts_of, bounds_of, with_machine
from sandboxrun.quota.claim import HOST, Claim, Resource, Scope
from sandboxrun.quota.ledger import Ledger
from sandboxrun.quota.standing import standing_of

pytestmark = pytest.mark.anyio
ONE_EACH = Quotas(conversation=Quota(runs=1))
REFUSING = Quotas(host=Quota(runs=1, memory_bytes=128 * MIB), when_full=WhenFull.REFUSE)


async def held(ledger: Ledger) -> int:
    return sum(row.ticket.held for row in await ledger.store.read(rows.rows))


async def waits(ledger: Ledger, wanted: Claim, group: anyio.abc.TaskGroup) -> anyio.Event:
    """Start waiting for ``wanted`` in a task of its own; return what is set once it is granted."""
    told, granted = anyio.Event(), anyio.Event()

    async def hold() -> None:
        async with ledger.reserve(wanted, waiting=lambda _: told.set()):
            granted.set()

    group.start_soon(hold)
    await told.wait()
    return granted


async def test_a_run_that_fits_is_granted_and_given_back(tmp_path: Path) -> None:
    async with ledger_in(tmp_path / "s", ONE_EACH) as ledger:
        async with ledger.reserve(claim("c")):
            assert await held(ledger) == 1
        assert await ledger.store.read(rows.rows) == ()


async def test_the_next_waits_and_says_so_with_numbers(tmp_path: Path) -> None:
    said: list[str] = []
    async with ledger_in(tmp_path / "s", ONE_EACH) as ledger:
        async with anyio.create_task_group() as group:
            async with ledger.reserve(claim("c")):
                granted = await waits(ledger, claim("c"), group)
                async with ledger.reserve(claim("other")):
                    assert not granted.is_set()
                with anyio.move_on_after(0):
                    async with ledger.reserve(claim("c"), waiting=said.append):
                        pass
            await granted.wait()
        assert await ledger.store.read(rows.rows) == ()


async def test_the_wait_has_an_end(tmp_path: Path) -> None:
    quotas = ONE_EACH.model_copy(update={"wait_seconds": 0.05})
    async with ledger_in(tmp_path / "s", quotas) as ledger, ledger.reserve(claim("c")):
        with pytest.raises(QuotaExceededError) as refused:
            async with ledger.reserve(claim("c")):
                pass
        text = refused.value.message
        assert text == (
            "The conversation 'c' uses 1 of 1 runs at a time, and this run needs 1. "
            "It waited 0.05 s for its turn."
        )
        assert await held(ledger) == 1


async def test_where_nobody_waits_it_is_refused_at_once(tmp_path: Path) -> None:
    async with ledger_in(tmp_path / "s", REFUSING) as ledger, ledger.reserve(claim()):
        with pytest.raises(QuotaExceededError, match="This host uses 1 of 1 runs at a time"):
            async with ledger.reserve(claim()):
                pass


async def test_what_can_never_fit_is_refused_whatever_the_setting(tmp_path: Path) -> None:
    async with ledger_in(tmp_path / "s", Quotas(host=REFUSING.host)) as ledger:
        with pytest.raises(QuotaExceededError) as refused:
            async with ledger.reserve(claim(wanted=amounts(memory=129))):
                pass
        text = refused.value.message
        assert text == "This host may have 128 MiB of memory, and this run alone needs 129 MiB."
        assert "--memory" in refused.value.advice


async def test_cancelling_a_wait_leaves_the_line(tmp_path: Path) -> None:
    async with ledger_in(tmp_path / "s", ONE_EACH) as ledger, ledger.reserve(claim("c")):
        async with anyio.create_task_group() as group:
            granted = await waits(ledger, claim("c"), group)
            group.cancel_scope.cancel()
        assert not granted.is_set()
        assert len(await ledger.store.read(rows.rows)) == 1


async def test_another_process_is_waited_for_and_wakes_us(tmp_path: Path) -> None:
    async with (
        ledger_in(tmp_path / "s", ONE_EACH) as ours,
        ledger_in(tmp_path / "s", ONE_EACH) as theirs,
        anyio.create_task_group() as group,
    ):
        async with theirs.reserve(claim("c")):
            granted = await waits(ours, claim("c"), group)
        await granted.wait()


@pytest.mark.parametrize("when_full", WhenFull)
async def test_what_the_dead_held_is_given_back_after_their_containers(
    tmp_path: Path, when_full: WhenFull
) -> None:
    containers = Containers()
    quotas = ONE_EACH.model_copy(update={"when_full": when_full})
    async with (
        ledger_in(tmp_path / "s", quotas, owner=DEAD) as died,
        ledger_in(tmp_path / "s", quotas, containers=containers) as ours,
    ):
        await died._ask(claim("c"), bounds_of(quotas))
        async with ours.reserve(claim("c")):
            assert containers.ended == [str(DEAD)]
        assert await ours.store.read(rows.rows) == ()


async def test_while_their_containers_may_be_there_the_dead_keep_it(tmp_path: Path) -> None:
    containers = Containers()
    containers.fault = EngineError("It does not answer.")
    async with (
        ledger_in(tmp_path / "s", ONE_EACH, owner=DEAD) as died,
        ledger_in(tmp_path / "s", ONE_EACH, containers=containers) as ours,
        anyio.create_task_group() as group,
    ):
        await died._ask(claim("c"), bounds_of(ONE_EACH))
        granted = await waits(ours, claim("c"), group)
        with pytest.raises(EngineError):
            await ours.reclaim()
        assert not granted.is_set()
        containers.fault = None
        await granted.wait()  # found by the task that serves


async def test_what_cannot_be_given_back_now_is_given_back_later(tmp_path: Path) -> None:
    async with ledger_in(tmp_path / "s", ONE_EACH) as ledger:
        connection = ledger.store._writer
        async with ledger.reserve(claim("c")):
            connection.execute("PRAGMA query_only=ON")
        connection.execute("PRAGMA query_only=OFF")
        async with ledger.reserve(claim("c")):
            assert await held(ledger) == 1


async def test_conversations_take_turns(tmp_path: Path) -> None:
    order: list[str] = []
    quotas = Quotas(host=Quota(runs=1))
    async with ledger_in(tmp_path / "s", quotas) as ledger, anyio.create_task_group() as group:

        async def one(conversation: str, told: anyio.Event) -> None:
            async with ledger.reserve(claim(conversation), waiting=lambda _: told.set()):
                order.append(conversation)

        async with ledger.reserve(claim("first")):
            for conversation in ("greedy", "greedy", "greedy", "greedy", "modest", "shy"):
                told = anyio.Event()
                group.start_soon(one, conversation, told)
                await told.wait()
    assert order == ["greedy", "modest", "shy", "greedy", "greedy", "greedy"]


async def test_time_is_spent_and_comes_back_with_the_window(tmp_path: Path) -> None:
    quotas = Quotas(principal=Quota(seconds=10), when_full=WhenFull.REFUSE, window_seconds=1000)
    async with ledger_in(tmp_path / "s", quotas) as ledger:
        async with ledger.reserve(claim("c", wanted=amounts(seconds=9))) as reservation:
            reservation.spent_seconds = 4
        with pytest.raises(QuotaExceededError, match=r"uses 4 s of 10 s of running time"):
            async with ledger.reserve(claim("d", wanted=amounts(seconds=7))):
                pass
        async with ledger.reserve(claim("c", principal="q", wanted=amounts(seconds=7))):
            pass
        lines = await standing_of(ledger.store, quotas)
        spent = {(each.account, each.name): each.used for each in lines if each.used}
        assert spent == {
            ("host", None): 4000,
            ("principal", "p"): 4000,
            ("conversation", "c"): 4000,
        }
        # The clock is set forward past the window, and back.
        await ledger.store.write(lambda tx: tx.execute("UPDATE quota_spent SET at = at - 1001"))
        async with ledger.reserve(claim("c", wanted=amounts(seconds=7))):
            pass


async def test_a_ledger_somebody_changed_is_said(tmp_path: Path) -> None:
    from sandboxrun.errors import StateError  # noqa: PLC0415

    async with ledger_in(tmp_path / "s", ONE_EACH) as ledger:
        await ledger._ask(claim("c"), bounds_of(ONE_EACH))
        await ledger.store.write(lambda tx: tx.execute("UPDATE quota_tickets SET owner = 'me'"))
        with pytest.raises(StateError, match="ledger of quotas was changed"):
            async with ledger.reserve(claim("c")):
                pass
        await ledger.store.write(lambda tx: tx.execute("DELETE FROM quota_tickets"))


def test_the_machine_fills_in_what_is_left_out() -> None:
    small = with_machine(Quotas(), cpus=2, memory_bytes=GIB, needed=2 * GIB)
    assert (small.host.runs, small.host.memory_bytes) == (16, 2 * GIB)
    large = with_machine(Quotas(), cpus=64, memory_bytes=100 * GIB, needed=2 * GIB)
    assert (large.host.runs, large.host.memory_bytes) == (512, int(90 * GIB))
    given = Quotas(host=Quota(runs=3, memory_bytes=GIB))
    assert with_machine(given, cpus=64, memory_bytes=100 * GIB, needed=2 * GIB) == given


def test_a_run_claims_its_limits() -> None:
    limits = Limits(cpus=1.5, memory_bytes=GIB, pids=9, disk_bytes=MIB)
    claimed = amounts_of(limits, timeout_seconds=2.5, writes=True)
    assert {each.value: amount for each, amount in claimed.items()} == {
        "runs": 1,
        "cpus": 1500,
        "memory_bytes": GIB,
        "processes": 9,
        "disk_bytes": MIB,
        "seconds": 2500,
        "writers": 1,
    }
    assert bounds_of(Quotas(host=Quota(cpus=0.5)))[Scope.HOST] == {Resource.CPUS: 500}
    assert claim().subjects[0] == HOST


def test_readers_pass_a_workspace_whose_line_is_full() -> None:
    assert bounds_of(Quotas())[Scope.WORKSPACE] == {Resource.WRITERS: 2}
    assert amounts_of(Limits(), timeout_seconds=1, writes=False)[Resource.WRITERS] == 0
