"""What became of a run: the one record every interface shows."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from sandboxrun.model.artifact import Artifact
from sandboxrun.model.effects import Effects
from sandboxrun.model.limits import Limits
from sandboxrun.model.ordering import Ordering
from sandboxrun.model.preview import Preview
from sandboxrun.model.status import Status


class Usage(BaseModel):
    """What the run consumed. Null is unknown, never zero."""

    model_config = ConfigDict(frozen=True)

    cpu_seconds: float | None = None
    peak_memory_bytes: int | None = None
    peak_pids: int | None = None
    oom_kills: int | None = None
    """Processes the kernel killed at the memory limit, the command's children included."""
    leftover_processes: int | None = None
    """Processes still there when the command ended; they were killed."""


class Found(BaseModel):
    """One finding of screening, and the bytes of the command it is about."""

    model_config = ConfigDict(frozen=True)

    code: str
    reason: str
    start: int
    end: int


class Decided(BaseModel):
    """What was decided before anything ran, and by which rule."""

    model_config = ConfigDict(frozen=True)

    tier: str
    """``never``, ``ask`` or ``auto``."""
    effect: str
    """``read_only`` where that was proved, else ``mutating``."""
    rule: str
    """Who decided, as ``source:rule``."""
    findings: tuple[Found, ...] = ()
    clamped: dict[str, float] = {}
    """What was more than a policy gives or the machine has, by name; ``limits`` has what was given."""


class Outcome(BaseModel):
    """How a run ended and what it left. Frozen; the same JSON on every interface."""

    model_config = ConfigDict(frozen=True)

    run_id: str
    workspace: str | None
    """The workspace's name, or null for a throwaway one."""
    principal: str
    conversation: str | None
    status: Status
    exit_code: int | None
    """The command's own exit code, or null when it did not exit by itself."""
    signal: str | None
    """Name of the signal that ended it, or null."""
    reason: str
    """A sentence a model can act on: what happened and what it may do next."""
    decision: Decided | None = None
    """Null where the run ended before it was judged."""
    policy_digests: dict[str, str] = {}
    """Of the policies that were in force."""
    started_at: datetime
    elapsed_seconds: float
    """The command's own time, without waiting or preparing."""
    timings: dict[str, Annotated[float, Field(ge=0)]]
    """Milliseconds per stage."""
    preview: Preview
    artifact: Artifact | None = None
    """The complete output, where the preview does not show all of it."""
    redactions: int = 0
    """How many secrets were removed from the output."""
    ordering: Ordering
    snapshot_before: str | None = None
    """The state to go back to; null for a throwaway workspace or where none was mounted."""
    snapshot_after: str | None = None
    """The state the run made; null when it changed nothing."""
    effects: Effects | None = None
    """What the run changed; null is unknown."""
    image: str | None
    """Content id of the image that was used."""
    usage: Usage
    limits: Limits
    """The limits that were in force."""
    started_cold: bool | None = None
    """Whether its container was made after the command was known; null: nothing was started."""
    receipt_id: str
    """Names the receipt in the audit."""
