"""How far a build is, told to whoever shows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias


class Stage(StrEnum):
    """What a builder is doing."""

    BASE = "base"
    """Making or fetching the Debian base."""
    PACKAGES = "packages"
    """Installing the package list."""
    FINISH = "finish"
    """Putting our files in and taking out what the image doesn't need."""
    IMPORT = "import"
    """Handing the file system to the engine."""


# Where each stage begins and ends, as measured: 30 s, 18 s, 0.4 s and 3 s of a debootstrap build.
_SPAN = {
    Stage.BASE: (0.0, 0.55),
    Stage.PACKAGES: (0.55, 0.92),
    Stage.FINISH: (0.92, 0.94),
    Stage.IMPORT: (0.94, 1.0),
}
# How many lines the tools print in a stage, as measured; only the bar's pace depends on it.
_LINES = {Stage.BASE: 460, Stage.PACKAGES: 520, Stage.FINISH: 1, Stage.IMPORT: 250}


@dataclass(frozen=True, slots=True)
class Progress:
    """One report. ``fraction`` (0 to 1) is an estimate that never goes back."""

    stage: Stage
    fraction: float
    detail: str
    """The last thing a tool said."""


Report: TypeAlias = Callable[[Progress], None]


class Meter:
    """Turns a builder's stages and lines into reports."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._stage = Stage.BASE
        self._seen = 0

    def enter(self, stage: Stage, detail: str) -> None:
        """Begin ``stage``; one that is already behind stays behind."""
        stages = tuple(Stage)
        if stages.index(stage) > stages.index(self._stage):
            self._stage = stage
            self._seen = 0
        self._send(detail)

    def line(self, text: str) -> None:
        """Count one line (or chunk) of work in the present stage."""
        self._seen += 1
        self._send(text.strip())

    def _send(self, detail: str) -> None:
        begin, end = _SPAN[self._stage]
        share = min(self._seen / _LINES[self._stage], 1.0)
        self._report(Progress(self._stage, begin + (end - begin) * share, detail))


def silent(progress: Progress) -> None:
    """Report to nobody."""
    del progress
