"""Processes that share a ledger and are killed at it never have more than there is."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import anyio
import pytest
from tests.faults.quota_worker import CONVERSATIONS, QUOTAS
from tests.quota_samples import ledger_in

from sandboxrun.quota import rows
from sandboxrun.quota.admission import usage_of
from sandboxrun.quota.bounds import bounds_of

ROOT = Path(__file__).parents[2]
PROCESSES = 4
KILLS = 12


def _worker(path: Path, seed: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.faults.quota_worker", str(path), str(seed)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
    )


def _granted(worker: subprocess.Popen[bytes]) -> None:
    assert worker.stdout is not None
    assert worker.stdout.readline() == b"granted\n", "it ended by itself"


def _ended(worker: subprocess.Popen[bytes]) -> int:
    """Kill -9, and return how often it had been granted something."""
    worker.kill()
    said, _ = worker.communicate()
    return said.count(b"granted\n")


@pytest.mark.fault("F1")
@pytest.mark.anyio
async def test_processes_that_die_at_it_never_have_too_much(tmp_path: Path) -> None:
    path, chance = tmp_path / "s", random.Random(1)
    async with ledger_in(path, QUOTAS) as ours:
        workers = [_worker(path, seed) for seed in range(PROCESSES)]
        for worker in workers:
            await anyio.to_thread.run_sync(_granted, worker)
        seen: Counter[str] = Counter()
        done = 0
        for kill in range(KILLS):
            for _ in range(40):
                found = await ours.store.read(rows.rows)
                usage = usage_of(each.ticket.claim for each in found if each.ticket.held)
                for (subject, resource), used in usage.items():
                    assert used <= bounds_of(QUOTAS)[subject.scope].get(resource, used)
                seen.update(
                    str(each.ticket.claim.conversation) for each in found if each.ticket.held
                )
            victim = chance.randrange(PROCESSES)
            done += _ended(workers[victim])
            workers[victim] = _worker(path, PROCESSES + kill)
            await anyio.to_thread.run_sync(_granted, workers[victim])
        done += sum(_ended(worker) for worker in workers)
        assert done > KILLS * 10, "it did work"
        assert set(seen) == set(CONVERSATIONS)
        await ours.reclaim()
        assert await ours.store.read(rows.rows) == ()
