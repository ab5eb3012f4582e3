"""After a crash: remove what dead owners left in the engine and settle their runs as lost."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime

import anyio.to_thread

from sandboxrun.approval.approvals import close_ended
from sandboxrun.audit.digest import sha256
from sandboxrun.audit.log import AuditLog
from sandboxrun.audit.reading import records_of
from sandboxrun.audit.record import Intent, Receipt, opened
from sandboxrun.engine.protocol import Engine
from sandboxrun.engine.sandbox import REMOVE_SECONDS
from sandboxrun.model import labels
from sandboxrun.model.ids import new_id
from sandboxrun.model.limits import Limits
from sandboxrun.model.ordering import Ordering
from sandboxrun.model.outcome import Outcome, Usage
from sandboxrun.model.preview import Preview
from sandboxrun.model.status import Status
from sandboxrun.quota.ledger import Ledger
from sandboxrun.settle.reason import LOST
from sandboxrun.state.leases import lease
from sandboxrun.state.owner import Owner
from sandboxrun.state.runs import RunRow, Runs
from sandboxrun.workspace.workspaces import Workspaces


@dataclass(frozen=True, slots=True)
class Recovered:
    """What a recovery did."""

    containers: int
    mounts: int
    runs: int


async def recover(
    engine: Engine, audit: AuditLog, workspaces: Workspaces, ledger: Ledger
) -> Recovered:
    """Remove containers and mounts of dead owners, and settle their runs.

    One process at a time does it; others return at once. Nothing of a living owner or of another
    installation is touched. Raises engine faults and `StateError`. Cancelling leaves the rest to
    the next recovery: every step can be done again.
    """
    store = audit.store
    async with lease(store, "recovery") as held:
        if held is None:
            return Recovered(0, 0, 0)
        ours = {labels.INSTALLATION: store.directory.installation_id}
        containers = await _remove_containers(engine, ours)
        # After the containers: what they wrote is frozen as a snapshot of an interrupted run.
        mounts = (await workspaces.recover()).mounts
        await ledger.reclaim()
        runs = 0
        for row in await Runs(store).unsettled():
            if not await anyio.to_thread.run_sync(row.owner.is_alive):
                runs += await settle_lost(audit, row)
        await store.write(close_ended, durable=False)
        return Recovered(containers, mounts, runs)


async def settle_lost(audit: AuditLog, row: RunRow) -> bool:
    """Give a run of a dead owner its outcome; False when it has one. Raises `StateError`.

    Cancelling leaves it settled or not, never half.
    """
    intent = await _intent(audit, row.run_id)
    outcome = _lost(row, intent)
    text = outcome.model_dump_json()
    receipt = Receipt(
        receipt_id=outcome.receipt_id,
        run_id=row.run_id,
        started=intent is not None,
        principal=row.principal,
        workspace=row.workspace,
        command=sha256(row.request_json.encode()) if intent is None else intent.command,
        status=outcome.status.value,
        elapsed_seconds=outcome.elapsed_seconds,
        limits=outcome.limits,
        image=outcome.image,
        outcome=sha256(text.encode()),
    )
    return await audit.settle(receipt, outcome_json=text, durable=True)


async def _remove_containers(engine: Engine, wanted: dict[str, str]) -> int:
    removed = 0
    for container in await engine.list_containers(wanted):
        if await _abandoned(container.labels.get(labels.OWNER)):
            removed += await engine.remove(container.id, timeout_seconds=REMOVE_SECONDS)
    return removed


async def _abandoned(owner: str | None) -> bool:
    """Whether the owner is known to be dead. Unreadable labels are somebody's living object."""
    try:
        return owner is not None and not await anyio.to_thread.run_sync(Owner.parse(owner).is_alive)
    except ValueError:
        return False


async def _intent(audit: AuditLog, run_id: str) -> Intent | None:
    for record in await records_of(audit.store, run_id):
        entry = opened(record.text).entry
        if isinstance(entry, Intent):
            return entry
    return None


def _lost(row: RunRow, intent: Intent | None) -> Outcome:
    limits = Limits() if intent is None else intent.limits
    asked = json.loads(row.request_json).get("limits")
    if intent is None and asked is not None:
        limits = Limits.model_validate(asked)
    return Outcome(
        run_id=row.run_id,
        workspace=row.workspace,
        principal=row.principal,
        conversation=row.conversation,
        status=Status.LOST,
        exit_code=None,
        signal=None,
        reason=LOST,
        started_at=datetime.fromisoformat(row.started_at),
        elapsed_seconds=0.0,
        timings={},
        preview=Preview(),
        ordering=Ordering.ARRIVAL,
        image=None if intent is None else intent.image,
        usage=Usage(),
        limits=limits,
        receipt_id=new_id("receipt"),
    )
