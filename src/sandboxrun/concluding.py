"""Stages 9 and 10: the one status, and the record of it."""

from __future__ import annotations

import time
from types import MappingProxyType
from typing import Final

from sandboxrun.approval.authorise import Ending as Stopping
from sandboxrun.engine.machine import Fitted
from sandboxrun.errors import OutputError, StateError
from sandboxrun.job import Job, Progress, Tools
from sandboxrun.launching import cwd_of
from sandboxrun.model.artifact import Artifact
from sandboxrun.model.effects import Changes, Effects, TreeEffects
from sandboxrun.model.event import Exited, Settled
from sandboxrun.model.ids import new_id
from sandboxrun.model.outcome import Decided, Found, Outcome
from sandboxrun.model.signals import signal_name
from sandboxrun.model.status import Status
from sandboxrun.model.workspace import DEFAULT_MOUNT
from sandboxrun.policy.decision import Decision
from sandboxrun.records import policies_of, receipt_of
from sandboxrun.settle.reason import reason_for
from sandboxrun.settle.usage import usage_of
from sandboxrun.settle.verdict import Ending, Verdict, settle

_STOPPED: Final = MappingProxyType(
    {
        Stopping.REFUSED: Status.REFUSED,
        Stopping.CONSENT_REQUIRED: Status.CONSENT_REQUIRED,
        Stopping.APPROVAL_DENIED: Status.APPROVAL_DENIED,
        Stopping.APPROVAL_EXPIRED: Status.APPROVAL_EXPIRED,
        Stopping.CANCELLED: Status.CANCELLED,
    }
)


async def conclude(job: Job, tools: Tools, progress: Progress) -> Outcome:
    """Settle a run from everything that is known of it, record it, and return its outcome.

    Cancelling leaves it settled or not, never half.
    """
    sandbox = progress.sandbox
    job.log.finish_output()
    # 9 settle: from everything known to the one status.
    verdict = settle(
        Ending(
            shell=job.request.command is not None,
            cause=job.stop.cause,
            stopped=_stopped(progress),
            fault=progress.fault,
            unkept=job.log.fault,
            record=None if sandbox is None else sandbox.record,
            state=None if sandbox is None else sandbox.state,
        )
    )
    if progress.sent_at is not None:
        job.log.event(Exited(exit_code=verdict.exit_code, signal=signal_name(verdict.signal)))
    outcome = await _outcome(job, tools, progress, verdict)
    # 10 receipt: the outcome and its record are committed together.
    try:
        await tools.audit.settle(
            receipt_of(progress, outcome),
            outcome_json=outcome.model_dump_json(),
        )
    except StateError as fault:
        # Something ran that the audit does not tell the end of: that is no success.
        outcome = outcome.model_copy(
            update={
                "status": Status.ENGINE_FAILED if progress.intended else outcome.status,
                "reason": f"{outcome.reason} It could not be recorded: {fault.message} "
                f"{fault.advice}",
            }
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


def _stopped(progress: Progress) -> tuple[Status, str] | None:
    stopped = progress.stopped
    return None if stopped is None else (_STOPPED[stopped.ending], stopped.reason)


def _decided(decision: Decision, fitted: Fitted | None) -> Decided:
    findings = tuple(
        Found(code=each.code, reason=each.reason, start=each.start, end=each.end)
        for each in decision.findings
    )
    return Decided(
        tier=decision.tier.value,
        effect=decision.effect.value,
        rule=decision.rule,
        findings=findings,
        clamped={
            **({} if fitted is None else fitted.clamped),
            **{each.name: each.requested for each in decision.clamped},
        },
    )


async def _outcome(job: Job, tools: Tools, progress: Progress, verdict: Verdict) -> Outcome:
    record = None if progress.sandbox is None else progress.sandbox.record
    session, sealed = progress.session, progress.sealed
    artifact, rest = await _kept_output(job, tools)
    usage = usage_of(record)
    return Outcome(
        run_id=job.run_id,
        workspace=job.request.workspace,
        principal=job.principal,
        conversation=job.request.conversation,
        status=verdict.status,
        exit_code=verdict.exit_code,
        signal=signal_name(verdict.signal),
        decision=(
            None if progress.decision is None else _decided(progress.decision, progress.fitted)
        ),
        policy_digests=({} if progress.decision is None else policies_of(progress.decision)),
        reason=_reason(job, verdict, usage.oom_kills, session.mount_at if session else None),
        started_at=job.started_at,
        elapsed_seconds=_elapsed(progress),
        timings=progress.timings.milliseconds(),
        preview=job.log.preview(rest=rest),
        artifact=artifact,
        redactions=job.log.capture.redactions,
        ordering=job.ordering if record is None else record.ordering,
        snapshot_before=None if session is None else session.snapshot_before,
        snapshot_after=None if sealed is None else sealed.snapshot_after,
        effects=None if sealed is None else _redacted(job, sealed.effects),
        image=None if progress.image is None else progress.image.id,
        usage=usage,
        limits=job.limits,
        started_cold=None if progress.sandbox is None else progress.cold,
        receipt_id=new_id("receipt"),
    )


def _elapsed(progress: Progress) -> float:
    record = None if progress.sandbox is None else progress.sandbox.record
    if record is not None:
        return record.elapsed_us / 1_000_000
    if progress.sent_at is not None:
        return time.monotonic() - progress.sent_at
    return 0.0  # It never ran.


def _reason(job: Job, verdict: Verdict, oom_kills: int | None, mount_at: str | None) -> str:
    text = job.log.text(
        reason_for(
            verdict,
            limits=job.limits,
            timeout_seconds=job.timeout_seconds,
            oom_kills=oom_kills,
            cwd=cwd_of(job, DEFAULT_MOUNT if mount_at is None else mount_at),
        )
    )
    fault = job.log.fault
    if fault is None or fault is verdict.fault:
        return text
    return f"{text} Its output could not all be written down: {fault.message}"


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


def _redacted(job: Job, effects: Effects) -> Effects:
    """Names of files are output, too."""

    def hide(changes: Changes) -> Changes:
        return changes.model_copy(update={"paths": tuple(map(job.log.text, changes.paths))})

    def tree(found: TreeEffects) -> dict[str, Changes]:
        return {
            "created": hide(found.created),
            "modified": hide(found.modified),
            "deleted": hide(found.deleted),
        }

    home = effects.home.model_copy(update=tree(effects.home))
    return effects.model_copy(update={**tree(effects), "home": home})
