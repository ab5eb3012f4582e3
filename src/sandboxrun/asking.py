"""Stages 2 and 3 of a job: what is judged of it, and what its events say of the questions."""

from __future__ import annotations

from datetime import datetime

from sandboxrun.approval.approvals import Answered, Approval
from sandboxrun.deciding import Judged
from sandboxrun.engine.protocol import ImageInfo
from sandboxrun.job import Job, Tools
from sandboxrun.model.event import ApprovalRequested, ApprovalResolved
from sandboxrun.policy.decision import Decision
from sandboxrun.screening import Facts


async def judged_of(job: Job, tools: Tools, image: ImageInfo, facts: Facts) -> Judged:
    """Return what is judged of a job. Raises `UnknownWorkspaceError`. Leaves nothing."""
    name = job.request.workspace
    return Judged(
        run_id=job.run_id,
        request=job.request,
        principal=job.principal,
        workspace_id=None if name is None else (await tools.workspaces.show(name)).workspace_id,
        image=job.image,
        image_id=image.id,
        runtime=None if job.runtime in (None, tools.runtime) else job.runtime,
        facts=facts,
    )


def tell(job: Job, asked: Approval, decision: Decision) -> None:
    """Put a question, and later its end, among the run's events. Raises `OutputError`."""
    if asked.answer is None:
        requested = ApprovalRequested(
            approval_id=asked.approval_id,
            rule=decision.rule,
            expires_at=datetime.fromisoformat(asked.expires_at),
        )
        job.log.event(requested)
        return
    granted = asked.answer is Answered.APPROVED
    resolved = ApprovalResolved(
        approval_id=asked.approval_id, granted=granted, by=asked.answered_by
    )
    job.log.event(resolved)
