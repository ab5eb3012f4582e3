"""What the tests of state and audit have in common: small true-to-life values."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from sandboxrun.audit.digest import sha256
from sandboxrun.audit.log import AuditLog, open_audit
from sandboxrun.audit.record import Intent, Receipt
from sandboxrun.model.ids import new_id
from sandboxrun.model.limits import Limits
from sandboxrun.state.clock import timestamp
from sandboxrun.state.directory import StateDirectory
from sandboxrun.state.owner import Owner
from sandboxrun.state.runs import NewRun, Runs
from sandboxrun.state.store import Store, open_store

COMMAND = sha256(b"echo hello")


def new_run(run_id: str | None = None, *, workspace: str | None = None) -> NewRun:
    return NewRun(
        run_id=new_id("run") if run_id is None else run_id,
        workspace=workspace,
        principal="tester",
        conversation=None,
        started_at=timestamp(),
        request_json='{"command":"echo hello"}',
    )


def intent(run_id: str, owner: Owner | str = "nobody") -> Intent:
    return Intent(
        run_id=run_id,
        principal="tester",
        command=COMMAND,
        env={"TOKEN": sha256(b"x")},
        limits=Limits(),
        owner=str(owner),
    )


def receipt(
    run_id: str, outcome_json: str, *, started: bool = True, status: str = "succeeded"
) -> Receipt:
    return Receipt(
        receipt_id=f"rcpt-{run_id}",
        run_id=run_id,
        started=started,
        principal="tester",
        command=COMMAND,
        status=status,
        exit_code=0 if status == "succeeded" else None,
        elapsed_seconds=0.25,
        timings={"launch": 3.5},
        limits=Limits(),
        outcome=sha256(outcome_json.encode()),
    )


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[tuple[Store, AuditLog]]:
    with StateDirectory.open(path) as directory:
        async with open_store(directory) as store:
            yield store, await open_audit(store)


async def complete(log: AuditLog, run_id: str | None = None) -> str:
    """Take one run through the store as the pipeline does."""
    run = new_run(run_id)
    await Runs(log.store).insert(run, durable=False)
    await log.intent(intent(run.run_id, log.store.owner))
    outcome = f'{{"run_id":"{run.run_id}"}}'
    assert await log.settle(receipt(run.run_id, outcome), outcome_json=outcome)
    return run.run_id


async def recover(log: AuditLog) -> int:
    """Settle what dead owners left, as recovery does."""
    count = 0
    for run in await Runs(log.store).unsettled():
        if not run.owner.is_alive():
            lost = receipt(run.run_id, '{"status":"lost"}', started=False, status="lost")
            count += await log.settle(lost, outcome_json='{"status":"lost"}')
    return count
