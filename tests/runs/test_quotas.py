"""Quotas of real runs: waited for, refused with the numbers, given back, shown."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from run_bench import Bench

from real_engine import engine_url
from sandboxrun import Runner, Settings, Status
from sandboxrun.model.limits import GIB, MIB, Limits
from sandboxrun.model.quotas import Quota, Quotas, WhenFull
from sandboxrun.quota import rows
from sandboxrun.runner import Run

pytestmark = [pytest.mark.engine, pytest.mark.docker, pytest.mark.anyio]


@asynccontextmanager
async def runner_with(path: Path, quotas: Quotas) -> AsyncIterator[Runner]:
    settings = Settings(state_dir=path / "s", engine=engine_url(), policy="rollout", quotas=quotas)
    async with Runner.open(settings) as runner:
        yield runner
        assert await runner._store.read(rows.rows) == ()


async def _until(run: Run, kind: str) -> Any:
    async with aclosing(run.events()) as events:
        async for event in events:
            if event.type == kind:
                return event
    raise AssertionError(f"the run ended without {kind}")


async def test_a_second_run_waits_says_so_and_is_not_timed_meanwhile(tmp_path: Path) -> None:
    async with runner_with(tmp_path, Quotas(conversation=Quota(runs=1))) as runner:
        first = await runner.start("sleep 60", conversation="c")
        await _until(first, "started")
        second = await runner.start("echo here", conversation="c", timeout_seconds=1.0)
        waiting = await _until(second, "waiting")
        assert waiting.reason == (
            "The conversation 'c' uses 1 of 1 runs at a time, and this run needs 1."
        )
        other = await runner.run("true", conversation="d")
        assert other.status is Status.SUCCEEDED
        await anyio.sleep(1.1)  # longer than its time limit, which is for the command alone
        await first.cancel()
        outcome = await second.outcome()
        assert outcome.status is Status.SUCCEEDED
        assert outcome.timings["reserve"] > 1000
        assert outcome.elapsed_seconds < 1


async def test_a_cancelled_wait_is_a_cancelled_run(tmp_path: Path) -> None:
    async with runner_with(tmp_path, Quotas(host=Quota(runs=1))) as runner:
        first = await runner.start("sleep 60")
        await _until(first, "started")
        second = await runner.start("echo here")
        await _until(second, "waiting")
        assert (await second.cancel()).status is Status.CANCELLED
        assert (await first.cancel()).status is Status.CANCELLED


async def test_a_run_is_refused_with_the_numbers(tmp_path: Path) -> None:
    quotas = Quotas(
        host=Quota(memory_bytes=GIB), principal=Quota(cpus=2), when_full=WhenFull.REFUSE
    )
    small = Limits(cpus=1.5, memory_bytes=64 * MIB)
    async with runner_with(tmp_path, quotas) as runner:
        too_large = await runner.run("true", limits=Limits(memory_bytes=2 * GIB))
        assert too_large.status is Status.QUOTA_EXCEEDED
        assert too_large.reason.startswith(
            "This host may have 1,024 MiB of memory, and this run alone needs 2,048 MiB."
        )
        assert too_large.image is not None
        first = await runner.start("sleep 60", limits=small, principal="p")
        await _until(first, "started")
        second = await runner.run("true", limits=small, principal="p")
        assert second.status is Status.QUOTA_EXCEEDED
        assert second.reason.startswith(
            "The principal 'p' uses 1.5 of 2 CPUs, and this run needs 1.5. Wait for other runs"
        )
        assert second.exit_code is None
        third = await runner.run("true", limits=small, principal="q")
        assert third.status is Status.SUCCEEDED
        await first.cancel()


async def test_writers_of_one_workspace_leave_room_for_others(tmp_path: Path) -> None:
    async with runner_with(tmp_path, Quotas(host=Quota(runs=3))) as runner:
        for name in ("one", "two"):
            await runner.workspaces.create(name)
        first = await runner.start("sleep 60", workspace="one")
        await _until(first, "started")
        queued = [await runner.start("touch x", workspace="one") for _ in range(4)]
        for run in queued:
            await _until(run, "waiting")
        assert (await runner.run("touch x", workspace="two")).status is Status.SUCCEEDED
        reader = await runner.run("ls", workspace="one", read_only=True)
        assert reader.status is Status.SUCCEEDED
        await first.cancel()
        ended = [await run.outcome() for run in queued]
        assert {each.status for each in ended} == {Status.SUCCEEDED}


async def test_running_time_is_a_budget(tmp_path: Path) -> None:
    quotas = Quotas(conversation=Quota(seconds=3), when_full=WhenFull.REFUSE)
    async with runner_with(tmp_path, quotas) as runner:
        fields: dict[str, Any] = {"conversation": "c", "timeout_seconds": 1.5}
        used = await runner.run("sleep 1.6", **fields)
        assert used.status is Status.TIMED_OUT
        refused = await runner.run("true", **fields)
        assert refused.status is Status.QUOTA_EXCEEDED
        assert "of 3 s of running time" in refused.reason
        fields["timeout_seconds"] = 0.5
        assert (await runner.run("true", **fields)).status is Status.SUCCEEDED


def test_the_command_line_says_75_and_shows_who_has_what(bench: Bench) -> None:
    refused = bench.cli(
        "exec", "--json", "true", env={"SANDBOXRUN_QUOTAS__HOST__MEMORY_BYTES": str(100 * MIB)}
    )
    assert refused.returncode == 75, refused
    assert json.loads(refused.stdout)["status"] == "quota_exceeded"

    async def shown() -> list[dict[str, Any]]:
        run = await bench.runner.start(
            "sleep 60", conversation="c", principal="p", limits=Limits(memory_bytes=GIB)
        )
        await _until(run, "started")
        answer = await anyio.to_thread.run_sync(bench.cli, "quota", "show", "--json")
        table = await anyio.to_thread.run_sync(bench.cli, "quota", "show")
        assert b"conversation" in table.stdout
        await run.cancel()
        lines: list[dict[str, Any]] = json.loads(answer.stdout)
        return lines

    found = {
        (each["account"], each["name"], each["resource"]): each for each in bench.portal.call(shown)
    }
    assert found["host", None, "runs"]["used"] == 1
    assert found["host", None, "runs"]["bound"] >= 8
    assert found["conversation", "c", "memory_bytes"]["used"] == GIB
    assert found["conversation", "c", "memory_bytes"]["principal"] == "p"
    assert found["principal", "p", "cpus"]["used"] == 2000
    after = json.loads(bench.cli("quota", "show", "--json").stdout)
    assert {each["used"] for each in after} == {0}
