"""What exact order costs, and what it gives: beside arrival, and beside ``docker run``."""

from __future__ import annotations

import json
from collections.abc import Callable

from tests.bench.measured import Series, alternate, pair_ratios, print_table
from tests.bench.surroundings import Surroundings

from sandboxrun.model.ordering import Ordering
from sandboxrun.model.output_limit import OnOutputLimit

DOCKER = "docker run"
BAR = 1.05
LINES = 10_000
LOADS = {
    "dd bs=512 | cat": "dd if=/dev/zero bs=512 count=400000 status=none | cat",
    "200,000 unbuffered lines": "python3 -uc 'for i in range(200_000): print(i)'",
    "four parallel loops": "for j in 1 2 3 4; do"
    " (for ((i = 0; i < 50000; i++)); do echo $i; done) & done; wait",
}
ALTERNATING = f"for ((i = 0; i < {LINES}; i += 2)); do echo $i; echo $((i + 1)) >&2; done"
CALLS = """python3 -c '
import json, os, statistics, time
def cost(descriptor):
    spent = []
    for _ in range(4000):
        began = time.perf_counter_ns()
        os.write(descriptor, b"x\\n")
        spent.append(time.perf_counter_ns() - began)
    return statistics.median(spent) / 1000
print("\\n" + json.dumps({"stdout": cost(1), "stderr": cost(2)}))
'"""


def _ours(around: Surroundings, load: str, ordering: Ordering) -> Callable[[], float]:
    # The init's clock: from the fork of the command to its end.
    return lambda: around.run(load, ordering, on_output_limit=OnOutputLimit.DISCARD).elapsed_seconds


def _docker(around: Surroundings, load: str) -> Callable[[], float]:
    def seconds() -> float:
        # bash's clock, so without its own start of some milliseconds.
        done = around.docker(
            *("run", "--rm", "--network", "none", "--log-driver", "none", "--entrypoint", "bash"),
            *(around.settings.image, "-c", f"TIMEFORMAT='took %R'; time {{ {load}; }}"),
        )
        return float(done.stdout.rpartition(b"took ")[2].split()[0])

    return seconds


def measure_loads(around: Surroundings, pairs: int) -> dict[str, dict[str, object]]:
    """Return seconds of loads that only write stdout, and print the ratios."""
    found: dict[str, dict[str, object]] = {}
    rows = []
    for name, load in LOADS.items():
        series = alternate(
            {
                Ordering.EXACT.value: _ours(around, load, Ordering.EXACT),
                Ordering.ARRIVAL.value: _ours(around, load, Ordering.ARRIVAL),
                DOCKER: _docker(around, load),
            },
            pairs,
        )
        ratio, low, high = pair_ratios(series, Ordering.EXACT.value, Ordering.ARRIVAL.value)
        summaries = {each: values.summary() for each, values in series.items()}
        found[name] = {"ratio": ratio, "pair_quartiles": (low, high), "seconds": summaries}
        medians = [f"{values.median:.3f}" for values in series.values()]
        verdict = "yes" if ratio <= BAR else "no"
        rows.append([name, *medians, f"{ratio:.3f}", f"{low:.3f} to {high:.3f}", verdict])
    heads = ("load", "exact s", "arrival s", f"{DOCKER} s", "exact / arrival")
    title = f"Loads that only write stdout, medians of {pairs} rounds"
    print_table(title, (*heads, "quartiles of the pairs", f"<= {BAR}"), rows)
    return found


def measure_calls(around: Surroundings, rounds: int) -> dict[str, Series]:
    """Return microseconds of one ``write`` by stream and ordering, and print them."""
    series = {
        f"{stream}, {ordering}": Series()
        for stream in ("stdout", "stderr")
        for ordering in (Ordering.ARRIVAL, Ordering.EXACT)
    }
    for _ in range(rounds):
        for ordering in (Ordering.ARRIVAL, Ordering.EXACT):
            last = around.output(CALLS, ordering).rsplit(b"\n", 2)[-2]
            for stream, cost in json.loads(last).items():
                series[f"{stream}, {ordering}"].values.append(cost)
    rows = [[name, f"{each.median:.2f}", f"{each.values}"] for name, each in series.items()]
    title = f"One write from Python, medians of {rounds} runs, each the median of 4,000 calls"
    print_table(title, ("stream, ordering", "µs", "of the runs"), rows)
    return series


def measure_order(around: Surroundings, rounds: int) -> dict[str, list[int]]:
    """Return how many of the alternating lines stand where they should not, and print it."""
    image = around.settings.image
    client = ("run", "--rm", "--network", "none", "--log-driver", "none", image, "bash", "-c")
    outputs: dict[str, Callable[[], bytes]] = {
        Ordering.EXACT.value: lambda: around.output(ALTERNATING, Ordering.EXACT),
        Ordering.ARRIVAL.value: lambda: around.output(ALTERNATING, Ordering.ARRIVAL),
        DOCKER: lambda: around.docker(*client, ALTERNATING).stdout,
    }
    found: dict[str, list[int]] = {name: [] for name in outputs}
    for _ in range(rounds):
        for name, output in outputs.items():
            found[name].append(_misplaced(output()))
    rows = [[name, ", ".join(map(str, counts))] for name, counts in found.items()]
    title = f"Lines out of place of {LINES:,} that alternate between stdout and stderr"
    print_table(title, ("", "misplaced"), rows)
    return found


def _misplaced(output: bytes) -> int:
    lines = output.split(b"\n")
    if len(lines) != LINES + 1:
        raise RuntimeError(f"{len(lines) - 1} lines arrived of {LINES}")
    return sum(line != b"%d" % number for number, line in enumerate(lines[:-1]))
