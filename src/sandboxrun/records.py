"""What the audit is told of a job: its intent before, its receipt after."""

from __future__ import annotations

from sandboxrun.audit.digest import canonical_digest, command_digest, env_digests, sha256
from sandboxrun.audit.log import AuditLog
from sandboxrun.audit.record import Intent, Receipt
from sandboxrun.job import Progress
from sandboxrun.model.outcome import Outcome
from sandboxrun.model.text import escaped
from sandboxrun.policy.decision import Decision


def intent_of(progress: Progress, audit: AuditLog, *, image: str) -> Intent:
    """Return what is written down before the container is made."""
    job, decision, session = progress.job, progress.decision, progress.session
    request = job.request
    return Intent(
        run_id=job.run_id,
        principal=job.principal,
        conversation=request.conversation,
        workspace=request.workspace,
        command=command_digest(request),
        stdin=None if request.stdin is None else sha256(request.stdin),
        env=env_digests(request.env, audit.env_secret),
        cwd=None if request.cwd is None else escaped(request.cwd),
        timeout_seconds=job.timeout_seconds,
        limits=job.limits,
        image=image,
        policies={} if decision is None else policies_of(decision),
        consent=None if decision is None else decision.consent,
        grant=None if decision is None else decision.grant,
        approval=progress.approval,
        read_only=session is not None and session.read_only,
        snapshot_before=None if session is None else session.snapshot_before,
        owner=str(audit.store.owner),
    )


def policies_of(decision: Decision) -> dict[str, str]:
    """Return the digests of what decided, by name."""
    digests = decision.digests
    found = {"host_policy": digests.host_policy}
    if digests.workspace_policy is not None:
        found["workspace_policy"] = digests.workspace_policy
    return found


def receipt_of(progress: Progress, outcome: Outcome) -> Receipt:
    """Return the record of how it ended."""
    job, decision = progress.job, progress.decision
    return Receipt(
        receipt_id=outcome.receipt_id,
        run_id=job.run_id,
        started=progress.intended,
        principal=job.principal,
        workspace=outcome.workspace,
        command=command_digest(job.request),
        status=outcome.status.value,
        exit_code=outcome.exit_code,
        signal=outcome.signal,
        elapsed_seconds=outcome.elapsed_seconds,
        timings=outcome.timings,
        usage=outcome.usage,
        limits=outcome.limits,
        image=outcome.image,
        policies=outcome.policy_digests,
        consent=None if decision is None else decision.consent,
        grant=None if decision is None else decision.grant,
        approval=progress.approval,
        snapshot_before=outcome.snapshot_before,
        snapshot_after=outcome.snapshot_after,
        effects=(
            None
            if outcome.effects is None
            else canonical_digest(outcome.effects.model_dump(mode="json"))
        ),
        output=job.log.output_digest(),
        output_bytes=job.log.output_bytes,
        outcome=sha256(outcome.model_dump_json().encode()),
    )
