"""The labelled commands of the suite, and how a run over them is counted."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from sandboxrun.screening import Effect, Tier, screen

DIRECTORY = Path(__file__).parents[1] / "corpora" / "screening"
NAMES = tuple(sorted(path.stem for path in DIRECTORY.glob("*.jsonl")))


class Row(NamedTuple):
    """A labelled command."""

    id: str
    command: str
    tier: Tier
    effect: Effect


def rows(name: str) -> Iterator[Row]:
    """Yield the rows of one corpus."""
    with (DIRECTORY / f"{name}.jsonl").open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            yield Row(row["id"], row["command"], Tier(row["tier"]), Effect(row["effect"]))


class Score(NamedTuple):
    """How verdicts compare with labels."""

    counts: Counter[str]
    wrong: list[str]

    def share(self, kind: str, of: str) -> float:
        """Return the share of rows of kind ``of`` that went as ``kind``."""
        return self.counts[kind] / max(1, self.counts[of])


def score(name: str) -> Score:
    """Screen one corpus. Effects are not scored for commands that are never run."""
    counts: Counter[str] = Counter()
    wrong = []
    for row in rows(name):
        facts = screen(row.command)
        counts[row.tier] += 1
        counts["failed"] += any(finding.code == "rule.failed" for finding in facts.findings)
        if facts.tier is not row.tier:
            counts[f"{row.tier}->{facts.tier}"] += 1
            wrong.append(f"{row.id}: {row.tier}->{facts.tier}: {row.command!r}")
        if row.tier is not Tier.NEVER:
            counts[row.effect] += 1
            if facts.effect is not row.effect:
                counts[f"{row.effect}->{facts.effect}"] += 1
                wrong.append(f"{row.id}: {row.effect}->{facts.effect}: {row.command!r}")
    return Score(counts, wrong)
