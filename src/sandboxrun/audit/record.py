"""The records of the chain and how one is sealed to the one before.

A record is one line of canonical JSON (RFC 8785). It holds its own number and the SHA-256 of the
record before it, so none can be changed, taken out, put in or moved without breaking the link
that follows.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from time import CLOCK_BOOTTIME, clock_gettime_ns
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from sandboxrun.audit.digest import canonical, sha256
from sandboxrun.model.limits import Limits
from sandboxrun.model.outcome import Usage
from sandboxrun.state.clock import timestamp

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
"""A SHA-256 in lower-case hexadecimal."""


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Intent(_Entry):
    """Written and synced before anything of a run starts."""

    kind: Literal["intent"] = "intent"
    run_id: str
    principal: str
    conversation: str | None = None
    workspace: str | None = None
    command: Digest
    """Of the command or argv (`digest.command_digest`); the text itself is never here."""
    stdin: Digest | None = None
    env: dict[str, Digest] = {}
    """Keyed digest of each value, by name."""
    cwd: str | None = None
    read_only: bool = False
    timeout_seconds: float | None = None
    limits: Limits
    image: str | None = None
    """Content id of the image."""
    policies: dict[str, Digest] = {}
    """Digests of what decided: ``host_policy``, ``workspace_policy``."""
    consent: str | None = None
    """Id of the consent to these policies; ``implied`` for a throwaway workspace."""
    grant: str | None = None
    """Id of the grant that answered the asks."""
    approval: str | None = None
    """Id of the question that was answered with yes."""
    snapshot_before: str | None = None
    owner: str
    """The process that runs it (`sandboxrun.state.owner.Owner`)."""


class Receipt(_Entry):
    """Written when a run has its outcome, also when it was refused or denied."""

    kind: Literal["receipt"] = "receipt"
    receipt_id: str
    run_id: str
    started: bool
    """An intent precedes it. False: it ended before anything could start."""
    principal: str
    workspace: str | None = None
    command: Digest
    status: str
    exit_code: int | None = None
    signal: str | None = None
    elapsed_seconds: float
    timings: dict[str, float] = {}
    usage: Usage = Usage()
    limits: Limits
    image: str | None = None
    posture: Digest | None = None
    """Of the confinement the init reported from inside."""
    policies: dict[str, Digest] = {}
    consent: str | None = None
    grant: str | None = None
    approval: str | None = None
    """Id of the question it was stopped by or started on."""
    snapshot_before: str | None = None
    snapshot_after: str | None = None
    effects: Digest | None = None
    output: Digest | None = None
    output_bytes: int | None = None
    outcome: Digest
    """Of the outcome's JSON text exactly as it is stored."""


class Pruned(_Entry):
    """Older records were removed on purpose; the chain now begins after them."""

    kind: Literal["pruned"] = "pruned"
    first_seq: int
    last_seq: int
    last_hash: Digest
    reason: str


class Contradiction(_Entry):
    """The engine says something else of a container than its init did, after the run was settled."""

    kind: Literal["contradiction"] = "contradiction"
    run_id: str
    detail: str


class BreakReason(StrEnum):
    """Why a chain does not simply continue what was signed before."""

    DATABASE_REBUILT = "database_rebuilt"
    """The database was missing or damaged; a new one was made."""
    ROLLED_BACK = "rolled_back"
    """The database holds less, or other, than what was signed before."""
    HEAD_NOT_SIGNED = "head_not_signed"
    """The signed head of the database is missing, was changed or does not match its records."""
    KEY_REPLACED = "key_replaced"
    """The signing key is not the one that signed so far."""
    ANCHOR_MISSING = "anchor_missing"
    """The signed head kept outside the database is missing or was changed."""


class Break(_Entry):
    """What was found did not continue what was signed before. Stays visible for good."""

    kind: Literal["break"] = "break"
    reason: BreakReason
    detail: str
    signed_before: dict[str, str] | None = None
    """The last statement signed before, as far as it survived."""


Entry = Annotated[Intent | Receipt | Contradiction | Pruned | Break, Field(discriminator="kind")]


class Body(_Entry):
    """What a record says, as it is written and hashed."""

    seq: int = Field(ge=1)
    previous: Digest
    time: str
    """RFC 3339, UTC: the wall clock, which may be set back."""
    uptime_ms: int
    """Milliseconds since boot, suspended time included, which only grows within one boot."""
    entry: Entry


@dataclass(frozen=True, slots=True)
class Record:
    """One row of the chain. ``text`` is what was hashed; the rest repeats it to be found by."""

    seq: int
    run_id: str | None
    kind: str
    text: str
    hash: str


def genesis(installation_id: str) -> str:
    """Return what the first record of an installation is chained to."""
    return sha256(f"sandboxrun audit of {installation_id}".encode())


@dataclass(frozen=True, slots=True)
class Instant:
    """When a record is written, by both clocks."""

    time: str
    uptime_ms: int

    @classmethod
    def now(cls) -> Self:
        """Read both clocks."""
        return cls(timestamp(), clock_gettime_ns(CLOCK_BOOTTIME) // 1_000_000)


def seal(entry: Entry, *, seq: int, previous: str, at: Instant) -> Record:
    """Write ``entry`` as record ``seq``, chained to the hash ``previous``."""
    body = Body(seq=seq, previous=previous, time=at.time, uptime_ms=at.uptime_ms, entry=entry)
    text = canonical(body.model_dump(mode="json"))
    return Record(seq, run_of(entry), entry.kind, text.decode(), sha256(text))


def run_of(entry: Entry) -> str | None:
    """Return the run an entry is about, if it is about one."""
    return entry.run_id if isinstance(entry, Intent | Receipt | Contradiction) else None


def opened(text: str) -> Body:
    """Read a record's text back. Raises `pydantic.ValidationError`."""
    return Body.model_validate_json(text)
