"""Does the chain in the database continue what was signed before? Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pydantic import ValidationError

from sandboxrun.audit.digest import sha256
from sandboxrun.audit.record import Break, BreakReason, Record, genesis, opened
from sandboxrun.audit.signing import Head, SignedHead, signature_holds

ANCHOR_GONE: Final = "The signed head outside the database is missing or not signed by this key."


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What there is when the audit is opened."""

    installation: str
    key: str
    """The public key in use."""
    head: SignedHead | None
    anchor: SignedHead | None
    first: Record | None
    last: Record | None
    at_anchor: Record | None
    """The record the anchor names, where it is still there."""


@dataclass(frozen=True, slots=True)
class Continuation:
    """From where the chain goes on, and what must be written down about it first."""

    first_seq: int
    first_previous: str
    seq: int
    hash: str
    found: Break | None
    """None: it simply continues."""


def judge(around: Surroundings) -> Continuation:
    """Compare the database with the signed head, and both with the anchor outside.

    Every combination is answered: what does not fit becomes a `Break`, which the caller must
    append as the next record.
    """
    if around.head is None and around.anchor is None and around.last is None:
        start = genesis(around.installation)
        return Continuation(1, start, 0, start, None)
    head = verified(around.head, around.key)
    anchor = verified(around.anchor, around.key)
    if head is not None and not _past(head, around.last):
        return _from_head(around, head, anchor)
    if around.last is None and around.head is None and anchor is not None:
        # Numbers go on from the anchor, so that what is missing has a name.
        found = _broken(
            around,
            BreakReason.DATABASE_REBUILT,
            f"The records up to {anchor.seq} are not in this database.",
        )
        return Continuation(anchor.seq + 1, anchor.hash, anchor.seq, anchor.hash, found)
    return _from_rows(around)


def verified(signed: SignedHead | None, key: str) -> Head | None:
    """Return what is signed, when ``key`` signed it and it names that key."""
    if signed is None or not signature_holds(signed, key):
        return None
    try:
        head = signed.head
    except ValidationError:
        return None
    return head if head.key == key else None


def _past(head: Head, last: Record | None) -> bool:
    return last is not None and last.seq > head.seq


def _from_head(around: Surroundings, head: Head, anchor: Head | None) -> Continuation:
    found = None
    if anchor is None:
        # Nobody adds a first record before the anchor stands, but may be killed on the way there.
        if head.seq > 0:
            found = _broken(around, BreakReason.ANCHOR_MISSING, ANCHOR_GONE)
    elif anchor.seq > head.seq or not _on_chain(anchor, head, around.at_anchor):
        detail = (
            f"The database ends at record {head.seq}, or differs from what was signed at "
            f"record {anchor.seq}."
        )
        found = _broken(around, BreakReason.ROLLED_BACK, detail)
    return Continuation(head.first_seq, head.first_previous, head.seq, head.hash, found)


def _on_chain(anchor: Head, head: Head, at_anchor: Record | None) -> bool:
    if anchor.seq < head.first_seq - 1:
        return True
    if anchor.seq == head.first_seq - 1:
        return anchor.hash == head.first_previous
    return at_anchor is not None and sha256(at_anchor.text.encode()) == anchor.hash


def _from_rows(around: Surroundings) -> Continuation:
    """Go on behind whatever records there are: their head cannot be believed."""
    other = None if around.head is None else _key_of(around.head)
    if (
        around.head is not None
        and other not in (None, around.key)
        and signature_holds(around.head, other)
    ):
        found = _broken(
            around, BreakReason.KEY_REPLACED, f"The chain was signed with the key {other}."
        )
    else:
        found = _broken(
            around,
            BreakReason.HEAD_NOT_SIGNED,
            "The head in the database is missing, was changed or leaves records out.",
        )
    start = genesis(around.installation)
    if around.first is None or around.last is None:
        return Continuation(1, start, 0, start, found)
    last_hash = sha256(around.last.text.encode())
    return Continuation(
        around.first.seq, _previous_of(around.first, start), around.last.seq, last_hash, found
    )


def _key_of(signed: SignedHead) -> str | None:
    try:
        return signed.head.key
    except ValidationError:
        return None


def _previous_of(record: Record, otherwise: str) -> str:
    try:
        return opened(record.text).previous
    except ValidationError:
        return otherwise


def _broken(around: Surroundings, reason: BreakReason, detail: str) -> Break:
    signed = around.anchor if around.head is None else around.head
    before = None if signed is None else {"statement": signed.text, "signature": signed.signature}
    return Break(reason=reason, detail=detail, signed_before=before)
