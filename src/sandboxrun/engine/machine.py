"""What can be asked of an engine: the runtimes it has, and no more than its machine has. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from sandboxrun.engine.protocol import EngineInfo, EngineKind
from sandboxrun.errors import ConfigurationError
from sandboxrun.model.limits import MIB, Limits

_SHIM: Final = re.compile(r"io\.containerd\.[a-z0-9-]+\.v[0-9]+")


@dataclass(frozen=True, slots=True)
class Fitted:
    """Limits that the machine can give."""

    limits: Limits
    clamped: dict[str, float]
    """What was asked for and is more, by name and in the units of policies."""


def fitted(limits: Limits, info: EngineInfo, *, asked: Limits | None) -> Fitted:
    """Return ``limits`` cut to the processors and the memory of the engine's machine.

    ``asked`` is what the request says; cutting a default is nothing anybody has to be told.

    Docker refuses more CPUs than there are ("range of CPUs is from 0.01 to ...") and takes any
    amount of memory without a word. A limit above what there is limits nothing either way, and the
    defaults have to work on small machines; so both are cut, as policies cut.
    """
    cut: dict[str, float | int] = {}
    if 0 < info.cpus < limits.cpus:
        cut["cpus"] = float(info.cpus)
    if 0 < info.memory_bytes < limits.memory_bytes:
        cut["memory_bytes"] = info.memory_bytes
    told = cut.keys() & (frozenset() if asked is None else asked.model_fields_set)
    clamped: dict[str, float] = {}
    if "cpus" in told:
        clamped["cpus"] = limits.cpus
    if "memory_bytes" in told:
        clamped["memory_mib"] = limits.memory_bytes / MIB
    return Fitted(limits.model_copy(update=cut) if cut else limits, clamped)


def require_runtime(runtime: str | None, info: EngineInfo) -> None:
    """Raise `ConfigurationError` where the engine would not use ``runtime``.

    Podman's service uses the one it was started with and ignores what a request names (seen with
    4.3), which would be a silent downgrade. Docker takes the names it was configured with and, from
    23.0 on, those of containerd's shims, which have dots.
    """
    if runtime is None or runtime == info.default_runtime:
        return
    if info.kind is EngineKind.PODMAN:
        raise ConfigurationError(
            f"Podman uses the runtime {info.default_runtime!r} for all containers; "
            f"{runtime!r} cannot be chosen for one.",
            advice=f"Leave --runtime out, or start Podman's service with --runtime {runtime}.",
        )
    if runtime in info.runtimes or _SHIM.fullmatch(runtime):
        return
    known = ", ".join(info.runtimes)
    raise ConfigurationError(
        f"The engine has no runtime {runtime!r}.",
        advice=f"It has {known}; {info.default_runtime} is used when none is named.",
    )
