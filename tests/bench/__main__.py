"""All benchmarks of running commands: ``make bench``, or ``python -m tests.bench``.

Contenders are measured in turn in one sitting. Prints Markdown tables and writes every figure to
a JSON file under ``build``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from tests.bench import ordering, starting
from tests.bench.surroundings import Surroundings, surroundings

PARTS = ("start", "loads", "calls", "order")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=30, help="of starting a command")
    parser.add_argument("--pairs", type=int, default=9, help="of the loads that write stdout")
    parser.add_argument("--only", choices=PARTS, nargs="+", default=PARTS)
    parser.add_argument("--out", type=Path, default=Path("build/bench.json"))
    return parser.parse_args()


def _machine() -> dict[str, object]:
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "kernel": platform.release(),
        "processors": os.cpu_count(),
        "load_average": os.getloadavg(),
    }


def _measured(around: Surroundings, asked: argparse.Namespace) -> Iterator[tuple[str, object]]:
    if "start" in asked.only:
        series = starting.measure(around, asked.rounds)
        yield "start_ms", {name: each.summary() for name, each in series.items()}
    if "loads" in asked.only:
        yield "stdout_loads", ordering.measure_loads(around, asked.pairs)
    if "calls" in asked.only:
        calls = ordering.measure_calls(around, 5)
        yield "write_us", {name: each.summary() for name, each in calls.items()}
    if "order" in asked.only:
        yield "misplaced", ordering.measure_order(around, 3)


def main() -> None:
    asked = _arguments()
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    document: dict[str, object] = {"before": _machine()}
    with surroundings() as around:
        info = around.docker("info", "--format", "{{.ServerVersion}}, {{.DefaultRuntime}}")
        document["engine"] = info.stdout.decode().strip()
        sys.stdout.write(f"Docker {document['engine']}, load average {os.getloadavg()[0]:.1f}\n")
        for name, figures in _measured(around, asked):
            # After each part: a sitting that is broken off keeps what it has.
            document |= {name: figures, "after": _machine()}
            asked.out.write_text(json.dumps(document, indent=2) + "\n")
    sys.stdout.write(f"\nload average {os.getloadavg()[0]:.1f}; every figure: {asked.out}\n")


if __name__ == "__main__":
    main()
