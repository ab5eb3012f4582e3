"""What screening found out about a command: frozen values, nothing executed."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict


class Tier(StrEnum):
    """How far a command may go without a person."""

    NEVER = "never"
    """Refused before anyone is asked."""
    ASK = "ask"
    """Runs only when somebody with authority says yes."""
    AUTO = "auto"
    """Runs; the container is the boundary."""


class Effect(StrEnum):
    """What a command can do to its workspace."""

    READ_ONLY = "read_only"
    """Proved: nothing in the workspace can change."""
    MUTATING = "mutating"
    """Everything else, unknown programs included."""


_STRICTNESS = {Tier.AUTO: 0, Tier.ASK: 1, Tier.NEVER: 2}


def strictness(tier: Tier) -> int:
    """Return a number that grows with how strict ``tier`` is."""
    return _STRICTNESS[tier]


def strictest(tiers: list[Tier]) -> Tier:
    """Return the strictest of ``tiers``; `Tier.AUTO` for none."""
    return max(tiers, key=_STRICTNESS.__getitem__, default=Tier.AUTO)


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Finding(_Frozen):
    """One reason not to run a command unasked, and where in it the reason lies."""

    code: str
    """Stable name, for example ``delete.system``."""
    reason: str
    """One sentence. It never quotes the command."""
    tier: Tier
    """The floor this finding sets."""
    start: int
    """First byte of the place, counted in the command's UTF-8 bytes."""
    end: int
    """One past the last byte."""


class ScreenedWord(_Frozen):
    """A word of a simple command after quoting and expansion."""

    text: str | None
    """Its value, or None where it is only known when the command runs."""
    start: int
    end: int


class ScreenedCommand(_Frozen):
    """A simple command that could run."""

    words: tuple[ScreenedWord, ...]
    start: int
    end: int


class Redirection(_Frozen):
    """A redirection to or from a file, as far as its target is known."""

    operator: str
    target: str | None
    start: int
    end: int


class Facts(_Frozen):
    """Everything the later stages need to know about a command."""

    tier: Tier
    """The floor: a policy may be stricter, never milder."""
    effect: Effect
    commands: tuple[ScreenedCommand, ...] = ()
    """Every simple command that could run, nested ones included, in the order they were met."""
    findings: tuple[Finding, ...] = ()
    writes: tuple[str, ...] = ()
    """Paths written, as written; a path that is only partly known shows ``…`` for the rest."""
    reads: tuple[str, ...] = ()
    """Paths read by redirections and known readers, as written."""
    credentials: tuple[str, ...] = ()
    """Paths that hold secrets, as written."""
    network: tuple[str, ...] = ()
    """Programs that would use the network."""
    privileges: tuple[str, ...] = ()
    """Programs that would raise privileges or leave the sandbox."""
    redirections: tuple[Redirection, ...] = ()
