"""A runner on each event loop, whose pipeline is stopped at a chosen await point."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from anyio.from_thread import BlockingPortal

from sandboxrun import Outcome, Runner, Settings
from sandboxrun.engine.protocol import EngineKind
from sandboxrun.job import Job, Tools
from sandboxrun.pipeline import execute
from sandboxrun.settle.cause import Cause


class Interrupter:
    """Counts the suspensions of a run's pipeline and asks for its end at the chosen one."""

    def __init__(self) -> None:
        self.at: int | None = None
        self.count = 0
        self.finished = 0

    async def execute(self, job: Job, tools: Tools) -> Outcome:
        self.count = 0
        outcome = await _Counted(self, job, tools)
        self.finished += 1
        return outcome

    def suspended(self, job: Job) -> None:
        self.count += 1
        if self.count == self.at:
            job.stop.ask(Cause.CANCELLED)


@dataclass
class _Counted:
    """Awaits the pipeline and looks at every value it yields to the event loop."""

    interrupter: Interrupter
    job: Job
    tools: Tools

    def __await__(self) -> Generator[Any, Any, Outcome]:
        inner = execute(self.job, self.tools).__await__()
        sent: Any = None
        thrown: BaseException | None = None
        while True:
            try:
                waits_for = inner.send(sent) if thrown is None else inner.throw(thrown)
            except StopIteration as done:
                outcome: Outcome = done.value
                return outcome
            self.interrupter.suspended(self.job)
            sent, thrown = None, None
            try:
                sent = yield waits_for
            except BaseException as error:  # noqa: BLE001 - passed on to the pipeline as it is
                thrown = error


@dataclass(frozen=True)
class Cancelling:
    runner: Runner
    portal: BlockingPortal
    interrupter: Interrupter
    settings: Settings
    kind: EngineKind
    stride: int
    warm: bool
