"""Was anything changed? Pure: records and signed statements in, findings out.

One pass over the records in the order of their numbers; what is kept on the way is the ids of the
runs seen.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import assert_never

from pydantic import ValidationError

from sandboxrun.audit.continuity import verified
from sandboxrun.audit.digest import sha256
from sandboxrun.audit.record import (
    Body,
    Break,
    Contradiction,
    Intent,
    Pruned,
    Receipt,
    Record,
    opened,
    run_of,
)
from sandboxrun.audit.signing import Head
from sandboxrun.audit.verdict import Finding, Flaw, Observed, RecordedBreak, Statements, Verdict


def verify(
    observed: Iterable[Observed], statements: Statements, *, unreceipted: Iterable[str] = ()
) -> Verdict:
    """Check every record, the links between them and what was signed about them.

    ``observed`` in the order of the records' numbers. ``unreceipted`` names the runs that have an
    outcome and no receipt.
    """
    walk = _Walk(
        head=verified(statements.head, statements.key),
        anchor=verified(statements.anchor, statements.key),
    )
    for one in observed:
        walk.step(one)
    walk.finish(statements)
    for run_id in unreceipted:
        walk.findings.append(
            Finding(Flaw.CONTRADICTION, None, run_id, "The run has an outcome and no receipt.")
        )
    return Verdict(
        records=walk.count,
        first_seq=None if walk.head is None else walk.head.first_seq,
        last_seq=None if walk.last is None else walk.last.seq,
        key=statements.key,
        findings=tuple(walk.findings),
        breaks=tuple(walk.breaks),
    )


@dataclass(slots=True)
class _Walk:
    """The walk along the chain: what is expected next, and what was seen."""

    head: Head | None
    anchor: Head | None
    count: int = 0
    last: Record | None = None
    last_hash: str | None = None
    """Hash of the last record, computed; None when that record is known to be wrong."""
    suspect: Record | None = None
    """A record that the one after it is not chained to. One of the two was changed: the later
    one if nothing vouches for it either."""
    findings: list[Finding] = field(default_factory=list)
    breaks: list[RecordedBreak] = field(default_factory=list)
    intents: set[str] = field(default_factory=set)
    receipts: set[str] = field(default_factory=set)

    def step(self, observed: Observed) -> None:
        """Take the next record."""
        record = observed.record
        self.count += 1
        if self._outside(record):
            return
        self._gap(record)
        body = self._sealed(record)
        if body is None:
            self._advance(record, None)
            return
        self._linked(record, body)
        self._meaning(record, body, observed.outcome)
        self._advance(record, sha256(record.text.encode()))
        if self.anchor is not None and record.seq == self.anchor.seq:
            self._anchored(record, self.anchor)

    def finish(self, statements: Statements) -> None:
        """Compare the end of the chain with what was signed."""
        if self.head is None:
            if statements.head is None and statements.anchor is None and self.last is None:
                return
            self._note(Flaw.UNSIGNED, None, "The head in the database is missing or not signed.")
        else:
            self._ended(self.head)
        if self.anchor is None:
            self._note(Flaw.UNSIGNED, None, "The anchor file is missing or not signed.")
        elif self.head is not None:
            self._covers(self.anchor, self.head)
        if self.suspect is not None:
            self._note(
                Flaw.CHANGED, self.suspect, "It is not the record the next one is chained to."
            )

    def _note(self, flaw: Flaw, record: Record | None, detail: str) -> None:
        seq, run = (None, None) if record is None else (record.seq, record.run_id)
        self.findings.append(Finding(flaw, seq, run, detail))

    def _expected(self) -> int | None:
        if self.last is not None:
            return self.last.seq + 1
        return None if self.head is None else self.head.first_seq

    def _outside(self, record: Record) -> bool:
        if self.head is None or self.head.first_seq <= record.seq <= self.head.seq:
            return False
        where = f"{self.head.first_seq} to {self.head.seq}"
        self._note(Flaw.INSERTED, record, f"What was signed covers the records {where} only.")
        return True

    def _gap(self, record: Record) -> None:
        expected = self._expected()
        if expected is None or record.seq == expected:
            return
        missing = f"{expected}" if record.seq == expected + 1 else f"{expected} to {record.seq - 1}"
        self.findings.append(Finding(Flaw.MISSING, expected, None, f"Missing: record {missing}."))
        self._blame_suspect()
        self.last_hash = None

    def _sealed(self, record: Record) -> Body | None:
        """Return the record's body when the row is what was sealed, wherever it may belong."""
        try:
            body = opened(record.text)
        except ValidationError:
            body = None
        sealed = body is not None and sha256(record.text.encode()) == record.hash
        if body is None or not sealed:
            self._note(Flaw.CHANGED, record, "Its text does not have the hash it was stored with.")
        elif (run_of(body.entry), body.entry.kind) != (record.run_id, record.kind):
            self._note(Flaw.CHANGED, record, "Its row names another run or kind than its text.")
        elif body.seq != record.seq:
            self._note(Flaw.MOVED, record, f"It was written as record {body.seq}.")
        else:
            return body
        self._blame_suspect()
        return None

    def _linked(self, record: Record, body: Body) -> None:
        if self.last is None:
            if self.head is not None and body.previous != self.head.first_previous:
                self._note(Flaw.CHANGED, record, "It is not chained to the signed beginning.")
            return
        if self.last_hash is None or body.previous == self.last_hash:
            self._blame_suspect()
            return
        if self.suspect is not None:
            # Two links in a row are broken: the record between them is the changed one.
            self.suspect = None
            self._note(Flaw.CHANGED, self.last, "Neither of its neighbours is chained to it.")
            return
        self.suspect = self.last

    def _blame_suspect(self) -> None:
        if self.suspect is not None:
            self._note(
                Flaw.CHANGED, self.suspect, "It is not the record the next one is chained to."
            )
            self.suspect = None

    def _advance(self, record: Record, computed: str | None) -> None:
        self.last = record
        self.last_hash = computed

    def _meaning(self, record: Record, body: Body, outcome: str | None) -> None:
        match body.entry:
            case Intent(run_id=run_id):
                if run_id in self.intents or run_id in self.receipts:
                    self._note(Flaw.CONTRADICTION, record, "The run had started or ended before.")
                self.intents.add(run_id)
            case Receipt() as receipt:
                self._receipt(record, receipt, outcome)
            case Break() as found:
                self.breaks.append(
                    RecordedBreak(record.seq, body.time, found.reason.value, found.detail)
                )
            case Pruned() | Contradiction():
                pass
            case _:
                assert_never(body.entry)

    def _receipt(self, record: Record, receipt: Receipt, outcome: str | None) -> None:
        if receipt.run_id in self.receipts:
            self._note(Flaw.CONTRADICTION, record, "The run has a second receipt.")
        # Where records are missing or wrong, the intent may be one of them.
        pruned = self.head is None or self.head.first_seq > 1
        whole = not (pruned or self.breaks or self.findings or self.suspect)
        if receipt.started and whole and receipt.run_id not in self.intents:
            self._note(Flaw.CONTRADICTION, record, "The run started without an intent.")
        if outcome is not None and outcome != receipt.outcome:
            self._note(Flaw.OUTCOME_CHANGED, record, "The stored outcome is not the one recorded.")
        self.intents.discard(receipt.run_id)
        self.receipts.add(receipt.run_id)

    def _anchored(self, record: Record, anchor: Head) -> None:
        if self.last_hash != anchor.hash:
            self._note(Flaw.CHANGED, record, "The anchor file was signed over another record here.")

    def _ended(self, head: Head) -> None:
        end = head.first_seq - 1 if self.last is None else self.last.seq
        if end < head.seq:
            missing = f"{end + 1} to {head.seq}"
            self.findings.append(
                Finding(Flaw.TRUNCATED, end + 1, None, f"Missing at the end: records {missing}.")
            )
        elif self.last is not None and self.last_hash not in (None, head.hash):
            self.suspect = None
            self._note(Flaw.CHANGED, self.last, "It is not the record that was signed as the last.")

    def _covers(self, anchor: Head, head: Head) -> None:
        if anchor.seq > head.seq:
            detail = f"Records up to {anchor.seq} were signed; the database was put back or cut."
            self.findings.append(Finding(Flaw.TRUNCATED, head.seq + 1, None, detail))
        elif anchor.seq == head.first_seq - 1 and anchor.hash != head.first_previous:
            self._note(Flaw.UNSIGNED, None, "The anchor file was signed over another beginning.")
