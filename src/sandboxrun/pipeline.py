"""One command, one direction: the numbered stages of a run.

Stages 5 to 8 sit on one exit stack and are undone in reverse. Stages 9 and 10 run on every path.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import datetime

import anyio

from sandboxrun.audit.log import AuditLog
from sandboxrun.engine.hardening import LaunchPlan, harden
from sandboxrun.engine.init_cache import InitInstallation
from sandboxrun.engine.posture_compare import require
from sandboxrun.engine.posture_promise import promised_posture
from sandboxrun.engine.protocol import Engine, EngineInfo, ImageInfo
from sandboxrun.engine.sandbox import Sandbox, open_sandbox
from sandboxrun.errors import ImageUnusableError, OutputError, SandboxrunError, StateError
from sandboxrun.init.request import InitRequest
from sandboxrun.init.session import Output
from sandboxrun.model import labels
from sandboxrun.model.artifact import Artifact
from sandboxrun.model.environment import command_environment
from sandboxrun.model.event import Exited, Settled, Started
from sandboxrun.model.ids import new_id
from sandboxrun.model.limits import Limits
from sandboxrun.model.ordering import Ordering
from sandboxrun.model.outcome import Outcome
from sandboxrun.model.request import Request
from sandboxrun.model.signals import signal_name
from sandboxrun.model.timings import Timings
from sandboxrun.output.artifacts import Artifacts
from sandboxrun.output.run_log import RunLog
from sandboxrun.records import intent_of, receipt_of
from sandboxrun.settle.cause import Stop
from sandboxrun.settle.reason import reason_for
from sandboxrun.settle.stopping import until_stopped
from sandboxrun.settle.usage import usage_of
from sandboxrun.settle.verdict import Ending, Verdict, settle
from sandboxrun.workspace.volumes import Mounted, Workspaces

BACKSTOP_SECONDS = 30.0
"""How much later than ours the init's own deadline is; it matters only if we die."""
DEFAULT_CWD = b"/workspace"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What all runs of one runner share."""

    engine: Engine
    info: EngineInfo
    init: InitInstallation
    audit: AuditLog
    workspaces: Workspaces
    artifacts: Artifacts
    env_allow: tuple[str, ...]
    installation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One accepted request, with every default filled in."""

    run_id: str
    request: Request
    limits: Limits
    timeout_seconds: float
    image: str
    runtime: str | None
    principal: str
    started_at: datetime
    ordering: Ordering
    stop: Stop
    log: RunLog


@dataclass(slots=True)
class Progress:
    """What is known of a run so far; written by the stages, read by the settlement."""

    timings: Timings = field(default_factory=Timings)
    image: ImageInfo | None = None
    sandbox: Sandbox | None = None
    fault: SandboxrunError | None = None
    intended: bool = False
    sent_at: float | None = None


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
        if progress.sandbox is not None:
            with progress.timings.stage("end"):
                await progress.sandbox.finish(_sink(job))
    return await _conclude(job, tools, progress)


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
    # 5 snapshot: the workspace as it is mounted.
    with stage("workspace"):
        mounted = await owned.enter_async_context(
            tools.workspaces.mounted(job.request.workspace, _owner(tools))
        )
    # 6 intent: written and on the disk before anything starts.
    with stage("intent"):
        await tools.audit.intent(intent_of(job, tools.audit, image=image.id))
        progress.intended = True
    # 7 launch: a pure spec, a container of its own, and its posture compared before trust.
    with stage("create"):
        spec = harden(await _plan(job, tools, image, mounted))
        sandbox = await owned.enter_async_context(open_sandbox(tools.engine, spec))
    progress.sandbox = sandbox
    with stage("start"):
        require(promised_posture(spec, tools.info), await sandbox.start())
    # 8 capture: the clock starts with the command, and every byte goes to the log in order.
    job.log.event(Started(cold=True))
    progress.sent_at = time.monotonic()
    start_clock(job.timeout_seconds)
    with stage("run"):
        progress.fault = await _capture(job, tools, sandbox, image)


async def _capture(
    job: Job, tools: Tools, sandbox: Sandbox, image: ImageInfo
) -> SandboxrunError | None:
    fault: SandboxrunError | None = None
    async with anyio.create_task_group() as group:
        group.start_soon(job.log.complete_events)
        try:
            await sandbox.run(_init_request(job, tools, image), job.request.stdin, _sink(job))
        except SandboxrunError as error:
            fault = error
        group.cancel_scope.cancel()
    return fault


async def _conclude(job: Job, tools: Tools, progress: Progress) -> Outcome:
    sandbox = progress.sandbox
    record = None if sandbox is None else sandbox.record
    # 9 settle: from everything known to the one status.
    verdict = settle(
        Ending(
            shell=job.request.command is not None,
            cause=job.stop.cause,
            fault=progress.fault,
            record=record,
            state=None if sandbox is None else sandbox.state,
        )
    )
    if progress.sent_at is not None:
        job.log.event(Exited(exit_code=verdict.exit_code, signal=signal_name(verdict.signal)))
    artifact, rest = await _kept_output(job, tools)
    outcome = _outcome(job, progress, verdict).model_copy(
        update={"artifact": artifact, "preview": job.log.preview(rest=rest)}
    )
    # 10 receipt: the outcome and its record are committed together.
    try:
        await tools.audit.settle(
            receipt_of(job, outcome, started=progress.intended),
            outcome_json=outcome.model_dump_json(),
        )
    except StateError as fault:
        outcome = outcome.model_copy(
            update={"reason": f"{outcome.reason} It could not be recorded: {fault.message}"}
        )
    job.log.event(
        Settled(
            status=outcome.status,
            exit_code=outcome.exit_code,
            signal=outcome.signal,
            reason=outcome.reason,
        )
    )
    return outcome


async def _kept_output(job: Job, tools: Tools) -> tuple[Artifact | None, str | None]:
    """Keep the output where it is not shown whole; say where it is."""
    if not (job.log.preview().truncated or job.request.keep_output):
        return None, None
    try:
        artifact = await tools.artifacts.keep(
            job.log.path,
            run_id=job.run_id,
            workspace=job.request.workspace,
            principal=job.principal,
        )
    except (OutputError, StateError) as fault:
        return None, f"The complete output could not be kept: {fault.message}"
    what = "The first part of the output" if job.log.capture.limit_reached else "All of it"
    until = artifact.expires_at.isoformat(timespec="minutes")
    return artifact, f"{what} is {artifact.id} until {until}: sandboxrun artifact get {artifact.id}"


def _outcome(job: Job, progress: Progress, verdict: Verdict) -> Outcome:
    record = None if progress.sandbox is None else progress.sandbox.record
    if record is not None:
        elapsed = record.elapsed_us / 1_000_000
    elif progress.sent_at is not None:
        elapsed = time.monotonic() - progress.sent_at
    else:
        elapsed = 0.0  # It never ran.
    usage = usage_of(record)
    return Outcome(
        run_id=job.run_id,
        workspace=job.request.workspace,
        principal=job.principal,
        conversation=job.request.conversation,
        status=verdict.status,
        exit_code=verdict.exit_code,
        signal=signal_name(verdict.signal),
        reason=job.log.text(
            reason_for(
                verdict,
                limits=job.limits,
                timeout_seconds=job.timeout_seconds,
                oom_kills=usage.oom_kills,
                cwd=DEFAULT_CWD if job.request.cwd is None else job.request.cwd,
            )
        )
        + _unwritten(job.log.fault),
        started_at=job.started_at,
        elapsed_seconds=elapsed,
        timings=progress.timings.milliseconds(),
        preview=job.log.preview(),
        redactions=job.log.capture.redactions,
        ordering=job.ordering if record is None else record.ordering,
        image=None if progress.image is None else progress.image.id,
        usage=usage,
        limits=job.limits,
        receipt_id=new_id("receipt"),
    )


def _unwritten(fault: OutputError | None) -> str:
    return "" if fault is None else f" Its output could not all be written down: {fault.message}"


async def _image(engine: Engine, reference: str) -> ImageInfo:
    image = await engine.inspect_image(reference)
    if image is None:
        raise ImageUnusableError(f"The engine has no image {reference!r}.")
    return image


def _init_request(job: Job, tools: Tools, image: ImageInfo) -> InitRequest:
    request = job.request
    return InitRequest(
        argv=() if request.argv is None else request.argv,
        script=request.command,
        env=command_environment(image.env, tools.env_allow, {**request.env, **request.secrets}),
        cwd=DEFAULT_CWD if request.cwd is None else request.cwd,
        deadline_ms=int((job.timeout_seconds + BACKSTOP_SECONDS) * 1000),
        ordering=job.ordering,
        stdin=request.stdin is not None,
    )


async def _plan(job: Job, tools: Tools, image: ImageInfo, mounted: Mounted) -> LaunchPlan:
    return LaunchPlan(
        name=f"sandboxrun-{job.run_id}",
        engine=tools.info,
        image=image,
        limits=job.limits,
        uid=mounted.uid,
        workspace=mounted.volume,
        read_only=False,
        init=await tools.init.volume(image.id),
        labels=(
            (labels.INSTALLATION, tools.installation),
            (labels.ROLE, labels.ROLE_RUN),
            (labels.RUN, job.run_id),
            (labels.OWNER, _owner(tools)),
        ),
        runtime=job.runtime,
    )


def _owner(tools: Tools) -> str:
    return str(tools.audit.store.owner)


def _sink(job: Job) -> Callable[[Output], None]:
    def write(output: Output) -> None:
        job.log.output(output.stream, output.data)

    return write
