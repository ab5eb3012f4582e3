"""A process that uses the store as the pipeline does, on command, to be killed at any moment.

One JSON object a line on stdin, one answer a line on stdout. ``loop`` never ends: it prints what
it has been promised, as soon as it has been promised it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from tests.state_samples import complete, intent, new_run, opened, receipt, recover

from sandboxrun.audit.log import AuditLog
from sandboxrun.audit.retention import collect
from sandboxrun.errors import SandboxrunError
from sandboxrun.state.leases import lease
from sandboxrun.state.requests import RequestKind, ask
from sandboxrun.state.runs import Runs

AFTER_EVERYTHING = "9999"


def say(**answer: Any) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


async def loop(log: AuditLog, workers: int) -> None:
    """Run after run in several tasks, until killed."""

    async def one() -> None:
        while True:
            run = new_run()
            await Runs(log.store).insert(run, durable=False)
            await log.intent(intent(run.run_id, log.store.owner))
            say(intent=run.run_id)
            outcome = json.dumps({"run_id": run.run_id, "pad": "x" * 3000})
            await log.settle(receipt(run.run_id, outcome), outcome_json=outcome)
            say(settled=run.run_id)
            await log.make_durable()

    async def duties() -> None:
        while True:
            async with lease(log.store, "recovery") as held:
                if held is not None:
                    await recover(log)
            await anyio.sleep(0.01)

    async with anyio.create_task_group() as tasks:
        for _ in range(workers):
            tasks.start_soon(one)
        tasks.start_soon(duties)


async def perform(log: AuditLog, order: dict[str, Any]) -> Any:  # noqa: PLR0911 - one a verb
    store, run_id = log.store, order.get("run_id", "")
    match order["do"]:
        case "insert":
            run = new_run()
            await Runs(store).insert(run, durable=False)
            return run.run_id
        case "intent":
            return await log.intent(intent(run_id, store.owner))
        case "settle":
            outcome = json.dumps({"by": str(store.owner), "status": order["status"]})
            written = receipt(run_id, outcome, started=order["started"], status=order["status"])
            return await log.settle(written, outcome_json=outcome)
        case "burst":
            for _ in range(order["count"]):
                await complete(log)
            return None
        case "ask":
            return await ask(store, run_id, RequestKind.CANCEL)
        case "durable":
            return await log.make_durable()
        case "recover":
            async with lease(store, "recovery") as held:
                return None if held is None else await recover(log)
        case "collect":
            gone = await collect(log, runs_before=AFTER_EVERYTHING, records_before=AFTER_EVERYTHING)
            return [list(gone.runs), gone.records]
        case unknown:
            raise ValueError(unknown)


async def main(path: Path) -> None:
    async with opened(path) as (_, log):
        say(ready=True)
        while line := await anyio.to_thread.run_sync(sys.stdin.readline):
            order = json.loads(line)
            if order["do"] == "loop":
                await loop(log, order["workers"])
            try:
                say(result=await perform(log, order))
            except SandboxrunError as fault:
                say(fault=fault.code, message=fault.message)


anyio.run(main, Path(sys.argv[1]), backend=sys.argv[2])
