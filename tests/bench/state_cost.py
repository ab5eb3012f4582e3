"""What the store and the audit cost with 10, 1,000 and 100,000 past runs.

Run it: ``python -m tests.bench.state_cost [--json]``. The three databases are measured in turn,
one operation at a time, so that what else the machine does falls on all of them alike.
"""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median, quantiles
from tempfile import mkdtemp

import anyio
from tests.state_samples import intent, new_run, opened, receipt

from sandboxrun.audit.log import AuditLog, open_audit
from sandboxrun.audit.reading import records_of, verify_store
from sandboxrun.state.directory import StateDirectory
from sandboxrun.state.runs import Runs, insert_run, settle_run
from sandboxrun.state.store import open_store

SIZES = (10, 1_000, 100_000)
ROUNDS = 400
BATCH = 500
OUTCOME = json.dumps({"status": "succeeded", "preview": {"text": "line of output\n" * 200}})
"""About 3 KiB, as a run with some output has."""


async def fill(log: AuditLog, count: int) -> list[str]:
    """Add past runs by the same calls as real ones, many in one transaction."""
    ids: list[str] = []
    while len(ids) < count:
        batch = [
            new_run(workspace=f"ws{len(ids) % 7}") for _ in range(min(BATCH, count - len(ids)))
        ]

        def work(tx: sqlite3.Connection, batch: list = batch) -> None:  # type: ignore[type-arg]
            for run in batch:
                insert_run(tx, run, log.store.owner)
                log.append(tx, intent(run.run_id, log.store.owner))
                settle_run(tx, run.run_id, status="succeeded", outcome_json=OUTCOME)
                log.append(tx, receipt(run.run_id, OUTCOME))

        await log.store.write(work, durable=False)
        ids += [run.run_id for run in batch]
    await log.make_durable()
    return ids


class Subject:
    """One database with its past."""

    def __init__(self, log: AuditLog, past: list[str]) -> None:
        self.log = log
        self.runs = Runs(log.store)
        self.past = past
        self.new: list[str] = []
        self.times: dict[str, list[float]] = {}

    async def measure(self, name: str, work: Callable[[], Awaitable[object]]) -> None:
        began = time.perf_counter()
        await work()
        self.times.setdefault(name, []).append((time.perf_counter() - began) * 1000)

    async def round(self, chance: random.Random) -> None:
        """One new run, and some looking up of old ones."""
        run = new_run(workspace="ws1")
        known = chance.choice(self.past)
        await self.measure("insert run", lambda: self.runs.insert(run, durable=False))
        begun = intent(run.run_id, self.log.store.owner)
        await self.measure("intent (one sync)", lambda: self.log.intent(begun))
        ended = receipt(run.run_id, OUTCOME)
        await self.measure("settle + receipt", lambda: self.log.settle(ended, outcome_json=OUTCOME))
        await self.measure("get by id", lambda: self.runs.get(known))
        await self.measure("audit of a run", lambda: records_of(self.log.store, known))
        await self.measure("list 20", lambda: self.runs.list(limit=20))
        await self.measure(
            "list 20 of a workspace", lambda: self.runs.list(limit=20, workspace="ws1")
        )
        await self.measure("unsettled", self.runs.unsettled)


async def open_again(path: Path) -> float:
    """Return the milliseconds of opening directory, store and audit, as each command does."""
    began = time.perf_counter()
    with StateDirectory.open(path) as directory:
        async with open_store(directory) as store:
            await open_audit(store)
            return (time.perf_counter() - began) * 1000


async def main() -> dict[str, dict[str, list[float]]]:
    """Measure, and return milliseconds by operation and size."""
    root = Path(mkdtemp(prefix="state-bench-"))
    chance = random.Random(1)
    try:
        async with AsyncExitStack() as stack:
            subjects = []
            for size in SIZES:
                _, log = await stack.enter_async_context(opened(root / str(size)))
                subjects.append(Subject(log, await fill(log, size)))
            for _ in range(ROUNDS):
                for subject in subjects:
                    await subject.round(chance)
            began = time.perf_counter()
            verdict = await verify_store(subjects[-1].log.store)
            spent = time.perf_counter() - began
            assert verdict.intact
            sys.stderr.write(f"audit verify: {verdict.records} records in {spent:.1f} s\n")
        result = {name: {} for name in subjects[0].times}  # type: dict[str, dict[str, list[float]]]
        for size, subject in zip(SIZES, subjects, strict=True):
            for name, times in subject.times.items():
                result[name][str(size)] = times
        result["open again"] = {str(size): [] for size in SIZES}
        for _ in range(20):
            for size in SIZES:
                result["open again"][str(size)].append(await open_again(root / str(size)))
        return result
    finally:
        shutil.rmtree(root)


def report(result: dict[str, dict[str, list[float]]]) -> None:
    """Print medians, the 95th percentile at the largest size, and the ratio of the extremes."""
    head = "".join(f"{size:>12,}" for size in SIZES)
    sys.stdout.write(f"{'median ms at past runs':<26}{head}{'p95':>10}{'ratio':>8}\n")
    for name, by_size in result.items():
        medians = [median(by_size[str(size)]) for size in SIZES]
        last = quantiles(by_size[str(SIZES[-1])], n=20)[-1]
        row = "".join(f"{value:>12.3f}" for value in medians)
        ratio = medians[-1] / medians[0]
        sys.stdout.write(f"{name:<26}{row}{last:>10.3f}{ratio:>8.2f}\n")


if __name__ == "__main__":
    measured = anyio.run(main)
    if "--json" in sys.argv[1:]:
        sys.stdout.write(json.dumps(measured) + "\n")
    else:
        report(measured)
