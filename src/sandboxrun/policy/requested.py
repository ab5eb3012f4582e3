"""What a request wants beyond its command, as far as policy has a say in it."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, Self

from sandboxrun.errors import UsageError
from sandboxrun.model.limits import MIB, Limits
from sandboxrun.model.request import Request
from sandboxrun.model.text import escaped
from sandboxrun.policy.document import Ranges, can_be_enforced

Form = Literal["shell", "argv"]

_INERT: Final = ("LANG", "LC_*", "LANGUAGE", "TZ", "TERM", "COLUMNS", "LINES", "NO_COLOR", "CI")
"""Variables that change how a program prints, and never what it runs or writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requested:
    """The judged part of a request. ``limits`` holds only what was asked for explicitly."""

    form: Form
    image: str
    limits: Mapping[str, float] = field(default_factory=dict)
    """By the names and in the units of `sandboxrun.policy.document.Ranges`."""
    expand: frozenset[str] = frozenset()
    """Limits for which a person shall be asked rather than the value clamped."""
    runtime: str | None = None
    """None is the engine's default."""
    network: bool = False
    env_names: tuple[str, ...] = ()
    """Of variables and of secrets: to a program they are the same."""
    inputs: tuple[str, ...] = ()
    """Absolute paths of the host to be mounted read-only."""
    read_only: bool = False
    stdin: bool = False

    def __post_init__(self) -> None:
        """Refuse limits that no kernel can enforce, so that deciding never has to.

        Raises `UsageError`.
        """
        for name, value in self.limits.items():
            if name not in Ranges.model_fields or not can_be_enforced(name, value):
                raise UsageError(f"A limit {name} of {value:g} cannot be enforced.")

    @classmethod
    def of(
        cls,
        request: Request,
        *,
        image: str,
        runtime: str | None = None,
        defaults: Mapping[str, float] | None = None,
    ) -> Self:
        """Return the judged part of ``request``; ``image`` is the one it ends up with.

        ``runtime`` is the one it wants in place of the usual one. ``defaults`` are limits the
        operator set for requests that name none, within the policy.
        """
        asked = limits_of(request.timeout_seconds, request.limits)
        return cls(
            form="argv" if request.command is None else "shell",
            image=image,
            limits={**(defaults or {}), **asked},
            expand=frozenset(asked) if request.expand else frozenset(),
            runtime=runtime,
            network=request.network,
            env_names=tuple(sorted(map(escaped, (*request.env, *request.secrets)))),
            read_only=request.read_only,
            stdin=request.stdin is not None,
        )

    @property
    def environment_is_inert(self) -> bool:
        """Whether no variable could change what a program does, as far as is known."""
        return all(is_inert(name) for name in self.env_names)


def is_inert(name: str) -> bool:
    """Tell whether the variable ``name`` only changes how programs print."""
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in _INERT)


def limits_of(timeout_seconds: float | None, limits: Limits | None) -> dict[str, float]:
    """Return what was set explicitly, by the names and in the units of `Ranges`."""
    found: dict[str, float] = {}
    if timeout_seconds is not None:
        found["timeout_seconds"] = timeout_seconds
    if limits is None:
        return found
    for name in limits.model_fields_set:
        value: float = getattr(limits, name)
        if name.endswith("_bytes"):
            found[name.removesuffix("_bytes") + "_mib"] = value / MIB
        else:
            found[name] = value
    return found
