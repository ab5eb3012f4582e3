"""The audit as it is read: verified, shown, exported. Nothing here writes."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Final

import anyio.to_thread

from sandboxrun.audit import anchor, chain
from sandboxrun.audit.digest import sha256
from sandboxrun.audit.record import Record
from sandboxrun.audit.signing import SignedHead, public_key
from sandboxrun.audit.verdict import Observed, Statements, Verdict
from sandboxrun.audit.verify import verify
from sandboxrun.state.store import Store

_BATCH: Final = 500


async def verify_store(
    store: Store, *, key: str | None = None, against: SignedHead | None = None
) -> Verdict:
    """Verify the whole audit of a store on one consistent view, without changing anything.

    ``key`` is the public key to believe (raw, hexadecimal); None takes the installation's.
    ``against`` is a signed head kept elsewhere; None takes the anchor file. Raises `StateError`.
    Cancellation is delivered when the verification ends.
    """
    if key is None:
        key = await anyio.to_thread.run_sync(public_key, store.directory)
    # Before the view is taken: a later anchor may be ahead of it.
    outside = await anyio.to_thread.run_sync(anchor.read, store.directory)
    believed = key if key is not None else ""

    def work(tx: sqlite3.Connection) -> Verdict:
        statements = Statements(
            head=chain.head(tx),
            anchor=outside if against is None else against,
            key=believed,
        )
        return verify(_observed(tx), statements, unreceipted=_unreceipted(tx))

    return await store.read(work)


async def records_of(store: Store, run_id: str) -> tuple[Record, ...]:
    """Return the records about one run, in order. Raises `StateError`."""
    return await store.read(lambda tx: chain.of_run(tx, run_id))


async def every_record(store: Store) -> AsyncIterator[Record]:
    """Yield every record in order, in bounded memory. Raises `StateError`."""
    seq = -1
    while batch := await store.read(lambda tx, after=seq: chain.after(tx, after, _BATCH)):  # type: ignore[misc]
        for record in batch:
            yield record
        seq = batch[-1].seq


async def receipts_of(store: Store, run_ids: Sequence[str]) -> dict[str, Record]:
    """Return the receipt of each run that has one. Raises `StateError`."""

    def work(tx: sqlite3.Connection) -> dict[str, Record]:
        found = (record for run_id in run_ids for record in chain.of_run(tx, run_id))
        return {
            record.run_id: record for record in found if record.run_id and record.kind == "receipt"
        }

    return await store.read(work)


async def last_head(store: Store) -> SignedHead | None:
    """Return the signed head in the database, as it is stored. Raises `StateError`."""
    return await store.read(chain.head)


def _observed(tx: sqlite3.Connection) -> Iterator[Observed]:
    rows = tx.execute(
        "SELECT a.seq, a.run_id, a.kind, a.record, a.hash, r.outcome FROM audit a"
        " LEFT JOIN runs r ON a.kind = 'receipt' AND r.run_id = a.run_id ORDER BY a.seq"
    )
    for seq, run_id, kind, text, digest, outcome in rows:
        stored = None if outcome is None else sha256(outcome.encode())
        yield Observed(Record(seq, run_id, kind, text, digest), stored)


def _unreceipted(tx: sqlite3.Connection) -> list[str]:
    rows = tx.execute(
        "SELECT run_id FROM runs WHERE status IS NOT NULL AND NOT EXISTS"
        " (SELECT 1 FROM audit WHERE audit.run_id = runs.run_id AND kind = 'receipt')"
    )
    return [run_id for (run_id,) in rows]
