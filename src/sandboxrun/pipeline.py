"""One command, one direction: the numbered stages of a run.

Stages 5 to 8 sit on one exit stack and are undone in reverse. Stages 9 and 10 run on every path.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from functools import partial

import anyio

from sandboxrun.approval.authorise import Permit
from sandboxrun.asking import judged_of, tell
from sandboxrun.concluding import conclude
from sandboxrun.deciding import Judged, facts_of, holds, kept_changing, permit_for
from sandboxrun.engine.machine import fitted
from sandboxrun.engine.protocol import Engine, ImageInfo
from sandboxrun.engine.sandbox import Sandbox, open_sandbox
from sandboxrun.errors import EngineError, ImageUnusableError, SandboxrunError
from sandboxrun.init.request import InitRequest
from sandboxrun.init.session import Output
from sandboxrun.job import Job, Progress, Tools
from sandboxrun.launching import init_request, recipe_of
from sandboxrun.model import labels
from sandboxrun.model.event import Started, Waiting
from sandboxrun.model.outcome import Outcome
from sandboxrun.records import intent_of
from sandboxrun.reserving import must_not_write, note_time, only_reads, reserve
from sandboxrun.settle.stopping import until_stopped
from sandboxrun.warm.slots import Slot
from sandboxrun.workspace.session import Session


async def execute(job: Job, tools: Tools) -> Outcome:
    """Run one job to its outcome. Every fault after this point is an outcome, too.

    Meant to be called shielded: it ends when ``job.stop`` is asked for, within the bounds of
    `sandboxrun.engine.sandbox`. Cancelling it leaves an unsettled run for recovery.
    """
    progress = Progress(job)
    # What is reserved is given back with the verdict: nothing of the run uses it any more.
    async with AsyncExitStack() as reserved, AsyncExitStack() as owned:
        async with until_stopped(job.stop) as start_clock:
            try:
                await _go_through(tools, owned, reserved, progress, start_clock)
            except SandboxrunError as fault:
                progress.fault = fault
        await _end(progress)
        # 9 settle, 10 receipt
        outcome = await conclude(progress.job, tools, progress)
        # What is left to do waits behind the verdict; so does the slot for the next command.
        tools.behind.leave(job.run_id, owned.pop_all(), progress.sandbox)
        if progress.recipe is not None and progress.fault is None:
            tools.slots.prepare(progress.recipe)
    return outcome


async def _go_through(
    tools: Tools,
    owned: AsyncExitStack,
    reserved: AsyncExitStack,
    progress: Progress,
    start_clock: Callable[[float], None],
) -> None:
    job, stage = progress.job, progress.timings.stage
    with stage("image"):
        progress.image = image = await _image(tools.engine, job.image)
    # 1 screen: what the command would do, as far as its text says.
    with stage("screen"):
        facts = await facts_of(job.request)
    judged = await judged_of(job, tools, image, facts)
    for last in (False, True):
        permit = await _permit(tools, progress, judged)
        if permit is None:
            return
        # 4 reserve: what it may use at most, in the ledger of all processes, until it is over.
        with stage("reserve"):
            held = await reserved.enter_async_context(reserve(tools.ledger, progress))
            progress.reservation = held
        slot, session = await _hold(permit, judged, tools, owned, progress, image)
        if await _intend(permit, judged, tools, progress):
            await _run(tools, owned, progress, slot, session, image, start_clock)
            return
        # What was judged has changed. Nothing is held while it is judged, and asked, again.
        progress.reservation = progress.session = progress.recipe = None
        await owned.aclose()
        await reserved.aclose()
        if last:
            progress.stopped = kept_changing(permit)


async def _permit(tools: Tools, progress: Progress, judged: Judged) -> Permit | None:
    """Return a permit for exactly this request, or None with the reason why not in progress."""
    job = progress.job
    # 2 decide, 3 approve.
    with progress.timings.stage("decide"):
        answer = await permit_for(
            tools.judge,
            judged,
            approver=job.approver,
            wait_seconds=job.wait_approval_seconds,
            tell=partial(tell, job),
        )
    progress.decision, progress.approval = answer.decision, answer.approval_id
    obligations = answer.decision.obligations
    progress.fitted = fitted(obligations.limits, tools.maker.info, asked=job.request.limits)
    progress.job = replace(
        job, limits=progress.fitted.limits, timeout_seconds=obligations.timeout_seconds
    )
    job.log.keep_at_most(obligations.output_bytes)
    if isinstance(answer, Permit):
        return answer
    progress.stopped = answer
    return None


async def _hold(
    permit: Permit,
    judged: Judged,
    tools: Tools,
    owned: AsyncExitStack,
    progress: Progress,
    image: ImageInfo,
) -> tuple[Slot | None, Session]:
    job = progress.job
    # 5 snapshot: the state before the run is frozen below a new, empty layer.
    progress.recipe = recipe = recipe_of(job, judged, image, permit.decision)
    slot = await tools.slots.take(recipe.key, job.run_id)
    progress.cold = slot is None
    if slot is not None:
        owned.push_async_exit(slot.owned)
        session = slot.session
    else:
        session = await _workspace(tools, owned, progress)
    progress.session = session
    return slot, session


async def _intend(permit: Permit, judged: Judged, tools: Tools, progress: Progress) -> bool:
    # 6 intent: the permit still holds, and what starts is on the disk before it does.
    with progress.timings.stage("intent"):
        if not await holds(tools.judge, judged, permit):
            return False
        await tools.audit.intent(intent_of(progress, tools.audit, image=judged.image_id))
        progress.intended = True
        return True


async def _run(
    tools: Tools,
    owned: AsyncExitStack,
    progress: Progress,
    slot: Slot | None,
    session: Session,
    image: ImageInfo,
    start_clock: Callable[[float], None],
) -> None:
    job = progress.job
    # 7 launch: a pure spec, a container of its own, and its posture compared before trust.
    if slot is not None:
        progress.sandbox = sandbox = slot.sandbox
    else:
        sandbox = await _cold(progress, tools, owned)
    # 8 capture: the clock starts with the command, and every byte goes to the log in order.
    job.log.event(Started(cold=progress.cold))
    progress.sent_at = time.monotonic()
    start_clock(job.timeout_seconds)
    with progress.timings.stage("run"):
        progress.fault = await _capture(
            job, sandbox, init_request(job, tools.env_allow, image, session)
        )


async def _cold(progress: Progress, tools: Tools, owned: AsyncExitStack) -> Sandbox:
    job, session, recipe, stage = (
        progress.job,
        progress.session,
        progress.recipe,
        progress.timings.stage,
    )
    if session is None or recipe is None:
        raise EngineError("The stages of the run are out of order.")
    with stage("create"):
        lease = await owned.enter_async_context(tools.slots.pauses.lease(recipe.key.workspace_id))
        name, tags = f"sandboxrun-{job.run_id}", ((labels.RUN, job.run_id),)
        spec = await tools.maker.spec(name, recipe, session, tags, network=lease.network)
        lease.used = True
        sandbox = await owned.enter_async_context(open_sandbox(tools.engine, spec))
        progress.sandbox = lease.sandbox = sandbox
    with stage("start"):
        await tools.maker.start(sandbox, spec)
    return sandbox


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


async def _end(progress: Progress) -> None:
    """Kill what still runs; freeze the layer once the engine says that nothing writes it."""
    sandbox, session = progress.sandbox, progress.session
    if sandbox is None:
        return
    note_time(progress)
    with progress.timings.stage("end"):
        await sandbox.finish(_sink(progress.job))
    if session is not None and sandbox.is_over:
        try:
            progress.sealed = await session.seal()
        except SandboxrunError as fault:
            progress.fault = fault


class _WritingError(Exception):
    """Another run is writing the workspace, and this one need not."""


async def _workspace(tools: Tools, owned: AsyncExitStack, progress: Progress) -> Session:
    job, workspaces, timings = progress.job, tools.workspaces, progress.timings
    name = job.request.workspace
    if name is None:
        return await owned.enter_async_context(workspaces.throwaway(job.run_id, timings=timings))

    def waiting() -> None:
        if only_reads(progress):
            raise _WritingError
        job.log.event(Waiting(reason=f"Another run is writing the workspace {name}."))

    if not must_not_write(progress):
        writer = workspaces.writer(name, job.run_id, waiting=waiting, timings=timings)
        with suppress(_WritingError):
            return await owned.enter_async_context(writer)
    return await owned.enter_async_context(workspaces.reader(name, job.run_id, timings=timings))


async def _image(engine: Engine, reference: str) -> ImageInfo:
    image = await engine.inspect_image(reference)
    if image is None:
        raise ImageUnusableError(f"The engine has no image {reference!r}.")
    return image


def _sink(job: Job) -> Callable[[Output], None]:
    def write(output: Output) -> None:
        job.log.output(output.stream, output.data)

    return write
