"""What an ``exec`` command line asks for, and who carries it out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Protocol

from sandboxrun.approval.question import Approver, operator_approver
from sandboxrun.config import Settings, host_environment
from sandboxrun.interfaces.cli.entry import CANCELLED_STATUS
from sandboxrun.interfaces.cli.live import Console, Mode, follow
from sandboxrun.interfaces.cli.signals import Signals, run_with
from sandboxrun.interfaces.cli.terminal_approver import terminal_approver
from sandboxrun.model.outcome import Outcome
from sandboxrun.model.request import Request
from sandboxrun.model.status import exit_status
from sandboxrun.runner import Runner


@dataclass(frozen=True, slots=True)
class Plan:
    """One command line, understood."""

    settings: Settings
    request: Request
    mode: Mode
    as_json: bool
    """Whether a fault is told as JSON on stdout, too."""
    approve: bool
    """Whoever gave the command says yes to what would be asked."""
    wait_seconds: float | None
    """How long answers of other processes are waited for."""


class Executor(Protocol):
    """Carries a plan out, and knows what surrounds the command line."""

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables of whoever gave the command."""
        ...

    def read_stdin(self) -> bytes:
        """Return all of their standard input. Blocks."""
        ...

    def execute(self, plan: Plan) -> int:
        """Return the exit status."""
        ...


@dataclass(frozen=True, slots=True)
class InProcess:
    """Carries it out here: opens a runner, runs, closes it."""

    console: Console = field(default_factory=Console)

    @property
    def environment(self) -> Mapping[str, str]:
        """See `Executor.environment`."""
        return host_environment()

    def read_stdin(self) -> bytes:
        """See `Executor.read_stdin`."""
        return sys.stdin.buffer.read()

    def execute(self, plan: Plan) -> int:
        """See `Executor.execute`."""
        signals = Signals()
        outcome = run_with(signals, lambda: self._run(plan, signals))
        return CANCELLED_STATUS if signals.came else status_of(outcome)

    async def _run(self, plan: Plan, signals: Signals) -> Outcome:
        async with AsyncExitStack() as opened:
            # A slot for the next command would be removed with this process.
            settings = plan.settings.model_copy(update={"slots": 0})
            runner = await opened.enter_async_context(Runner.open(settings))
            approver = await opened.enter_async_context(terminal_approver(plan.settings.principal))
            # To its end, and while the runner is closed: the outcome is told, whoever asked for it.
            return await carried_out(plan, runner, self.console, approver, signals.call)


async def carried_out(
    plan: Plan,
    runner: Runner,
    console: Console,
    approver: Approver | None,
    on_signal: Callable[[Callable[[], object]], None],
) -> Outcome:
    """Run a plan and show it until it is settled.

    ``on_signal`` is given what ends the run. Raises what `Runner.start` raises, and
    `BrokenPipeError` when the reader of the output has gone. Cancelling leaves the run going on.
    """
    run = await runner.start(
        plan.request,
        approver=operator_approver(plan.settings.principal) if plan.approve else approver,
        wait_approval_seconds=plan.wait_seconds,
    )
    on_signal(run.request_cancel)
    return await follow(run, plan.mode, console)


def status_of(outcome: Outcome) -> int:
    """Return the exit status of an outcome."""
    return exit_status(outcome.status, outcome.exit_code, outcome.signal)
