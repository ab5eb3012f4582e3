"""A policy document: limits, allow-lists and ordered rules. Frozen, strict, with a digest."""

from __future__ import annotations

import hashlib
import math
import posixpath
from enum import StrEnum
from functools import lru_cache
from typing import Annotated, Final, Literal, Self

import rfc8785
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from sandboxrun.model.limits import MIB, Limits
from sandboxrun.screening.facts import Effect, Tier

MAX_TIMEOUT_SECONDS: Final = 86_400.0
MAX_MIB: Final = 1 << 24
"""16 TiB: beyond it a number is a mistake, and every number stays exact in JSON."""
Text = Annotated[str, Field(min_length=1, max_length=500)]
Example = Annotated[str, Field(min_length=1, max_length=10_000)]
"""A shell command."""
Pattern = Annotated[str, Field(min_length=1, max_length=200)]
"""A shell pattern: ``*``, ``?`` and ``[…]``, compared with case."""
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,62}$")]


class Action(StrEnum):
    """What a rule does with a command, from the mildest to the strictest."""

    ALLOW = "allow"
    """This rule has nothing against it."""
    ASK = "ask"
    """It runs only when a person says yes."""
    DENY = "deny"
    """It does not run, and nobody is asked."""


_STRICTNESS: Final = {Action.ALLOW: 0, Action.ASK: 1, Action.DENY: 2}


def strictest(*actions: Action) -> Action:
    """Return the strictest of ``actions``; `Action.DENY` for none: empty means no."""
    return max(actions, key=_STRICTNESS.__getitem__, default=Action.DENY)


def _absolute(path: str) -> str:
    if posixpath.normpath(path) != path or not path.startswith("/") or path.startswith("//"):
        raise ValueError(f"{path!r} is not an absolute path without '..', '//' or a final '/'")
    return path


AbsolutePath = Annotated[str, AfterValidator(_absolute)]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class When(_Strict):
    """Conditions of a rule. All that are given must hold."""

    any: Literal[True] | None = None
    """Holds for every command. It cannot be combined with other conditions."""
    program: tuple[Pattern, ...] | None = None
    """Programs, as they are called; without a slash, also at the end of a path."""
    words: tuple[Pattern, ...] | None = None
    """Patterns that must each match one of the arguments, in any order."""
    findings: tuple[Pattern, ...] | None = None
    """Codes of screening's findings, such as ``delete.*``; one is enough."""
    writes: tuple[Pattern, ...] | None = None
    """Paths written, as the command spells them; one is enough."""
    reads: tuple[Pattern, ...] | None = None
    """Paths read, as the command spells them; one is enough."""
    effect: Effect | None = None
    tier: Tier | None = None
    """What screening found; ``never`` is refused before any rule is looked at."""
    network: bool | None = None
    """Whether a program in it would use the network."""
    form: Literal["shell", "argv"] | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        given = self.model_dump(exclude_none=True)
        if not given:
            raise ValueError("no condition is given; write `any = true` to mean every command")
        if self.any and len(given) > 1:
            raise ValueError("`any` stands alone")
        for name, value in given.items():
            if value == ():
                raise ValueError(f"`{name}` is empty, so the rule could never match")
        return self


class Rule(_Strict):
    """One rule. The first that matches says allow or ask; any that denies overrides."""

    id: Name
    action: Action
    when: When
    reason: Text
    """Why, in a sentence a model or a person can act on."""
    lifts: tuple[Pattern, ...] = ()
    """Codes of screening's findings that this ``allow`` accepts without asking."""
    matches: tuple[Example, ...] = Field(min_length=1)
    """Commands this rule must match; checked when the policy is loaded."""
    not_matches: tuple[Example, ...] = ()
    """Commands it must not match; checked when the policy is loaded."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.lifts and self.action is not Action.ALLOW:
            raise ValueError("only an `allow` rule can lift findings")
        if not self.not_matches and not self.when.any:
            raise ValueError("give `not_matches` examples: what must this rule leave alone?")
        return self


class Range(_Strict):
    """What a run gets of one resource."""

    default: float = Field(gt=0)
    """For requests that name nothing."""
    maximum: float = Field(gt=0)
    """Requests above it are clamped to it."""
    ceiling: float | None = Field(default=None, gt=0)
    """How far a person may say yes to more than the maximum; None: not at all."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.default <= self.maximum <= self.top:
            raise ValueError("it must be default <= maximum <= ceiling")
        return self

    @property
    def top(self) -> float:
        """The most that anybody may grant."""
        return self.maximum if self.ceiling is None else self.ceiling


class Ranges(_Strict):
    """Limits by resource. What a document leaves out is decided by the other level."""

    timeout_seconds: Range | None = None
    cpus: Range | None = None
    memory_mib: Range | None = None
    pids: Range | None = None
    disk_mib: Range | None = None
    tmp_mib: Range | None = None
    tmp_inodes: Range | None = None
    shm_mib: Range | None = None
    open_files: Range | None = None
    output_mib: Range | None = None
    """Bytes of output kept, in MiB."""

    @field_validator("*")
    @classmethod
    def _can_be_enforced(cls, found: Range | None, info: ValidationInfo) -> Range | None:
        if found is not None and info.field_name is not None:
            _check_range(info.field_name, found)
        return found


def _check_range(name: str, found: Range) -> None:
    for value in (found.default, found.maximum, found.top):
        if not can_be_enforced(name, value):
            raise ValueError(f"{value:g} is not a limit that can be enforced")
        if name not in ("timeout_seconds", "cpus") and value != int(value):
            raise ValueError(f"{value:g} is not a whole number")


def can_be_enforced(name: str, value: float) -> bool:
    """Tell whether ``value`` is possible for the limit ``name`` of `Ranges`, in its unit."""
    if not math.isfinite(value) or value <= 0:
        return False
    if name == "timeout_seconds":
        return value <= MAX_TIMEOUT_SECONDS
    if name == "output_mib":
        return value <= MAX_MIB
    return _fits(name, value)


def _fits(name: str, value: float) -> bool:
    if name.endswith("_mib") and value > MAX_MIB:
        return False
    field, amount = limit_of(name, value)
    try:
        Limits.model_validate({field: amount})
    except ValidationError:
        return False
    return True


def limit_of(name: str, value: float) -> tuple[str, float | int]:
    """Return the field of `Limits` that ``name`` of `Ranges` stands for, and ``value`` in it."""
    if name == "cpus":
        return name, value
    if name.endswith("_mib"):
        return name.removesuffix("_mib") + "_bytes", int(value * MIB)
    return name, int(value)


class Allowed(_Strict):
    """An allow-list. Empty allows nothing."""

    allow: tuple[Pattern, ...] = ()


class Inputs(_Strict):
    """Directories of the host that may be mounted, read-only, as inputs."""

    allow: tuple[AbsolutePath, ...] = ()
    """They and everything below them."""


class Runtimes(_Strict):
    """OCI runtimes."""

    allow: tuple[Text, ...] = ()
    """Names that need no question besides the engine's default; another one is an ask."""


class Questions(_Strict):
    """How people are asked."""

    deadline_seconds: float = Field(default=300.0, gt=0, le=MAX_TIMEOUT_SECONDS)
    """Silence until then means no."""


class Examples(_Strict):
    """Commands and what this document, as the host's, must decide for them."""

    auto: tuple[Example, ...] = ()
    ask: tuple[Example, ...] = ()
    refused: tuple[Example, ...] = ()


class Document(_Strict):
    """One policy. As the host's it decides; as a workspace's it can only narrow the host's."""

    version: Literal[1]
    name: Name
    description: Text
    screening_asks: Action = Action.ASK
    """What becomes of a command that screening wants a person for and no rule lifts."""
    asks: Literal[Action.ASK, Action.DENY] = Action.ASK
    """``deny``: nobody is ever asked; whatever would be an ask is refused."""
    read_only: bool = False
    """Every run mounts the workspace read-only."""
    network: Literal["none"] = "none"
    limits: Ranges = Ranges()
    env: Allowed | None = None
    """Names of variables a request may set. As the host's: left out allows none."""
    images: Allowed | None = None
    """Image references or ids. As the host's: left out allows none."""
    runtimes: Runtimes | None = None
    inputs: Inputs | None = None
    """As the host's: left out allows none."""
    questions: Questions = Questions()
    rules: tuple[Rule, ...] = ()
    """Without a rule that matches, a command is refused."""
    examples: Examples = Examples()

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        seen: set[str] = set()
        for rule in self.rules:
            if rule.id in seen:
                raise ValueError(f"two rules are called {rule.id!r}")
            seen.add(rule.id)
        return self

    def digest(self) -> str:
        """Return the SHA-256 (hex) of what the document decides by.

        Texts for people and examples don't count: changing them asks for no new consent.
        """
        return _digest_of(self)


@lru_cache(maxsize=64)
def _digest_of(document: Document) -> str:
    told = document.model_dump(
        mode="json",
        exclude={
            "description": True,
            "examples": True,
            "rules": {"__all__": {"matches", "not_matches", "reason"}},
        },
    )
    return hashlib.sha256(rfc8785.dumps(told)).hexdigest()
