"""Stages 1 to 3 of a run: what it would do, what the policies say, and who says yes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import anyio.to_thread

from sandboxrun.approval.approvals import Approvals
from sandboxrun.approval.authorise import (
    Ending,
    Evaluated,
    Permit,
    Stopped,
    Tell,
    authorise,
    confirm,
)
from sandboxrun.approval.binding import Bound
from sandboxrun.approval.consents import Consents
from sandboxrun.approval.grants import Grants
from sandboxrun.approval.question import Approver, question_of
from sandboxrun.approval.workspace_policies import WorkspacePolicies
from sandboxrun.audit.digest import env_digests, sha256
from sandboxrun.audit.log import AuditLog
from sandboxrun.model.request import Request
from sandboxrun.model.text import escaped
from sandboxrun.policy.authority import Authority, PolicyDigests, implied_consent
from sandboxrun.policy.decide import Case, decide
from sandboxrun.policy.decision import Decision
from sandboxrun.policy.document import Document
from sandboxrun.policy.explain import touches
from sandboxrun.policy.grants import CommandText
from sandboxrun.policy.host import HostPolicy
from sandboxrun.policy.requested import Requested
from sandboxrun.screening import Facts, screen, screen_argv
from sandboxrun.state.clock import timestamp


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """What requests are judged by: the host's policy, and who accepted and granted what."""

    host: HostPolicy
    audit: AuditLog
    approvals: Approvals
    consents: Consents
    grants: Grants
    workspace_policies: WorkspacePolicies
    defaults: Mapping[str, float]
    """Limits the operator set for requests that name none (`policy.requested.limits_of`)."""

    async def host_policy(self) -> Document:
        """Return the host's policy of this moment. Raises `PolicyError`. Leaves nothing."""
        if self.host.is_shipped:
            return self.host.latest
        return await anyio.to_thread.run_sync(self.host.current)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A request with everything it is judged by that does not change while it waits."""

    run_id: str
    request: Request
    principal: str
    workspace_id: str | None
    image: str
    image_id: str
    runtime: str | None
    facts: Facts


async def facts_of(request: Request) -> Facts:
    """Screen a request, in a worker thread: a parser process may be needed. Bounded.

    Cancelling leaves the thread to its own bound.
    """
    if request.command is not None:
        work = partial(screen, request.command)
    else:
        work = partial(screen_argv, request.argv or ())
    return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)


async def permit_for(
    judge: Judge,
    judged: Judged,
    *,
    approver: Approver | None,
    wait_seconds: float | None,
    tell: Tell,
) -> Permit | Stopped:
    """Decide about a request and have its asks answered; ``tell`` hears what is asked.

    Raises `PolicyError` and `StateError`. Cancelling withdraws the question.
    """
    evaluate = partial(_evaluate, judge, judged)
    return await authorise(
        evaluate, judge.approvals, approver=approver, wait_seconds=wait_seconds, tell=tell
    )


async def holds(judge: Judge, judged: Judged, permit: Permit) -> bool:
    """Look once more immediately before the launch; true means go, and only once.

    Raises `PolicyError` and `StateError`. Cancelling may leave an approval used up.
    """
    evaluate = partial(_evaluate, judge, judged)
    return await confirm(permit, evaluate, judge.approvals) is None


def kept_changing(permit: Permit) -> Stopped:
    """Return the end of a request that changed between its answer and its launch again."""
    reason = (
        "A policy, a consent, a grant or the request changed between the answer and the launch, "
        "also after it was judged anew; nothing was run. Run it again when things have settled."
    )
    return Stopped(Ending.APPROVAL_DENIED, reason, permit.decision, permit.approval_id)


async def foresee(judge: Judge, judged: Judged) -> Decision:
    """Return what would be decided about a request, asking nobody. Raises `StateError`.

    Cancelling leaves nothing.
    """
    return (await _evaluate(judge, judged)).decision


async def _evaluate(judge: Judge, judged: Judged) -> Evaluated:
    request = judged.request
    host = await judge.host_policy()
    authority = await _authority(judge, judged, host)
    requested = Requested.of(
        request,
        image=judged.image,
        runtime=judged.runtime,
        defaults=judge.defaults,
    )
    narrower: Document | None = None
    if judged.workspace_id is not None:
        narrower = await judge.workspace_policies.get(judged.workspace_id)
    command = CommandText(
        form=requested.form,
        parts=(request.command,) if request.command is not None else request.argv or (),
        cwd=None if request.cwd is None else escaped(request.cwd),
    )
    grants = await judge.grants.holding(principal=judged.principal, workspace=judged.workspace_id)
    decision = decide(
        Case(command=command, facts=judged.facts, requested=requested),
        host,
        narrower,
        authority,
        grants,
    )
    bound = Bound(
        run_id=judged.run_id,
        command=command,
        principal=judged.principal,
        conversation=request.conversation,
        workspace=judged.workspace_id,
        image_id=judged.image_id,
        obligations=decision.obligations,
        digests=decision.digests,
        env=env_digests(request.env, judge.audit.env_secret),
        secrets=tuple(sorted(escaped(name) for name in request.secrets)),
        stdin=None if request.stdin is None else sha256(request.stdin),
    )
    question = question_of(
        decision,
        bound,
        judged.facts,
        requested,
        touches=tuple(touches(judged.facts)),
        workspace_name=request.workspace,
    )
    return Evaluated(decision, bound, question)


async def _authority(judge: Judge, judged: Judged, host: Document) -> Authority:
    if judged.workspace_id is not None:
        return await judge.consents.authority(
            principal=judged.principal,
            workspace=judged.workspace_id,
            conversation=judged.request.conversation,
        )
    return Authority(
        principal=judged.principal,
        workspace=None,
        conversation=judged.request.conversation,
        consent=implied_consent(
            judged.principal, None, PolicyDigests.of(host, None), at=timestamp()
        ),
    )
