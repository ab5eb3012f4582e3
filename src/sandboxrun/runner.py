"""The facade: opens everything once, accepts requests, hands out runs."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import anyio.to_thread
import structlog
from pydantic import ValidationError

from sandboxrun.audit.log import AuditLog, open_audit
from sandboxrun.config import Settings, host_environment
from sandboxrun.engine.connect import EngineSearch
from sandboxrun.engine.connect import open_engine as connect_engine
from sandboxrun.engine.docker import DockerEngine
from sandboxrun.engine.init_cache import InitInstallation
from sandboxrun.engine.protocol import Engine, EngineInfo
from sandboxrun.errors import SandboxrunError, UsageError
from sandboxrun.job import Job, Tools
from sandboxrun.model.event import Event, Queued, Stream
from sandboxrun.model.ids import new_id
from sandboxrun.model.outcome import Outcome
from sandboxrun.model.request import Request
from sandboxrun.model.text import escaped
from sandboxrun.model.validation import usage_error
from sandboxrun.output.artifacts import ArtifactPolicy, Artifacts
from sandboxrun.output.capture import OutputPolicy
from sandboxrun.output.display import display
from sandboxrun.output.host_secrets import host_secrets
from sandboxrun.output.redact import Redaction
from sandboxrun.output.run_log import RunLog
from sandboxrun.output.secret_forms import Secret
from sandboxrun.output.spools import SpoolPolicy, spool_path
from sandboxrun.output.upkeep import Upkeep
from sandboxrun.pipeline import execute
from sandboxrun.recovery import recover
from sandboxrun.settle.cause import Cause, Stop
from sandboxrun.state.artifacts import ArtifactRows
from sandboxrun.state.clock import rfc3339
from sandboxrun.state.directory import StateDirectory
from sandboxrun.state.requests import RequestDesk, RequestKind, answer
from sandboxrun.state.runs import NewRun, Runs
from sandboxrun.state.store import Store, open_store
from sandboxrun.workspace.workspaces import Workspaces, open_workspaces

SYNC_SECONDS = 2.0
"""Between two syncs of the workspaces' store; what a power loss can take back."""
CANCEL_SECONDS = 60.0
"""Longest wait for a cancelled run: the sum of the pipeline's own bounds, with room."""


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
        **overrides: Any,  # noqa: ANN401 - the settings' own types
    ) -> AsyncIterator[Runner]:
        """Open the state, connect to the engine, recover from crashes, and yield a runner.

        ``overrides`` are fields of `Settings`, used when no ``settings`` are given. Leaving ends
        all runs that still go on, with their outcomes. Raises `ConfigurationError`, `StateError`
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
            tools = await _tools(chosen, store, audit, engine)
            await recover(engine, audit, tools.workspaces)
            redaction = await anyio.to_thread.run_sync(_redaction, directory.path)
            group = await opened.enter_async_context(anyio.create_task_group())
            runner = cls(chosen, tools, store, group, redaction)
            group.start_soon(runner._desk.serve)
            group.start_soon(audit.keep_durable)
            group.start_soon(_keep_snapshots_durable, tools.workspaces)
            group.start_soon(_keep_in_bounds, upkeep_of(store, chosen))
            try:
                yield runner
            finally:
                group.cancel_scope.cancel()

    async def describe(self) -> EngineInfo:
        """Return what the engine in use says of itself. Cancelling leaves nothing."""
        return await self._tools.engine.describe()

    async def start(self, request: Request | str | None = None, **fields: Any) -> Run:  # noqa: ANN401 - the request's own types
        """Accept a request and start it; return at once with the run.

        ``request`` is a `Request`, or a shell command whose other fields are keywords. Raises
        `UsageError` for a malformed one and `StateError`. Cancelling may leave an accepted run,
        which is settled as cancelled when the runner closes.
        """
        job = await self._accept(_as_request(request, fields))
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

    async def _accept(self, request: Request) -> Job:
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
            runtime=settings.runtime,
            principal=principal,
            started_at=started_at,
            ordering=settings.ordering,
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
                request_json=_stored(request, log),
            ),
            durable=False,
        )
        job.log.event(Queued())
        return job

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


def _redaction(state: Path) -> Redaction:
    """Return what is removed from the output of every run; compiled once a machine."""
    return Redaction.of(host_secrets(host_environment()), cache=state)


async def _tools(settings: Settings, store: Store, audit: AuditLog, engine: Engine) -> Tools:
    info = await engine.describe()
    installation = store.directory.installation_id
    return Tools(
        engine=engine,
        info=info,
        init=InitInstallation(engine, info, store.directory.engine, installation),
        audit=audit,
        workspaces=await open_workspaces(engine, info.engine_id, store),
        artifacts=artifacts_of(store, settings),
        env_allow=settings.env_allow,
        installation=installation,
    )


def artifacts_of(store: Store, settings: Settings) -> Artifacts:
    """Return the artifacts of an open store, with the policy of ``settings``."""
    policy = ArtifactPolicy(settings.artifact_lifetime_seconds, settings.artifact_budget_bytes)
    return Artifacts(store.directory.artifacts, ArtifactRows(store), policy)


def upkeep_of(store: Store, settings: Settings) -> Upkeep:
    """Return what keeps the output of runs within the bounds of ``settings``."""

    async def unsettled() -> frozenset[str]:
        return frozenset(row.run_id for row in await Runs(store).unsettled())

    return Upkeep(
        artifacts=artifacts_of(store, settings),
        spools=store.directory.spool,
        policy=SpoolPolicy(budget_bytes=settings.spool_budget_bytes),
        unsettled=unsettled,
    )


@asynccontextmanager
async def open_engine(settings: Settings) -> AsyncIterator[DockerEngine]:
    """Connect to the engine the settings name or find, starting the managed one if it is that.

    Raises `ConfigurationError` and engine faults. Leaving closes the connections only.
    """
    engine = await connect_engine(
        EngineSearch(
            state_dir=settings.state_dir,
            engine=settings.engine,
            docker_host=settings.docker_host,
            docker_config=settings.docker_config,
            docker_context=settings.docker_context,
            xdg_runtime_dir=settings.xdg_runtime_dir,
        )
    )
    try:
        yield engine
    finally:
        await engine.aclose()


def request_from(**fields: Any) -> Request:  # noqa: ANN401 - the request's own types
    """Return a request of ``fields``. Raises `UsageError` naming the first one at fault."""
    try:
        return Request(**fields)
    except ValidationError as invalid:
        raise usage_error(invalid) from invalid


def _as_request(request: Request | str | None, fields: Mapping[str, Any]) -> Request:
    if isinstance(request, Request):
        if fields:
            raise UsageError("Give a Request or its fields, and not both.")
        return request
    given = dict(fields) if request is None else {"command": request, **fields}
    return request_from(**given)


def _stored(request: Request, log: RunLog) -> str:
    """Return the request as it is kept: names of the environment, never its values."""
    shown = request.model_dump(mode="json", exclude={"env", "secrets", "stdin"})
    if request.command is not None:
        shown["command"] = log.text(escaped(request.command))
    if request.argv is not None:
        shown["argv"] = [log.text(escaped(argument)) for argument in request.argv]
    shown["secrets"] = sorted(escaped(name) for name in request.secrets)
    shown["env"] = sorted(escaped(name) for name in request.env)
    shown["stdin_bytes"] = None if request.stdin is None else len(request.stdin)
    return json.dumps(shown)


def run(request: Request | str | None = None, **fields: Any) -> Outcome:  # noqa: ANN401 - the request's own types
    """Run one command and return its outcome: open a runner, run, close it. Blocks.

    Arguments and faults as for `Runner.run`.
    """

    async def once() -> Outcome:
        async with Runner.open() as runner:
            return await runner.run(request, **fields)

    return anyio.run(once)
