"""What the audit is told of a job: its intent before, its receipt after."""

from __future__ import annotations

from typing import Protocol

from sandboxrun.audit.digest import canonical_digest, command_digest, env_digests, sha256
from sandboxrun.audit.log import AuditLog
from sandboxrun.audit.record import Intent, Receipt
from sandboxrun.model.limits import Limits
from sandboxrun.model.outcome import Outcome
from sandboxrun.model.request import Request
from sandboxrun.model.text import escaped
from sandboxrun.output.run_log import RunLog


class Recorded(Protocol):
    """The part of a job that is recorded."""

    @property
    def run_id(self) -> str:
        """The run's id."""
        ...

    @property
    def request(self) -> Request:
        """What was asked."""
        ...

    @property
    def limits(self) -> Limits:
        """The limits in force."""
        ...

    @property
    def timeout_seconds(self) -> float:
        """The time limit in force."""
        ...

    @property
    def principal(self) -> str:
        """Who asked."""
        ...

    @property
    def log(self) -> RunLog:
        """What it printed."""
        ...


def intent_of(job: Recorded, audit: AuditLog, *, image: str, snapshot_before: str | None) -> Intent:
    """Return what is written down before the container is made."""
    request = job.request
    return Intent(
        run_id=job.run_id,
        principal=job.principal,
        conversation=request.conversation,
        workspace=request.workspace,
        command=command_digest(request),
        stdin=None if request.stdin is None else sha256(request.stdin),
        env=env_digests({**request.env, **request.secrets}, audit.env_secret),
        cwd=None if request.cwd is None else escaped(request.cwd),
        timeout_seconds=job.timeout_seconds,
        limits=job.limits,
        image=image,
        read_only=request.read_only,
        snapshot_before=snapshot_before,
        owner=str(audit.store.owner),
    )


def receipt_of(job: Recorded, outcome: Outcome, *, started: bool) -> Receipt:
    """Return the record of how it ended."""
    return Receipt(
        receipt_id=outcome.receipt_id,
        run_id=job.run_id,
        started=started,
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
