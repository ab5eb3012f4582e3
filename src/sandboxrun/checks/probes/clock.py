"""Time: the clock is right, and the hardware's is out of reach."""

from __future__ import annotations

from typing import Final

from sandboxrun.checks.attempt import Attempt, Observation
from sandboxrun.checks.judging import judged_by, opens, unopened
from sandboxrun.checks.probe import Group, Probe, Seen, Severity, Verdict, held, opened

_TOLERANCE: Final = 600.0
"""Seconds; the surroundings were looked at before."""


def _agrees(found: Observation, seen: Seen) -> Verdict:
    off = found.value - seen.around.now
    if abs(off) > _TOLERANCE:
        return opened(f"{off:.0f} s away from the orchestrator's")
    return held("as the orchestrator's")


TIME: Final = (
    Probe(
        id="time.rtc",
        group=Group.TIME,
        severity=Severity.ESCAPE,
        promise="The hardware clock is out of reach.",
        attempts=opens("r", "/dev/rtc", "/dev/rtc0", "/dev/ptp0", "/dev/hpet"),
        judge=unopened,
    ),
    Probe(
        id="time.wallclock",
        group=Group.TIME,
        severity=Severity.HARDENING,
        promise="The wall clock agrees with the orchestrator's.",
        attempts=(Attempt("clock"),),
        judge=judged_by(_agrees),
    ),
)
