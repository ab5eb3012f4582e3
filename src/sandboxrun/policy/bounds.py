"""The limits a run gets: what was asked for, within the narrowest of all maxima."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sandboxrun.model.limits import MIB, Limits
from sandboxrun.policy.decision import Clamped, Objection, Source
from sandboxrun.policy.document import Action, Document, Range, Ranges, limit_of
from sandboxrun.policy.requested import Requested

_FIXED: Final = Limits()
_UNNAMED: Final = {
    "timeout_seconds": 120.0,
    "cpus": _FIXED.cpus,
    "memory_mib": _FIXED.memory_bytes / MIB,
    "pids": float(_FIXED.pids),
    "disk_mib": _FIXED.disk_bytes / MIB,
    "tmp_mib": _FIXED.tmp_bytes / MIB,
    "tmp_inodes": float(_FIXED.tmp_inodes),
    "shm_mib": _FIXED.shm_bytes / MIB,
    "open_files": float(_FIXED.open_files),
    "output_mib": 1024.0,
}
"""Default and maximum of what the host's document leaves out."""
_UNITS: Final = {"timeout_seconds": " s", "cpus": " CPUs", "pids": " processes"}


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the run gets, what was cut, and what would be more than the policies give."""

    values: dict[str, float]
    clamped: tuple[Clamped, ...]
    objections: tuple[Objection, ...]

    def limits(self) -> Limits:
        """Return the values that are limits of the kernel."""
        return Limits.model_validate(
            dict(
                limit_of(name, value)
                for name, value in self.values.items()
                if name not in ("timeout_seconds", "output_mib")
            )
        )


def bounded(requested: Requested, levels: Sequence[tuple[Source, Document]]) -> Bounds:
    """Return what ``requested`` gets under all ``levels``, the host's first."""
    values: dict[str, float] = {}
    clamped: list[Clamped] = []
    objections: list[Objection] = []
    for name in Ranges.model_fields:
        ranges = _ranges(name, levels)
        wanted = requested.limits.get(name)
        maximum, by = min((found.maximum, source) for source, found in ranges)
        top = min(found.top for _, found in ranges)
        if wanted is None:
            values[name] = min(maximum, *(found.default for _, found in ranges))
            continue
        most = maximum
        if wanted > maximum and name in requested.expand:
            most = top
            objections.append(_expansion(name, wanted, top, maximum, by))
        values[name] = min(wanted, most)
        if wanted > most:
            clamped.append(Clamped(name=name, requested=wanted, effective=most, by=by))
    return Bounds(values, tuple(clamped), tuple(objections))


def _ranges(name: str, levels: Sequence[tuple[Source, Document]]) -> list[tuple[Source, Range]]:
    found: list[tuple[Source, Range]] = []
    for source, document in levels:
        given: Range | None = getattr(document.limits, name)
        if given is not None:
            found.append((source, given))
        elif source is Source.HOST:
            value = _UNNAMED[name]
            found.append((source, Range(default=value, maximum=value)))
    return found


def shown(name: str, value: float) -> str:
    """Return a value with its unit, as people write it."""
    unit = " MiB" if name.endswith("_mib") else _UNITS.get(name, "")
    return f"{value:g}{unit}"


def _expansion(name: str, wanted: float, top: float, maximum: float, by: Source) -> Objection:
    what = name.rpartition("_")[0] or name
    # Whoever wants to be asked rather than cut is not cut where nobody may say yes.
    if wanted <= top:
        action = Action.ASK
        most = f"the {by} gives at most {shown(name, maximum)} without asking"
        reason = f"It wants {shown(name, wanted)} of {what}; {most}."
    else:
        action = Action.DENY
        reason = f"It wants more {what} than anybody may give it: {shown(name, top)}."
    return Objection(source=by, rule=f"limits.{name}", action=action, reason=reason, expansion=True)
