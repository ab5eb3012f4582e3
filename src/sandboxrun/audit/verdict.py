"""What a verification is given and what it says."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from sandboxrun.audit.record import Record
from sandboxrun.audit.signing import SignedHead


class Flaw(StrEnum):
    """What is wrong with a record, or with what was signed."""

    CHANGED = "changed"
    """The record is not what was sealed."""
    MISSING = "missing"
    """A record between others is not there."""
    INSERTED = "inserted"
    """The record is not one the chain has room for."""
    MOVED = "moved"
    """The record stands under another number than its own."""
    TRUNCATED = "truncated"
    """Records at the end are not there."""
    UNSIGNED = "unsigned"
    """A signed statement is missing or its signature does not hold."""
    CONTRADICTION = "contradiction"
    """The records hold, and say what cannot be: two receipts of a run, a start without intent."""
    OUTCOME_CHANGED = "outcome_changed"
    """The stored outcome of a run is not the one its receipt is about."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, and where."""

    flaw: Flaw
    seq: int | None
    """Number of the record; None when it is about a signed statement."""
    run_id: str | None
    detail: str


@dataclass(frozen=True, slots=True)
class RecordedBreak:
    """A break the audit itself wrote down."""

    seq: int
    time: str
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What `sandboxrun.audit.verify.verify` found."""

    records: int
    first_seq: int | None
    """Number of the first record kept; None when no statement could be believed."""
    last_seq: int | None
    key: str
    findings: tuple[Finding, ...]
    breaks: tuple[RecordedBreak, ...]

    @property
    def intact(self) -> bool:
        """Nothing was changed since it was written."""
        return not self.findings


@dataclass(frozen=True, slots=True)
class Statements:
    """What was signed, from where."""

    head: SignedHead | None
    anchor: SignedHead | None
    key: str
    """The public key that must have signed both, raw bytes in hexadecimal."""


@dataclass(frozen=True, slots=True)
class Observed:
    """One record as it was found, and the digest of its run's outcome as that was found.

    ``outcome`` is None for a record that is not a receipt, and where the run's row was removed.
    """

    record: Record
    outcome: str | None
