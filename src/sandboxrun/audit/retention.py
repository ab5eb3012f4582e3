"""Old runs and old records are removed on purpose, and the audit says so."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Final

from sandboxrun.audit import chain
from sandboxrun.audit.digest import sha256
from sandboxrun.audit.log import AuditLog
from sandboxrun.audit.record import Pruned, Record, opened
from sandboxrun.errors import StateError
from sandboxrun.state.runs import remove_settled

_BATCH: Final = 1000
"""Rows removed in one transaction, so that others wait milliseconds."""


@dataclass(frozen=True, slots=True)
class Collected:
    """What was removed."""

    runs: tuple[str, ...]
    """Ids of the runs whose rows are gone; files kept under these ids can go too."""
    records: int
    """Records removed from the beginning of the audit."""


async def collect(log: AuditLog, *, runs_before: str, records_before: str) -> Collected:
    """Remove settled runs and audit records older than the given times (RFC 3339, UTC).

    A record stays while its run's row does, and while an older one stays. What remains verifies:
    the new beginning is signed. Raises `StateError`, and removes nothing more, when a record
    that would go was changed. Cancellation between batches leaves the rest.
    """
    runs: list[str] = []
    store = log.store
    while gone := await store.write(
        lambda tx: remove_settled(tx, before=runs_before, limit=_BATCH), durable=False
    ):
        runs.extend(gone)
    records = 0
    while count := await store.write(lambda tx: _prune(tx, log, records_before)):
        records += count
    if runs or records:
        await log.make_durable()
        await store.give_back_space()
    return Collected(tuple(runs), records)


def _prune(tx: sqlite3.Connection, log: AuditLog, before: str) -> int:
    head = log.head(tx)
    going: list[Record] = []
    previous = head.first_previous
    for record in chain.after(tx, head.first_seq - 1, _BATCH):
        body = opened(record.text)
        if body.time >= before or _has_run(tx, record.run_id):
            break
        if body.previous != previous or body.seq != record.seq:
            raise StateError(
                f"Record {record.seq} of the audit was changed; it is not removed.",
                advice="`sandboxrun audit verify` names what was changed. Export it first.",
            )
        previous = sha256(record.text.encode())
        going.append(record)
    if not going or (len(going) == 1 and going[0].kind == "pruned"):
        return 0
    end = going[-1]
    chain.remove_through(tx, end.seq)
    shorter = head.model_copy(update={"first_seq": end.seq + 1, "first_previous": previous})
    log.set_head(tx, shorter)
    note = Pruned(
        first_seq=head.first_seq, last_seq=end.seq, last_hash=previous, reason="retention"
    )
    log.append(tx, note)
    return len(going)


def _has_run(tx: sqlite3.Connection, run_id: str | None) -> bool:
    if run_id is None:
        return False
    found = tx.execute("SELECT 1 FROM runs WHERE run_id = ?", (run_id,)).fetchone()
    return found is not None
