"""How long one command takes that does nothing: ours beside what else there is."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.bench.measured import Series, alternate, print_table
from tests.bench.surroundings import Surroundings

RUN = ("run", "--rm", "--network", "none")
BASE = "docker run"


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


@contextmanager
def _long_lived(around: Surroundings) -> Iterator[str]:
    started = around.docker(
        *("run", "-d", "--network", "none"), around.settings.image, "sleep", "inf"
    )
    name = started.stdout.decode().strip()
    try:
        yield name
    finally:
        around.docker("rm", "-f", name)


def _contenders(around: Surroundings, lived: str) -> dict[str, Callable[[], object]]:
    image = around.settings.image
    program = str(Path(sys.executable).parent / "sandboxrun")

    def process(*command: str) -> Callable[[], object]:
        return lambda: subprocess.run(
            command, check=True, capture_output=True, env=around.environment
        )

    found: dict[str, Callable[[], object]] = {
        "bash -c": process("bash", "-c", "true"),
        "docker exec": lambda: around.docker("exec", lived, "true"),
        BASE: lambda: around.docker(*RUN, image, "true"),
        "sandboxrun, cold, library": lambda: around.run("true"),
        "sandboxrun, cold, command line": process(program, "exec", "true"),
    }
    if around.podman is None:
        sys.stdout.write("podman run: skipped, no managed Podman is up (engine up --podman)\n")
        return found
    podman = process("podman", "--url", around.podman, *RUN, image, "true")
    try:
        podman()
    except (OSError, subprocess.CalledProcessError) as fault:
        sys.stdout.write(f"podman run: skipped, it does not run: {fault}\n")
        return found
    return {**found, "podman run": podman}


def measure(around: Surroundings, rounds: int) -> dict[str, Series]:
    """Return milliseconds of each contender, and print them."""
    with _long_lived(around) as lived:
        timed = {
            name: (lambda work=work: _timed(work))
            for name, work in _contenders(around, lived).items()
        }
        series = alternate(timed, rounds)
    rows = [
        [
            name,
            f"{each.median:.1f}",
            f"{each.percentile(95):.1f}",
            f"{each.median / series[BASE].median:.2f}",
        ]
        for name, each in series.items()
    ]
    heads = ("one `true`", "p50 ms", "p95 ms", "p50 / docker run")
    print_table(f"Start to end, {rounds} rounds", heads, rows)
    return series
