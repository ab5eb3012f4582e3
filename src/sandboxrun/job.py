"""What a run is made of: the accepted request, the shared tools, and what is known so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from sandboxrun.approval.authorise import Stopped
from sandboxrun.approval.question import Approver
from sandboxrun.audit.log import AuditLog
from sandboxrun.deciding import Judge
from sandboxrun.engine.machine import Fitted
from sandboxrun.engine.protocol import Engine, ImageInfo
from sandboxrun.engine.sandbox import Sandbox
from sandboxrun.errors import SandboxrunError
from sandboxrun.model.limits import Limits
from sandboxrun.model.ordering import Ordering
from sandboxrun.model.request import Request
from sandboxrun.model.timings import Timings
from sandboxrun.output.artifacts import Artifacts
from sandboxrun.output.run_log import RunLog
from sandboxrun.policy.decision import Decision
from sandboxrun.quota.ledger import Ledger, Reservation
from sandboxrun.settle.cause import Stop
from sandboxrun.warm.behind import Behind
from sandboxrun.warm.key import Recipe
from sandboxrun.warm.maker import Maker
from sandboxrun.warm.slots import Slots
from sandboxrun.workspace.session import Sealed, Session
from sandboxrun.workspace.workspaces import Workspaces


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What all runs of one runner share."""

    engine: Engine
    maker: Maker
    slots: Slots
    behind: Behind
    audit: AuditLog
    workspaces: Workspaces
    artifacts: Artifacts
    judge: Judge
    ledger: Ledger
    env_allow: tuple[str, ...]
    runtime: str
    """The one of runs that want no other: the operator's, else the engine's default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One accepted request, with every default filled in."""

    run_id: str
    request: Request
    limits: Limits
    timeout_seconds: float
    image: str
    runtime: str | None
    principal: str
    started_at: datetime
    ordering: Ordering
    approver: Approver | None
    """Who can be asked, if anybody."""
    wait_approval_seconds: float | None
    """How long answers of other processes are waited for."""
    stop: Stop
    log: RunLog


@dataclass(slots=True)
class Progress:
    """What is known of a run so far; written by the stages, read by the settlement."""

    job: Job
    """The job as it is carried out: with the limits the policies leave it."""
    timings: Timings = field(default_factory=Timings)
    decision: Decision | None = None
    fitted: Fitted | None = None
    """What the policies give, cut to what the machine has."""
    approval: str | None = None
    """Id of the last question that was put about it."""
    stopped: Stopped | None = None
    """Why it may not run."""
    image: ImageInfo | None = None
    reservation: Reservation | None = None
    session: Session | None = None
    recipe: Recipe | None = None
    """What its container is made from, and the next one's slot."""
    cold: bool = True
    """Whether the container had to be made after the command was known."""
    sealed: Sealed | None = None
    sandbox: Sandbox | None = None
    fault: SandboxrunError | None = None
    intended: bool = False
    sent_at: float | None = None
