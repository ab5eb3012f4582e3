"""Series of measurements: their spread, their ratios, and a table of them."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Series:
    """What one contender measured, in turn with the others."""

    values: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    def percentile(self, percent: int) -> float:
        """Return the nearest rank: a value that was measured, not one between two."""
        ranked = sorted(self.values)
        return ranked[max(0, -(-len(ranked) * percent // 100) - 1)]

    def summary(self) -> dict[str, object]:
        return {
            "n": len(self.values),
            "p50": round(self.median, 3),
            "p95": round(self.percentile(95), 3),
            "min": round(min(self.values), 3),
            "max": round(max(self.values), 3),
        }


def alternate(contenders: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, Series]:
    """Measure every contender once a round, forwards and backwards in turn, after a warm-up.

    So whatever else the machine does, it does to all of them.
    """
    series = {name: Series() for name in contenders}
    for measure in contenders.values():
        measure()
    for number in range(rounds):
        names = list(contenders)
        for name in names if number % 2 == 0 else reversed(names):
            series[name].values.append(contenders[name]())
    return series


def pair_ratios(series: Mapping[str, Series], name: str, base: str) -> tuple[float, float, float]:
    """Return the ratio of the medians, and the quartiles of the ratios of the pairs."""
    pairs = zip(series[name].values, series[base].values, strict=True)
    ratios = [mine / theirs for mine, theirs in pairs]
    low, _, high = statistics.quantiles(ratios, n=4)
    return series[name].median / series[base].median, low, high


def print_table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print ``rows`` as a Markdown table, to be copied into the documentation."""
    lines = [f"\n{title}\n", "| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()
