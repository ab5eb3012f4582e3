"""Old runs and old records are removed on purpose, and the audit says so."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Final

from pydantic import ValidationError

from sandboxrun.audit import chain
from sandboxrun.audit.digest import sha256
from sandboxrun.audit.log import AuditLog
from sandboxrun.audit.record import Body, Pruned, Record, opened
from sandboxrun.audit.signing import Head
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
    going = _going(tx, head, before)
    if not going or (len(going) == 1 and going[0].kind == "pruned"):
        return 0
    end = going[-1]
    following = chain.record(tx, end.seq + 1)
    pinned = head.hash if following is None else _sealed(following).previous
    if end.hash != pinned:
        raise _changed(end)
    chain.remove_through(tx, end.seq)
    log.set_head(tx, head.model_copy(update={"first_seq": end.seq + 1, "first_previous": end.hash}))
    note = Pruned(
        first_seq=head.first_seq, last_seq=end.seq, last_hash=end.hash, reason="retention"
    )
    log.append(tx, note)
    return len(going)


def _going(tx: sqlite3.Connection, head: Head, before: str) -> list[Record]:
    """Return the first records that may go, each checked to be what was sealed."""
    going: list[Record] = []
    previous = head.first_previous
    for record in chain.after(tx, head.first_seq - 1, _BATCH):
        body = _sealed(record)
        if body.previous != previous:
            raise _changed(record)
        if body.time >= before or _has_run(tx, record.run_id):
            break
        previous = record.hash
        going.append(record)
    return going


def _sealed(record: Record) -> Body:
    try:
        body = opened(record.text)
    except ValidationError as error:
        raise _changed(record) from error
    if sha256(record.text.encode()) != record.hash or body.seq != record.seq:
        raise _changed(record)
    return body


def _changed(record: Record) -> StateError:
    return StateError(
        f"Record {record.seq} of the audit was changed; no record is removed.",
        advice="`sandboxrun audit verify` names what was changed. Export the audit first.",
    )


def _has_run(tx: sqlite3.Connection, run_id: str | None) -> bool:
    if run_id is None:
        return False
    found = tx.execute("SELECT 1 FROM runs WHERE run_id = ?", (run_id,)).fetchone()
    return found is not None
