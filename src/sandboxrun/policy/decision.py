"""What was decided about a request, and why. Frozen; the same JSON everywhere."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, ConfigDict

from sandboxrun.model.limits import Limits
from sandboxrun.policy.authority import PolicyDigests
from sandboxrun.policy.document import Action
from sandboxrun.screening.facts import Effect, Finding, Tier


class Verdict(StrEnum):
    """What happens next."""

    AUTO = "auto"
    """It runs."""
    ASK = "ask"
    """It runs when a person says yes."""
    CONSENT_REQUIRED = "consent_required"
    """Somebody must accept the policies of the workspace first."""
    REFUSED = "refused"
    """It does not run, and nobody is asked."""


class Source(StrEnum):
    """Who objects."""

    SCREENING = "screening"
    HOST = "host policy"
    WORKSPACE = "workspace policy"
    AUTHORITY = "workspace access"


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Objection(_Frozen):
    """One reason for not simply running it."""

    source: Source
    rule: str
    """The id of a rule, the code of a finding, or the name of a limit or allow-list."""
    action: Action
    reason: str
    spans: tuple[tuple[int, int], ...] = ()
    """Bytes of the command it is about; none when it is about all of it."""
    expansion: bool = False
    """It asks for more than the policy gives. An 'always' never covers that."""
    unavailable: bool = False
    """There is nothing yet that could grant it: whoever asks is answered no at once."""

    @property
    def key(self) -> str:
        """What a grant names to lift it."""
        return f"{self.source}:{self.rule}"


class Clamped(_Frozen):
    """A requested value that was above its maximum."""

    name: str
    requested: float
    effective: float
    by: Source
    """The level whose maximum it is."""


class Obligations(_Frozen):
    """What the launch must keep to, whoever said yes."""

    limits: Limits
    timeout_seconds: float
    """Of the command's own time; waiting for an answer doesn't count."""
    output_bytes: int
    image: str
    runtime: str | None
    network: Literal["none"] = "none"
    read_only: bool
    env_names: tuple[str, ...]
    inputs: tuple[str, ...]


class Decision(_Frozen):
    """The answer to one request."""

    verdict: Verdict
    tier: Tier
    effect: Effect
    rule: str
    """Who decided, as ``source:rule``."""
    reason: str
    """A sentence a model can act on."""
    advice: str
    """Which narrower call would pass, as far as that can be said; may be empty."""
    objections: tuple[Objection, ...]
    """Everything against it, the deciding one first; what a grant lifted is not among them."""
    findings: tuple[Finding, ...]
    obligations: Obligations
    clamped: tuple[Clamped, ...]
    digests: PolicyDigests
    grant: str | None = None
    """The grant that answered the asks."""
    consent: str | None = None
    deadline_seconds: float
    """How long a person has to answer."""
