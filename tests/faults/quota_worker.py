"""A process whose tasks take and give back quota without end, until it is killed."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import anyio
from tests.quota_samples import amounts, claim, ledger_in

from sandboxrun.model.quotas import Quota, Quotas
from sandboxrun.quota.ledger import Ledger

QUOTAS = Quotas(host=Quota(runs=5), conversation=Quota(runs=2))
CONVERSATIONS = ("a", "b", "c", "d")
TASKS = 8


async def endlessly(ledger: Ledger, chance: random.Random) -> None:
    while True:
        wanted = claim(chance.choice(CONVERSATIONS), wanted=amounts())
        with anyio.move_on_after(chance.uniform(0, 0.3)):
            async with ledger.reserve(wanted):
                sys.stdout.write("granted\n")
                sys.stdout.flush()
                await anyio.sleep(chance.uniform(0, 0.01))


async def main(path: Path, seed: int) -> None:
    async with ledger_in(path, QUOTAS) as ledger, anyio.create_task_group() as tasks:
        for task in range(TASKS):
            tasks.start_soon(endlessly, ledger, random.Random(seed * TASKS + task))


if __name__ == "__main__":
    SEED = int(sys.argv[2])
    anyio.run(main, Path(sys.argv[1]), SEED, backend=("asyncio", "trio")[SEED % 2])
