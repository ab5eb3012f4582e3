"""What a snapshot costs at 10 files and at many, beside tar, cp and git: one sitting, in turn.

``python -m tests.bench.workspace_snapshots --files 100000 --bytes 5000000000``. Needs root on the
host of the engine that SANDBOXRUN_ENGINE names. Prints a Markdown table.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.to_thread

from sandboxrun import Runner, Settings

_PER_DIRECTORY = 100
_STAGES = ("layer", "volume", "commit")


def make_tree(root: Path, files: int, total: int) -> None:
    """Write ``files`` files of equal size, ``total`` bytes together."""
    content = os.urandom(max(total // files, 1))
    for number in range(files):
        directory = root / f"d{number // _PER_DIRECTORY}"
        if number % _PER_DIRECTORY == 0:
            directory.mkdir(parents=True)
        (directory / f"f{number}").write_bytes(content)


def peers(tree: Path, scratch: Path) -> dict[str, float]:
    """Return the seconds that other ways to keep a state take on the same tree."""
    git = ["git", "-C", str(tree), "-c", "user.name=x", "-c", "user.email=x@x"]
    commands: dict[str, list[list[str]]] = {
        "tar": [["tar", "-cf", str(scratch / "tree.tar"), "-C", str(tree), "."]],
        "cp -a --reflink=auto": [["cp", "-a", "--reflink=auto", str(tree), str(scratch / "copy")]],
        "git add -A && git commit": [
            ["git", "-C", str(tree), "init", "-q"],
            [*git, "add", "-A"],
            [*git, "commit", "-qm", "state"],
        ],
    }
    return {name: _timed(lambda argvs=argvs: _run(argvs)) for name, argvs in commands.items()}


def _run(argvs: list[list[str]]) -> None:
    for argv in argvs:
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _used(path: str) -> int:
    done = subprocess.run(["du", "-sk", path], check=True, capture_output=True, text=True)
    return int(done.stdout.split()[0])


async def measure(files: int, total: int, pairs: int, work: Path) -> None:
    """Measure and print everything."""
    settings = Settings.read(state_dir=work / "state")
    trees = {"10 files": (10, 10_000), f"{files} files": (files, total)}
    async with Runner.open(settings) as runner:
        for name, (count, size) in trees.items():
            tree = work / name.replace(" ", "-")
            await anyio.to_thread.run_sync(make_tree, tree, count, size)
            await runner.workspaces.create(name.replace(" ", "-"), source=tree)
        try:
            await _runs(runner, [name.replace(" ", "-") for name in trees], pairs)
            await _forks(runner, f"{files}-files")
        finally:
            for workspace in await runner.workspaces.list():
                await runner.workspaces.remove(workspace.name or "")
            store = runner.workspaces._layers
            await runner._tools.engine.remove_volume(store.row.volume)
    big = work / f"{files}-files"
    for name, seconds in (await anyio.to_thread.run_sync(peers, big, work)).items():
        _say(f"| {name} | {seconds * 1000:.0f} ms |")


async def _runs(runner: Runner, names: list[str], pairs: int) -> None:
    spent: dict[str, dict[str, list[float]]] = {name: defaultdict(list) for name in names}
    for number in range(pairs):
        for name in names if number % 2 else reversed(names):
            began = time.perf_counter()
            outcome = await runner.run(f"echo {number} > changed", workspace=name)
            spent[name]["run"].append((time.perf_counter() - began) * 1000)
            for stage in _STAGES:
                spent[name][stage].append(outcome.timings.get(stage, float("nan")))
    small, large = names
    _say(f"| stage | {small} | {large} | ratio |\n|---|---|---|---|")
    for stage in (*_STAGES, "run"):
        one, other = (statistics.median(spent[name][stage]) for name in names)
        _say(f"| {stage} | {one:.2f} ms | {other:.2f} ms | {other / one:.2f} |")


async def _forks(runner: Runner, name: str) -> None:
    place = runner.workspaces._layers.mountpoint  # type: ignore[attr-defined]
    before = await anyio.to_thread.run_sync(_used, place)
    began = time.perf_counter()
    for number in range(100):
        await runner.workspaces.fork(name, f"fork-{number}")
    seconds = time.perf_counter() - began
    after = await anyio.to_thread.run_sync(_used, place)
    _say(f"| 100 forks | {seconds * 1000:.0f} ms | {after - before} KiB |")


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--bytes", type=int, default=5_000_000_000)
    parser.add_argument("--pairs", type=int, default=30)
    given = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="sandboxrun-bench-"))
    try:
        anyio.run(measure, given.files, given.bytes, given.pairs, work)
    finally:
        shutil.rmtree(work)


if __name__ == "__main__":
    main()
