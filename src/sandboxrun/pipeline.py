"""One command, one direction: the numbered stages of a run.

Stages 5 to 8 sit on one exit stack and are undone in reverse. Stages 9 and 10 run on every path.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack

import anyio

from sandboxrun.concluding import conclude
from sandboxrun.engine.hardening import harden
from sandboxrun.engine.posture_compare import require
from sandboxrun.engine.posture_promise import promised_posture
from sandboxrun.engine.protocol import Engine, ImageInfo, Phase
from sandboxrun.engine.sandbox import Sandbox, open_sandbox
from sandboxrun.errors import ImageUnusableError, SandboxrunError
from sandboxrun.init.request import InitRequest
from sandboxrun.init.session import Output
from sandboxrun.job import Job, Progress, Tools
from sandboxrun.launching import init_request, plan_of
from sandboxrun.model.event import Started, Waiting
from sandboxrun.model.outcome import Outcome
from sandboxrun.records import intent_of
from sandboxrun.settle.stopping import until_stopped
from sandboxrun.workspace.session import Session


async def execute(job: Job, tools: Tools) -> Outcome:
    """Run one job to its outcome. Every fault after this point is an outcome, too.

    Meant to be called shielded: it ends when ``job.stop`` is asked for, within the bounds of
    `sandboxrun.engine.sandbox`. Cancelling it leaves an unsettled run for recovery.
    """
    progress = Progress()
    async with AsyncExitStack() as owned:
        async with until_stopped(job.stop) as start_clock:
            try:
                await _run(job, tools, owned, progress, start_clock)
            except SandboxrunError as fault:
                progress.fault = fault
        await _end(job, progress)
    # 9 settle, 10 receipt
    return await conclude(job, tools, progress)


async def _run(
    job: Job,
    tools: Tools,
    owned: AsyncExitStack,
    progress: Progress,
    start_clock: Callable[[float], None],
) -> None:
    stage = progress.timings.stage
    with stage("image"):
        progress.image = image = await _image(tools.engine, job.image)
    # 5 snapshot: the state before the run is frozen below a new, empty layer.
    session = await owned.enter_async_context(_workspace(job, tools, progress))
    progress.session = session
    # 6 intent: written and on the disk before anything starts.
    with stage("intent"):
        await tools.audit.intent(
            intent_of(job, tools.audit, image=image.id, snapshot_before=session.snapshot_before)
        )
        progress.intended = True
    # 7 launch: a pure spec, a container of its own, and its posture compared before trust.
    with stage("create"):
        spec = harden(await plan_of(job, tools, image, session))
        sandbox = await owned.enter_async_context(open_sandbox(tools.engine, spec))
    progress.sandbox = sandbox
    with stage("start"):
        require(promised_posture(spec, tools.info), await sandbox.start())
    # 8 capture: the clock starts with the command, and every byte goes to the log in order.
    job.log.event(Started(cold=True))
    progress.sent_at = time.monotonic()
    start_clock(job.timeout_seconds)
    with stage("run"):
        progress.fault = await _capture(job, sandbox, init_request(job, tools, image, session))


async def _capture(job: Job, sandbox: Sandbox, request: InitRequest) -> SandboxrunError | None:
    fault: SandboxrunError | None = None
    async with anyio.create_task_group() as group:
        group.start_soon(job.log.complete_events)
        try:
            await sandbox.run(request, job.request.stdin, _sink(job))
        except SandboxrunError as error:
            fault = error
        group.cancel_scope.cancel()
    return fault


async def _end(job: Job, progress: Progress) -> None:
    """Kill what still runs; freeze the layer once the engine says that nothing writes it."""
    sandbox, session = progress.sandbox, progress.session
    if sandbox is None:
        return
    with progress.timings.stage("end"):
        await sandbox.finish(_sink(job))
    ended = sandbox.state is not None and sandbox.state.phase is Phase.STOPPED
    if session is not None and ended:
        try:
            progress.sealed = await session.seal()
        except SandboxrunError as fault:
            progress.fault = fault


def _workspace(job: Job, tools: Tools, progress: Progress) -> AbstractAsyncContextManager[Session]:
    name, workspaces, timings = job.request.workspace, tools.workspaces, progress.timings
    if name is None:
        return workspaces.throwaway(job.run_id, timings=timings)
    if job.request.read_only:
        return workspaces.reader(name, job.run_id, timings=timings)

    def waiting() -> None:
        job.log.event(Waiting(reason=f"Another run is writing the workspace {name}."))

    return workspaces.writer(name, job.run_id, waiting=waiting, timings=timings)


async def _image(engine: Engine, reference: str) -> ImageInfo:
    image = await engine.inspect_image(reference)
    if image is None:
        raise ImageUnusableError(f"The engine has no image {reference!r}.")
    return image


def _sink(job: Job) -> Callable[[Output], None]:
    def write(output: Output) -> None:
        job.log.output(output.stream, output.data)

    return write
