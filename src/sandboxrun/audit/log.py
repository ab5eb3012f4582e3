"""The audit as the pipeline writes it.

Records are rows of the same database as the runs they are about, so that a run's row and its
record are committed together or not at all, with one sync. Who may write a record is whoever
holds SQLite's write lock: the order of the chain is the order of the commits of all processes.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import anyio
import anyio.to_thread
import structlog

from sandboxrun.audit import anchor, chain
from sandboxrun.audit.continuity import ANCHOR_GONE, Continuation, Surroundings, judge, verified
from sandboxrun.audit.record import (
    Break,
    BreakReason,
    Contradiction,
    Entry,
    Instant,
    Intent,
    Receipt,
    Record,
    seal,
)
from sandboxrun.audit.signing import Head, SignedHead, Signer
from sandboxrun.errors import StateError, UnknownRunError
from sandboxrun.state.runs import settle_run
from sandboxrun.state.store import Store

_FINISH_SECONDS: Final = 5.0
_LOOK: Final = "`sandboxrun audit verify` names what was changed; nothing runs until it is settled."


@dataclass(slots=True)
class AuditLog:
    """The open audit of a store. Made by `open_audit`; end its use with `finish`."""

    store: Store
    signer: Signer
    _trusted: SignedHead | None = None
    """The last head this process wrote or checked, so that it need not check it again."""
    _anchored: bool = False
    """The anchor was there: if it is gone later, somebody took it."""
    _written: anyio.Event = field(default_factory=anyio.Event)
    """Something was settled that may not be on the disk yet."""

    @property
    def env_secret(self) -> bytes:
        """Key of the digests of environment values."""
        return self.signer.secret("environment values")

    async def intent(
        self, intent: Intent, *, also: Callable[[sqlite3.Connection], None] | None = None
    ) -> None:
        """Write down, durably, that a run is about to start. Nothing may start before it returns.

        ``also`` runs in the same transaction (and so under the same single sync), before it.
        Raises `StateError` when it cannot be recorded or the run has ended already, and
        `UnknownRunError`. When cancelled, the intent may or may not have been written: settle
        the run either way.
        """

        def work(tx: sqlite3.Connection) -> None:
            if also is not None:
                also(tx)
            row = tx.execute(
                "SELECT status FROM runs WHERE run_id = ?", (intent.run_id,)
            ).fetchone()
            if row is None:
                raise UnknownRunError(f"There is no run {intent.run_id!r}.")
            if row[0] is not None:
                raise StateError(f"The run {intent.run_id} has ended ({row[0]}); it cannot start.")
            self.append(tx, intent)

        await self.store.write(work)

    async def settle(self, receipt: Receipt, *, outcome_json: str, durable: bool = False) -> bool:
        """Give a run its one outcome and receipt, together.

        Returns False, and writes nothing, when it has them already. By default it survives
        kill -9 at once and power loss after the next durable write of any process, which
        `keep_durable` sees to. Raises `StateError`, `UnknownRunError`. Once begun
        it runs to its end even when cancelled.
        """

        def work(tx: sqlite3.Connection) -> bool:
            settled = settle_run(
                tx, receipt.run_id, status=receipt.status, outcome_json=outcome_json
            )
            if settled:
                self.append(tx, receipt)
            return settled

        settled = await self.store.write(work, durable=durable)
        self._written.set()
        return settled

    async def contradict(self, run_id: str, detail: str) -> None:
        """Record, and say loudly, that the engine contradicts how a run was settled.

        Raises `StateError`. Once begun it runs to its end even when cancelled.
        """
        structlog.get_logger().error("engine_contradicts", run_id=run_id, detail=detail)
        entry = Contradiction(run_id=run_id, detail=detail)

        def work(tx: sqlite3.Connection) -> None:
            self.append(tx, entry)

        await self.store.write(work)

    async def keep_durable(self) -> None:
        """Bring receipts to the disk, behind the outcomes they are about, until cancelled.

        Run as one task beside the runs; what many runs settle meanwhile is one step. A fault is
        logged and tried again with the next receipt. After it, call `finish`.
        """
        while True:
            await self._written.wait()
            self._written = anyio.Event()
            try:
                await self.make_durable()
            except StateError as fault:
                structlog.get_logger().warning("audit_not_durable", error=fault.message)

    async def finish(self) -> None:
        """Bring the last receipts to the disk, when the last run has been settled.

        Shielded from cancellation and bounded. A fault is logged: what was recorded stays, and
        is brought to the disk by whoever writes next.
        """
        with anyio.move_on_after(_FINISH_SECONDS, shield=True):
            try:
                await self.make_durable()
            except StateError as fault:
                structlog.get_logger().warning("audit_not_durable", error=fault.message)

    async def make_durable(self) -> None:
        """Bring what was written so far to the disk, and anchor it outside the database.

        Costs two syncs and is meant for after an outcome was handed out. Raises `StateError`.
        Cancellation leaves the chain whole and perhaps not anchored yet.
        """
        signed = await self.store.write(_rewritten_head)
        head = verified(signed, self.signer.key)
        if signed is None or head is None:
            raise _not_signed()
        await self.store.write(lambda tx: self._anchor(tx, head, signed), durable=False)
        await self.store.tidy()

    def append(self, tx: sqlite3.Connection, entry: Entry) -> Record:
        """Add one record inside a caller's transaction.

        Raises `StateError` when the chain is not the one that was signed, or ``entry`` cannot be
        said in canonical JSON.
        """
        head = self.head(tx)
        at = Instant.now()
        record = seal(entry, seq=head.seq + 1, previous=head.hash, at=at)
        try:
            chain.insert(tx, record)
        except sqlite3.IntegrityError as taken:
            raise StateError(
                f"The audit holds a record {record.seq} that nobody signed.", advice=_LOOK
            ) from taken
        extended = {"seq": record.seq, "hash": record.hash, "time": at.time}
        self.set_head(tx, head.model_copy(update=extended))
        return record

    def head(self, tx: sqlite3.Connection) -> Head:
        """Return how far the chain goes, inside a caller's transaction.

        Raises `StateError` when that was not signed by this installation.
        """
        signed = chain.head(tx)
        if signed is None or signed != self._trusted:
            head = verified(signed, self.signer.key)
            if head is None:
                raise _not_signed()
            return head
        return signed.head

    def set_head(self, tx: sqlite3.Connection, head: Head) -> None:
        """Sign ``head`` and store it, inside a caller's transaction."""
        signed = self.signer.sign(head)
        chain.set_head(tx, signed)
        self._trusted = signed

    def _anchor(self, tx: sqlite3.Connection, durable: Head, signed: SignedHead) -> None:
        """Anchor a head that is on the disk. Holding the write lock keeps anchors in order."""
        before = verified(anchor.read(self.store.directory), self.signer.key)
        if before is None and self._anchored:
            self.append(tx, Break(reason=BreakReason.ANCHOR_MISSING, detail=ANCHOR_GONE))
        if before is None or before.seq < durable.seq:
            anchor.write(self.store.directory, signed)
        self._anchored = True

    def _surroundings(self, tx: sqlite3.Connection) -> Surroundings:
        outside = anchor.read(self.store.directory)
        signed = verified(outside, self.signer.key)
        return Surroundings(
            installation=self.store.directory.installation_id,
            key=self.signer.key,
            head=chain.head(tx),
            anchor=outside,
            first=chain.first(tx),
            last=chain.last(tx),
            at_anchor=None if signed is None else chain.record(tx, signed.seq),
        )

    def _settled(self, tx: sqlite3.Connection) -> bool:
        around = self._surroundings(tx)
        if around.head is None or judge(around).found is not None:
            return False
        if around.anchor is None:
            return False
        self._trusted = around.head
        self._anchored = True
        return True

    def _begin(self, tx: sqlite3.Connection) -> Continuation:
        around = self._surroundings(tx)
        going_on = judge(around)
        if around.head is not None and going_on.found is None:
            return going_on
        head = Head(
            installation=around.installation,
            key=self.signer.key,
            first_seq=going_on.first_seq,
            first_previous=going_on.first_previous,
            seq=going_on.seq,
            hash=going_on.hash,
            time=Instant.now().time,
        )
        self.set_head(tx, head)
        if going_on.found is not None:
            self.append(tx, going_on.found)
        return going_on


def _not_signed() -> StateError:
    return StateError("The audit's head is not signed by this installation.", advice=_LOOK)


def _rewritten_head(tx: sqlite3.Connection) -> SignedHead | None:
    """Write the head as it is: the commit of that brings all earlier ones to the disk too."""
    head = chain.head(tx)
    if head is not None:
        chain.set_head(tx, head)
    return head


async def open_audit(store: Store) -> AuditLog:
    """Open the audit of a store; the signing key is made on first use.

    Where the chain does not continue what was signed before (the database was lost, put back or
    changed; the key was replaced), that becomes a record of its own, which `audit verify` shows
    for good, and a warning. Raises `StateError`. Cancellation leaves the chain whole.
    """
    signer = await anyio.to_thread.run_sync(Signer.open, store.directory)
    log = AuditLog(store, signer)
    if await store.read(log._settled):  # noqa: SLF001 - its maker starts it
        return log
    begun = await store.write(log._begin)  # noqa: SLF001 - the same
    await log.make_durable()
    if begun.found is not None:
        structlog.get_logger().warning(
            "audit_broken", reason=begun.found.reason.value, detail=begun.found.detail
        )
    return log
