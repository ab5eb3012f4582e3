"""Three processes do anything in any order, and die at it: what is promised always holds.

One outcome a run, an intent before every start, an unbroken chain.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import mkdtemp

import anyio
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.faults.state_process import Worker

from sandboxrun.audit.reading import verify_store
from sandboxrun.audit.verdict import Verdict
from sandboxrun.state.directory import StateDirectory
from sandboxrun.state.runs import Runs
from sandboxrun.state.store import open_store

COUNT = 3
who = st.integers(0, COUNT - 1)


async def _look(path: Path) -> tuple[Verdict, dict[str, str | None]]:
    with StateDirectory.open(path) as directory:
        async with open_store(directory) as store:
            rows = await Runs(store).list(limit=10_000)
            return await verify_store(store), {row.run_id: row.status for row in rows}


class Processes(RuleBasedStateMachine):
    """Three workers on one state directory, and a model of what they have been promised."""

    runs = Bundle("runs")

    def __init__(self) -> None:
        super().__init__()
        self.path = Path(mkdtemp()) / "state"
        self.workers: list[Worker] = []
        self.owner: dict[str, tuple[int, int]] = {}
        self.lives = [0] * COUNT
        self.started: set[str] = set()
        self.ended: dict[str, str] = {}
        self.collected: set[str] = set()

    @initialize()
    def start(self) -> None:
        self.workers = [Worker(self.path, ("asyncio", "trio")[at % 2]) for at in range(COUNT)]
        for worker in self.workers:
            worker.ready()

    @rule(target=runs, at=who)
    def insert(self, at: int) -> str:
        run_id = str(self.workers[at].ask("insert")["result"])
        self.owner[run_id] = (at, self.lives[at])
        return run_id

    @rule(at=who, run_id=runs)
    def intent(self, at: int, run_id: str) -> None:
        """Any process may try; the model knows when it must be refused."""
        if run_id in self.started:
            return
        answer = self.workers[at].ask("intent", run_id=run_id)
        if run_id in self.collected:
            assert answer["fault"] == "unknown_run"
        elif run_id in self.ended:
            assert answer["fault"] == "state"
        else:
            assert answer == {"result": None}
            self.started.add(run_id)

    @rule(at=who, run_id=runs, status=st.sampled_from(["succeeded", "failed", "refused"]))
    def settle(self, at: int, run_id: str, status: str) -> None:
        started = run_id in self.started
        answer = self.workers[at].ask("settle", run_id=run_id, started=started, status=status)
        if run_id in self.collected:
            assert answer["fault"] == "unknown_run"
            return
        assert answer == {"result": run_id not in self.ended}
        self.ended.setdefault(run_id, status)

    @rule(run_id=runs, order=st.permutations(range(COUNT)))
    def settle_at_once(self, run_id: str, order: list[int]) -> None:
        """All three settle the same run at the same time: one of them does."""
        started = run_id in self.started
        for at in order:
            self.workers[at].send("settle", run_id=run_id, started=started, status=f"by-{at}")
        answers = {at: self.workers[at].read() for at in order}
        if run_id in self.collected:
            return
        winners = [at for at, answer in answers.items() if answer == {"result": True}]
        assert len(winners) == (0 if run_id in self.ended else 1)
        if winners:
            self.ended[run_id] = f"by-{winners[0]}"

    @rule(counts=st.lists(st.integers(1, 4), min_size=COUNT, max_size=COUNT))
    def burst(self, counts: list[int]) -> None:
        """Whole runs in all three at the same time."""
        for worker, count in zip(self.workers, counts, strict=True):
            worker.send("burst", count=count)
        for worker in self.workers:
            assert worker.read() == {"result": None}

    @rule(at=who, run_id=runs)
    def ask(self, at: int, run_id: str) -> None:
        answer = self.workers[at].ask("ask", run_id=run_id)
        assert ("fault" in answer) == (run_id in self.collected)

    @rule(at=who)
    def durable(self, at: int) -> None:
        assert self.workers[at].ask("durable") == {"result": None}

    @rule(at=who, moment=st.floats(0, 0.03))
    def kill(self, at: int, moment: float) -> None:
        """Kill -9 in the middle of whole runs, and start another in its place."""
        self.workers[at].send("burst", count=1000)
        anyio.run(anyio.sleep, moment)
        self.workers[at].kill()
        self.lives[at] += 1
        self.workers[at] = Worker(self.path)
        self.workers[at].ready()

    @rule(at=who)
    def recover(self, at: int) -> None:
        """Settle what dead owners left; what living ones run is not touched."""
        assert "result" in self.workers[at].ask("recover")
        for run_id, (owner, life) in self.owner.items():
            if self.lives[owner] > life and run_id not in self.collected:
                self.ended.setdefault(run_id, "lost")

    @precondition(lambda self: self.ended)
    @rule(at=who)
    def collect(self, at: int) -> None:
        runs, _ = self.workers[at].ask("collect")["result"]
        assert set(self.ended) - self.collected <= set(runs)
        self.collected |= set(self.ended)

    @invariant()
    def promises(self) -> None:
        if not self.workers:
            return
        verdict, statuses = anyio.run(_look, self.path)
        assert verdict.intact, verdict.findings
        assert not verdict.breaks, verdict.breaks
        for run_id in self.owner:
            if run_id in self.collected:
                assert run_id not in statuses
            else:
                assert statuses[run_id] == self.ended.get(run_id)

    def teardown(self) -> None:
        for worker in self.workers:
            worker.end()
        shutil.rmtree(self.path.parent)


def test_three_processes_keep_the_promises() -> None:
    run_state_machine_as_test(
        Processes,
        settings=settings(
            max_examples=8,
            stateful_step_count=20,
            deadline=None,
            # Shrinking starts and kills processes for minutes; the failing steps are printed.
            phases=(Phase.generate,),
            suppress_health_check=list(HealthCheck),
        ),
    )
