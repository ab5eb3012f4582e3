"""Print how long screening takes, one command at a time: python tests/unit/screening_timing.py."""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path

from screening_corpora import NAMES, rows

from sandboxrun.screening import screen


def main() -> None:
    """Time the suite's corpora, or the JSON Lines files named as arguments."""
    groups = {name: [row.command for row in rows(name)] for name in NAMES}
    if len(sys.argv) > 1:
        groups = {
            path: [json.loads(line)["command"] for line in Path(path).read_text().splitlines()]
            for path in sys.argv[1:]
        }
    screen("true")
    for name, commands in groups.items():
        taken = []
        for command in commands:
            start = time.perf_counter()
            screen(command)
            taken.append((time.perf_counter() - start) * 1000)
        taken.sort()
        p99 = taken[int(len(taken) * 0.99)]
        sys.stdout.write(
            f"{name}: {len(taken)} commands, median {statistics.median(taken):.2f} ms, "
            f"p99 {p99:.2f} ms, worst {taken[-1]:.2f} ms\n"
        )


if __name__ == "__main__":
    main()
