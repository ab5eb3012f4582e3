"""What became of all probes: values, and what they amount to. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sandboxrun.checks.probe import Claim, Group, Probe, Seen, Severity, State, Verdict
from sandboxrun.checks.surroundings import Surroundings


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One probe's verdict, and what it counts for."""

    id: str
    group: Group
    severity: Severity
    promise: str
    state: State
    detail: str
    excuse: str | None = None
    """Why it is not promised here; None where it is."""
    waiver: str | None = None
    """Why whoever runs this accepts that it is open."""

    @property
    def broken(self) -> bool:
        """Whether a promise was found open, or could not be tested, and nobody accepts that."""
        wrong = self.state in {State.OPEN, State.UNTESTED}
        return wrong and self.excuse is None and self.waiver is None

    def as_json(self) -> dict[str, object]:
        """Return the shape others rely on. ``held`` is null where it says neither."""
        said = {State.HELD: True, State.OPEN: False}
        return {
            "id": self.id,
            "group": self.group.value,
            "severity": self.severity.value,
            "held": said.get(self.state),
            "detail": self.told,
            "state": self.state.value,
            "promised": self.excuse is None,
            "waived": self.waiver is not None,
        }

    @property
    def told(self) -> str:
        """The detail, and why it does not count where it does not."""
        if self.state not in {State.OPEN, State.UNTESTED}:
            return self.detail
        if self.excuse is not None:
            return f"{self.detail} (not promised: {self.excuse})"
        return self.detail if self.waiver is None else f"{self.detail} (waived: {self.waiver})"


def result_of(probe: Probe, seen: Seen, waivers: Mapping[str, str]) -> Result:
    """Judge one probe. Pure."""
    return judged(probe, probe.verdict(seen), seen.around, waivers)


def judged(
    claim: Claim, verdict: Verdict, around: Surroundings, waivers: Mapping[str, str]
) -> Result:
    """Return the result of a verdict. Pure."""
    return Result(
        id=claim.id,
        group=claim.group,
        severity=claim.severity,
        promise=claim.promise,
        state=verdict.state,
        detail=verdict.detail,
        excuse=claim.excuse(around),
        waiver=waivers.get(claim.id),
    )


def all_kept(results: Iterable[Result]) -> bool:
    """Tell whether every promise was kept, or somebody accepts that it was not."""
    return not any(result.broken for result in results)
