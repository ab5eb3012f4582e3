"""How much of everything may be in use at once, and what happens when it is."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field

from sandboxrun.model.limits import MIB


class Quota(BaseModel):
    """Bounds on what all runs of one subject have together. None: not bounded.

    All but ``seconds`` are held while a run goes on, at the run's own limits, and given back when
    its container is gone.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    runs: int | None = Field(default=None, ge=1)
    """Runs that go on at the same time."""
    cpus: float | None = Field(default=None, gt=0)
    """Sum of the runs' CPU limits."""
    memory_bytes: int | None = Field(default=None, ge=MIB)
    """Sum of the runs' memory limits."""
    processes: int | None = Field(default=None, ge=1)
    """Sum of the runs' limits on processes."""
    disk_bytes: int | None = Field(default=None, ge=MIB)
    """Sum of the runs' disk limits."""
    seconds: float | None = Field(default=None, gt=0)
    """Wall-clock seconds of commands within the window of `Quotas`; a run that goes on counts
    with its time limit."""


class WhenFull(StrEnum):
    """What becomes of a run that does not fit now."""

    WAIT = "wait"
    """It waits for its turn."""
    REFUSE = "refuse"
    """It ends at once as ``quota_exceeded``."""


class Quotas(BaseModel):
    """The quotas of an installation. Each subject of a kind has the same bounds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: Quota = Quota()
    """Everybody together. Runs and memory that are left out are taken from the machine."""
    principal: Quota = Quota()
    conversation: Quota = Quota()
    workspace: Quota = Quota()
    when_full: WhenFull = WhenFull.WAIT
    wait_seconds: float = Field(default=600.0, gt=0, le=86_400)
    """Longest wait for a turn; it does not count against the command's time."""
    window_seconds: float = Field(default=86_400.0, gt=0)
    """How long spent seconds count."""
