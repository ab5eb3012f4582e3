"""How soon a request of another process reaches the owner of a run, and what waiting costs.

Run it: ``python -m tests.bench.state_requests``. The owner here has nothing to stop: what it takes
to kill a container comes on top.
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory

import anyio
import anyio.to_thread
from anyio.abc import TaskStatus
from anyio.streams.buffered import BufferedByteReceiveStream
from tests.faults.state_process import ROOT
from tests.state_samples import new_run, opened, receipt

from sandboxrun.audit.log import AuditLog
from sandboxrun.state.cancelling import Cancelled, cancel_run
from sandboxrun.state.requests import RequestDesk, answer
from sandboxrun.state.runs import Runs

ASKED = 40
IDLE_SECONDS = 10.0


async def own(log: AuditLog, desk: RequestDesk, *, task_status: TaskStatus[str]) -> None:
    """Own one run until somebody wants it ended."""
    run = new_run()
    await Runs(log.store).insert(run)
    async with desk.watch(run.run_id) as asked:
        task_status.started(run.run_id)
        async for request in asked:
            ended = receipt(run.run_id, "{}", started=False, status="cancelled")
            await log.settle(ended, outcome_json="{}")
            await answer(log.store, request.request_id, "{}")
            return


async def owner(path: Path) -> None:
    """Print a run's id for every line read; say what idling with that many costs at ``idle``."""
    async with opened(path) as (store, log), anyio.create_task_group() as tasks:
        desk = RequestDesk(store)
        tasks.start_soon(desk.serve)
        while line := await anyio.to_thread.run_sync(sys.stdin.readline):
            if line == "idle\n":
                before = time.process_time()
                await anyio.sleep(IDLE_SECONDS)
                spent = time.process_time() - before
                sys.stdout.write(f"{spent / IDLE_SECONDS:.5f}\n")
            else:
                sys.stdout.write(f"{await tasks.start(own, log, desk)}\n")
            sys.stdout.flush()
        tasks.cancel_scope.cancel()


async def main() -> None:
    """Measure and print."""
    chance = random.Random(1)
    with TemporaryDirectory() as place:
        path = Path(place) / "state"
        command = [sys.executable, "-m", "tests.bench.state_requests", str(path)]
        async with (
            opened(path) as (store, _),
            await anyio.open_process(command, cwd=ROOT, stderr=None) as process,
        ):
            assert process.stdin is not None
            assert process.stdout is not None
            lines = BufferedByteReceiveStream(process.stdout)

            async def said(order: str) -> str:
                await process.stdin.send(f"{order}\n".encode())  # type: ignore[union-attr]
                return (await lines.receive_until(b"\n", 200)).decode()

            times = []
            for _ in range(ASKED):
                run_id = await said("own")
                await anyio.sleep(chance.uniform(0, 0.2))
                began = time.perf_counter()
                report = await cancel_run(store, run_id, wait_seconds=10)
                times.append((time.perf_counter() - began) * 1000)
                assert report.result is Cancelled.CANCELLED
            sys.stdout.write(
                f"cancel from another process: median {median(times):.0f} ms, "
                f"p95 {quantiles(times, n=20)[-1]:.0f} ms, worst {max(times):.0f} ms of {ASKED}\n"
            )
            watched = 0
            for goal in (0, 1, 100, 1000):
                while watched < goal:
                    await said("own")
                    watched += 1
                share = float(await said("idle"))
                sys.stdout.write(
                    f"{watched:>5} idle runs watched: {share * 100:.2f} % of one CPU\n"
                )
            await process.stdin.aclose()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        anyio.run(owner, Path(sys.argv[1]))
    else:
        anyio.run(main)
