"""kill -9 at any moment: nothing torn, nothing promised lost, one outcome for every run."""

from __future__ import annotations

import random
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import anyio
import pytest
from tests.faults.state_process import Worker
from tests.state_samples import opened, recover

from sandboxrun.audit.reading import verify_store
from sandboxrun.audit.verdict import Verdict
from sandboxrun.state.runs import Runs


async def _reopen(path: Path) -> tuple[Verdict, set[str], set[str]]:
    """Come back as the next process does; return the verdict, the settled and the started runs."""
    async with opened(path) as (store, log):
        assert not store.opened.created
        await recover(log)
        assert await Runs(store).unsettled() == ()
        rows = await store.read(lambda tx: tx.execute("SELECT run_id, kind FROM audit").fetchall())
        settled = await store.read(
            lambda tx: tx.execute("SELECT run_id FROM runs WHERE status IS NOT NULL").fetchall()
        )
        receipts = [run_id for run_id, kind in rows if kind == "receipt"]
        assert len(receipts) == len(set(receipts))
        assert set(receipts) == {run_id for (run_id,) in settled}
        started = {run_id for run_id, kind in rows if kind == "intent"}
        return await verify_store(store), set(receipts), started


def _kill_at_random_moments(path: Path, moments: int, seed: int) -> None:
    chance = random.Random(seed)
    intents: set[str] = set()
    settled: set[str] = set()
    for number in range(moments):
        backend = ("asyncio", "trio")[number % 2]
        workers = [Worker(path, backend) for _ in range(chance.choice((1, 1, 3)))]
        # Now and then before it is even open.
        if chance.random() > 0.15:
            for worker in workers:
                worker.ready()
                worker.send("loop", workers=chance.choice((1, 3)))
        time.sleep(chance.uniform(0, 0.12))
        for worker in workers:
            for said in worker.kill():
                intents |= {said["intent"]} if "intent" in said else set()
                settled |= {said["settled"]} if "settled" in said else set()
        verdict, receipts, started = anyio.run(_reopen, path)
        assert verdict.intact, (seed, number, verdict.findings)
        assert not verdict.breaks, (seed, number, verdict.breaks)
        assert intents <= started, (seed, number)
        assert settled <= receipts, (seed, number)
    assert len(settled) > moments
    with closing(sqlite3.connect(path / "state.db")) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert db.execute("PRAGMA foreign_key_check").fetchall() == []


def test_forty_kills(tmp_path: Path) -> None:
    _kill_at_random_moments(tmp_path / "s", 40, seed=random.randrange(2**32))


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_four_hundred_kills(tmp_path: Path) -> None:
    _kill_at_random_moments(tmp_path / "s", 400, seed=random.randrange(2**32))
