"""Stage 4: what a run asks of the ledger, and what it tells while it waits."""

from __future__ import annotations

import time
from contextlib import AbstractAsyncContextManager

from sandboxrun.job import Progress
from sandboxrun.model.event import Waiting
from sandboxrun.quota.bounds import amounts_of
from sandboxrun.quota.claim import Claim
from sandboxrun.quota.ledger import Ledger, Reservation
from sandboxrun.screening import Effect


def reserve(ledger: Ledger, progress: Progress) -> AbstractAsyncContextManager[Reservation]:
    """Return the reservation of a run that may start, to be held until it is gone.

    A wait for it is told as an event. See `Ledger.reserve`.
    """
    job, request = progress.job, progress.job.request
    stands_in_line = not must_not_write(progress) and not only_reads(progress)
    writes = request.workspace is not None and stands_in_line

    def waiting(reason: str) -> None:
        job.log.event(Waiting(reason=reason))

    claim = Claim(
        run_id=job.run_id,
        principal=job.principal,
        conversation=request.conversation,
        workspace=request.workspace,
        amounts=amounts_of(job.limits, timeout_seconds=job.timeout_seconds, writes=writes),
    )
    return ledger.reserve(claim, waiting=waiting)


def must_not_write(progress: Progress) -> bool:
    """Whether the request or a policy wants the workspace read-only."""
    decision = progress.decision
    obliged = decision is not None and decision.obligations.read_only
    return obliged or progress.job.request.read_only


def only_reads(progress: Progress) -> bool:
    """Whether the command was proved to only read: it waits for no writer."""
    return progress.decision is not None and progress.decision.effect is Effect.READ_ONLY


def note_time(progress: Progress) -> None:
    """Tell the ledger how long the command took."""
    if progress.reservation is not None and progress.sent_at is not None:
        progress.reservation.spent_seconds = time.monotonic() - progress.sent_at
