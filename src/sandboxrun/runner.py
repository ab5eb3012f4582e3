"""The facade: opens everything once, accepts requests, hands out runs."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

import anyio
import anyio.abc
import anyio.to_thread
import structlog

from sandboxrun.accepting import as_request, stored_request
from sandboxrun.approval.question import Approver
from sandboxrun.audit.log import open_audit
from sandboxrun.config import Settings
from sandboxrun.engine.machine import require_runtime
from sandboxrun.engine.protocol import EngineInfo
from sandboxrun.errors import SandboxrunError, UsageError
from sandboxrun.foreseeing import first_recipe
from sandboxrun.job import Job, Tools
from sandboxrun.model.event import Event, Queued, Stream
from sandboxrun.model.ids import new_id
from sandboxrun.model.outcome import Outcome
from sandboxrun.model.request import Request
from sandboxrun.model.text import escaped
from sandboxrun.model.workspace import Workspace
from sandboxrun.opening import open_engine, open_tools, redaction_of, upkeep_of
from sandboxrun.output.capture import OutputPolicy
from sandboxrun.output.display import display
from sandboxrun.output.redact import Redaction
from sandboxrun.output.run_log import RunLog
from sandboxrun.output.secret_forms import Secret
from sandboxrun.output.spools import spool_path
from sandboxrun.output.upkeep import Upkeep
from sandboxrun.pipeline import execute
from sandboxrun.policy.document import Document
from sandboxrun.recovery import recover
from sandboxrun.settle.cause import Cause, Stop
from sandboxrun.settle.task_group import plain_task_group
from sandboxrun.state.clock import rfc3339
from sandboxrun.state.directory import StateDirectory
from sandboxrun.state.requests import RequestDesk, RequestKind, answer
from sandboxrun.state.runs import NewRun, Runs
from sandboxrun.state.store import Store, open_store
from sandboxrun.workspace.workspaces import Change, Workspaces

SYNC_SECONDS = 2.0
"""Between two syncs of the workspaces' store; what a power loss can take back."""
CANCEL_SECONDS = 60.0
"""Longest wait for a cancelled run: the sum of the pipeline's own bounds, with room."""


@dataclass(frozen=True, slots=True)
class Asking:
    """Who answers where a policy asks."""

    approver: Approver | None
    wait_seconds: float | None


class Run:
    """One accepted run of this process."""

    def __init__(self, job: Job) -> None:
        self.run_id = job.run_id
        self._job = job
        self._outcome: Outcome | None = None
        self._done = anyio.Event()

    def events(self, after: int = 0) -> AsyncGenerator[Event]:
        """Yield the events behind number ``after``, in order, until the run is settled.

        May be called any number of times. Raises `OutputError`. Cancelling leaves nothing.
        """
        return self._job.log.events(after)

    def display(self) -> AsyncGenerator[tuple[Stream, bytes]]:
        """Yield the output for somebody who watches; see `sandboxrun.output.display.display`."""
        return display(self._job.log)

    @property
    def output_cut(self) -> bool:
        """Whether the command wrote more than is kept; the rest was only counted."""
        return self._job.log.capture.limit_reached

    async def outcome(self) -> Outcome:
        """Return how the run ended, waiting for it. Cancelling leaves the run going on."""
        await self._done.wait()
        if self._outcome is None:
            raise UsageError(f"The runner was closed before {self.run_id} was settled.")
        return self._outcome

    async def cancel(self) -> Outcome:
        """End the run and return its outcome, which may be that it ended by itself.

        Everything it started is killed and its container removed. Cancelling this call leaves the
        run being ended.
        """
        self.request_cancel()
        return await self.outcome()

    def request_cancel(self) -> None:
        """Ask for the end without waiting for it. Later calls change nothing."""
        self._job.stop.ask(Cause.CANCELLED)

    def _settle(self, outcome: Outcome | None) -> None:
        self._outcome = outcome
        self._done.set()


class Runner:
    """Runs commands, each in a container of its own. Made by `Runner.open`."""

    def __init__(
        self,
        settings: Settings,
        tools: Tools,
        store: Store,
        group: anyio.abc.TaskGroup,
        redaction: Redaction,
    ) -> None:
        self.settings = settings
        self.workspaces: Workspaces = tools.workspaces
        """Create, list and remove workspaces."""
        self._tools = tools
        self._runs = Runs(store)
        self._store = store
        self._desk = RequestDesk(store)
        self._group = group
        self._redaction = redaction

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        settings: Settings | None = None,
        *,
        host_policy: Document | None = None,
        **overrides: Any,  # noqa: ANN401 - the settings' own types
    ) -> AsyncIterator[Runner]:
        """Open the state, connect to the engine, recover from crashes, and yield a runner.

        ``overrides`` are fields of `Settings`, used when no ``settings`` are given;
        ``host_policy`` stands in for the policy they name. Leaving ends all runs that still go on, with their outcomes. Raises `ConfigurationError`, `StateError`
        and engine faults. Cancelling while opening leaves nothing; later, see leaving.
        """
        chosen = Settings.read(**overrides) if settings is None else settings
        async with AsyncExitStack() as opened:
            directory = opened.enter_context(
                await anyio.to_thread.run_sync(StateDirectory.open, chosen.state_dir)
            )
            store = await opened.enter_async_context(open_store(directory))
            engine = await opened.enter_async_context(open_engine(chosen))
            if store.opened.damage is not None:
                structlog.get_logger().warning(
                    "database_replaced",
                    damage=store.opened.damage,
                    set_aside=str(store.opened.rebuilt_from),
                )
            audit = await open_audit(store)
            opened.push_async_callback(audit.finish)
            tools = await opened.enter_async_context(
                open_tools(chosen, store, audit, engine, host_policy=host_policy)
            )
            await recover(engine, audit, tools.workspaces, tools.ledger)
            redaction = await anyio.to_thread.run_sync(redaction_of, directory.path)
            group = await opened.enter_async_context(plain_task_group())
            runner = cls(chosen, tools, store, group, redaction)
            group.start_soon(runner._desk.serve)
            group.start_soon(audit.keep_durable)
            group.start_soon(tools.ledger.serve)
            group.start_soon(_keep_snapshots_durable, tools.workspaces)
            group.start_soon(_keep_in_bounds, upkeep_of(store, chosen))
            tools.workspaces.watch(runner._changed)
            try:
                yield runner
            finally:
                group.cancel_scope.cancel()

    async def describe(self) -> EngineInfo:
        """Return what the engine in use says of itself. Cancelling leaves nothing."""
        return await self._tools.engine.describe()

    async def idle(self) -> None:
        """Wait until what settled runs left is removed, and the slots for the next are ready.

        Nobody has to; it is for who wants to look at the engine. Cancelling leaves it going on.
        """
        await self._tools.behind.idle()
        await self._tools.slots.idle()

    @property
    def kept_ready(self) -> frozenset[str]:
        """Ids of the containers and names of the volumes that wait for the next commands."""
        return self._tools.slots.kept

    async def start(self, request: Request | str | None = None, **fields: Any) -> Run:  # noqa: ANN401 - the request's own types
        """Accept a request and start it; return at once with the run.

        ``request`` is a `Request`, or a shell command whose other fields are keywords. Two
        keywords say who answers where a policy asks: ``approver`` (see
        `sandboxrun.approval.question.Approver`), and ``wait_approval_seconds``, how long answers
        of other processes are waited for; without either an ask is a no. Raises `UsageError` for a malformed one and `StateError`. Cancelling may leave an accepted run,
        which is settled as cancelled when the runner closes.
        """
        asking = Asking(fields.pop("approver", None), fields.pop("wait_approval_seconds", None))
        job = await self._accept(as_request(request, fields), asking)
        run = Run(job)
        self._group.start_soon(self._supervise, job, run)
        return run

    async def run(self, request: Request | str | None = None, **fields: Any) -> Outcome:  # noqa: ANN401 - the request's own types
        """Run a request to its outcome. Arguments and faults as for `start`.

        Cancelling kills the command, removes its container, settles it as cancelled and then
        lets the cancellation through.
        """
        run = await self.start(request, **fields)
        try:
            return await run.outcome()
        except BaseException:
            run.request_cancel()
            with anyio.move_on_after(CANCEL_SECONDS, shield=True):
                await run.outcome()
            raise

    def _changed(self, workspace: Workspace, change: Change) -> None:
        """Keep the slots up with the workspaces."""
        if change is not Change.MADE:
            self._tools.slots.forget(workspace.workspace_id)
        wanted = self.settings.slots > 0 and change is not Change.REMOVED
        if wanted and workspace.name is not None:
            recipe = partial(first_recipe, self._tools, self.settings, workspace.name)
            self._tools.slots.foresee(workspace.workspace_id, recipe)

    async def _accept(self, request: Request, asking: Asking) -> Job:
        if request.workspace is not None:
            await self.workspaces.show(request.workspace)
        settings = self.settings
        run_id = new_id("run")
        started_at = datetime.now(UTC)
        principal = settings.principal if request.principal is None else request.principal
        stop = Stop()
        log = self._log(run_id, request, stop)
        job = Job(
            run_id=run_id,
            request=request,
            limits=settings.limits if request.limits is None else request.limits,
            timeout_seconds=(
                settings.timeout_seconds
                if request.timeout_seconds is None
                else request.timeout_seconds
            ),
            image=settings.image if request.image is None else request.image,
            runtime=self._runtime(request.runtime),
            principal=principal,
            started_at=started_at,
            ordering=settings.ordering,
            approver=asking.approver,
            wait_approval_seconds=asking.wait_seconds,
            stop=stop,
            log=log,
        )
        await self._runs.insert(
            NewRun(
                run_id=run_id,
                workspace=request.workspace,
                principal=principal,
                conversation=request.conversation,
                started_at=rfc3339(started_at),
                request_json=stored_request(request, log),
            ),
            durable=False,
        )
        job.log.event(Queued())
        return job

    def _runtime(self, wanted: str | None) -> str | None:
        """Return the runtime of a request; the usual one is None, as where none is named."""
        require_runtime(wanted, self._tools.maker.info)
        return self.settings.runtime if wanted in (None, self._tools.runtime) else wanted

    def _log(self, run_id: str, request: Request, stop: Stop) -> RunLog:
        redaction = self._redaction
        if request.secrets:
            redaction = redaction.including(
                Secret(escaped(name), value) for name, value in request.secrets.items()
            )
        return RunLog(
            spool_path(self._store.directory.spool, run_id),
            redaction,
            policy=OutputPolicy(
                limit_bytes=self.settings.output_limit_bytes,
                on_limit=request.on_output_limit,
                preview=request.preview,
            ),
            on_limit=lambda: stop.ask(Cause.OUTPUT_LIMIT),
        )

    async def _supervise(self, job: Job, run: Run) -> None:
        """Carry one run to its end, shielded; a cancelled runner asks for the end instead."""
        outcome: Outcome | None = None
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(_ask_when_cancelled, job.stop)
                group.start_soon(self._hear_requests, job)
                with anyio.CancelScope(shield=True):
                    outcome = await execute(job, self._tools)
                group.cancel_scope.cancel()
        finally:
            job.log.close()
            run._settle(outcome)  # noqa: SLF001 - its maker settles it

    async def _hear_requests(self, job: Job) -> None:
        async with self._desk.watch(job.run_id) as requests:
            async for request in requests:
                if request.kind is RequestKind.CANCEL:
                    job.stop.ask(Cause.CANCELLED)
                    await answer(self._store, request.request_id, "{}")


async def _keep_snapshots_durable(workspaces: Workspaces) -> None:
    """Sync behind the runs, which never wait for it. Cancelling leaves snapshots committed."""
    while True:
        try:
            await workspaces.make_durable()
        except SandboxrunError as fault:
            structlog.get_logger().warning("snapshots_not_durable", error=fault.message)
        await anyio.sleep(SYNC_SECONDS)


async def _ask_when_cancelled(stop: Stop) -> None:
    try:
        await anyio.sleep_forever()
    finally:
        # Also reached after the outcome, when asking changes nothing any more.
        stop.ask(Cause.CANCELLED)


async def _keep_in_bounds(upkeep: Upkeep) -> None:
    try:
        await upkeep.for_ever()
    except SandboxrunError:
        # A disk that refuses to remove is no reason to end the runs; they meet it themselves.
        return


def run(request: Request | str | None = None, **fields: Any) -> Outcome:  # noqa: ANN401 - the request's own types
    """Run one command and return its outcome: open a runner, run, close it. Blocks.

    Arguments and faults as for `Runner.run`.
    """

    async def once() -> Outcome:
        async with Runner.open() as runner:
            return await runner.run(request, **fields)

    return anyio.run(once)
