"""Stage 3: from a decision to a permit, and the last look at it before the launch.

What is asked, what is answered and what is launched carry the same digest, or it does not launch.
A pending question holds no lock: other runs of the workspace go on.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, assert_never

import anyio

from sandboxrun.approval.approvals import Answered, Approval, Approvals, OwnAnswer, redeem
from sandboxrun.approval.binding import Bound
from sandboxrun.approval.grants import grant_holds
from sandboxrun.approval.question import Answer, Approver, Question
from sandboxrun.errors import SandboxrunError
from sandboxrun.policy.decision import Decision, Verdict
from sandboxrun.policy.reasons import ASKED
from sandboxrun.settle.task_group import plain_task_group

_CLOSE_SECONDS: Final = 5.0
_ROUNDS: Final = 5
"""How often a request that keeps changing while it is asked about is asked about again."""
_FAILED: Final = "the approver's fault"
"""Who is recorded as having said no, where an approver did not answer."""
NOBODY_TO_ASK: Final = (
    "Nobody can be asked: there is no terminal and no approver. Whoever runs sandboxrun can pass "
    "--approve, or --wait-approval S and answer with `sandboxrun approvals`."
)


@dataclass(frozen=True, slots=True)
class Evaluated:
    """A request as it is judged now."""

    decision: Decision
    bound: Bound
    question: Question


Evaluate = Callable[[], Awaitable[Evaluated]]
"""Judges the request under the policies, grants and consent of this moment."""
Tell = Callable[[Approval, Decision], None]
"""Hears of each question twice: when it is put, and when it has ended."""


class Ending(StrEnum):
    """Words of `sandboxrun.model.status.Status` for a run that may not start."""

    REFUSED = "refused"
    CONSENT_REQUIRED = "consent_required"
    APPROVAL_DENIED = "approval_denied"
    APPROVAL_EXPIRED = "approval_expired"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Stopped:
    """It may not run. ``reason`` is for the model, in sentences it can act on."""

    ending: Ending
    reason: str
    decision: Decision
    approval_id: str | None = None


@dataclass(frozen=True, slots=True)
class Permit:
    """It may run, once, if it is still the same when it starts: see `confirm`."""

    decision: Decision
    digest: str
    approval_id: str | None = None
    approved_by: str | None = None


@dataclass(frozen=True, slots=True)
class Changed:
    """The request, a policy, a consent or a grant changed after it was judged: judge it again."""


async def authorise(
    evaluate: Evaluate,
    approvals: Approvals,
    *,
    approver: Approver | None = None,
    wait_seconds: float | None = None,
    tell: Tell | None = None,
) -> Permit | Stopped:
    """Judge a request and have its asks answered; return at once where there is nobody to ask.

    ``wait_seconds``: answers of other processes are waited for so long, even without an
    ``approver``. The policy's own deadline still holds. What changes while somebody is asked is
    asked about again. ``tell`` hears of every question.

    Raises `StateError` and what ``evaluate`` raises. Cancellation closes the pending question.
    """
    approved: Approval | None = None
    now = await evaluate()
    for _ in range(_ROUNDS):
        decided = _decided(now, approved)
        if decided is not None:
            return decided
        if approver is None and wait_seconds is None:
            return _denied(now.decision, f"{now.decision.reason} {NOBODY_TO_ASK}")
        deadline = now.decision.deadline_seconds
        if wait_seconds is not None:
            deadline = min(deadline, wait_seconds)
        digest = now.bound.digest()
        asked = await approvals.ask(now.question, digest=digest, deadline_seconds=deadline)
        approved = await _put(asked, now.decision, approvals, approver, tell or _untold)
        if approved.answer is not Answered.APPROVED:
            return _unanswered(approved, now.decision, deadline)
        now = await evaluate()
    changing = "The request kept changing while it was asked about."
    return _decided(now, approved) or _denied(now.decision, changing)


def _decided(now: Evaluated, approved: Approval | None) -> Permit | Stopped | None:
    """Return what needs no further question; None when somebody has to be asked."""
    decision, digest = now.decision, now.bound.digest()
    match decision.verdict:
        case Verdict.REFUSED:
            return Stopped(Ending.REFUSED, decision.reason, decision)
        case Verdict.CONSENT_REQUIRED:
            return Stopped(Ending.CONSENT_REQUIRED, decision.reason, decision)
        case Verdict.AUTO:
            return Permit(decision, digest)
        case Verdict.ASK:
            if any(objection.unavailable for objection in decision.objections):
                return _denied(decision, decision.reason)
            if approved is None or approved.request_digest != digest:
                return None
            return Permit(decision, digest, approved.approval_id, approved.answered_by)
        case _:
            assert_never(decision.verdict)


def _denied(decision: Decision, why: str) -> Stopped:
    return Stopped(Ending.APPROVAL_DENIED, f"{why} {decision.advice}".strip(), decision)


async def confirm(permit: Permit, evaluate: Evaluate, approvals: Approvals) -> Changed | None:
    """Look once more, immediately before the launch; None means go.

    An approval is used up by it. Raises `StateError` and what ``evaluate`` raises. Cancellation
    may leave the approval used, which only means that it has to be asked again.
    """
    now = await evaluate()
    same = now.bound.digest() == permit.digest
    verdict = Verdict.AUTO if permit.approval_id is None else Verdict.ASK
    if (
        not same
        or now.decision.verdict is not verdict
        or now.decision.grant != permit.decision.grant
    ):
        return Changed()
    if permit.decision.grant is not None:
        grant_id = permit.decision.grant
        holds = await approvals.store.read(lambda tx: grant_holds(tx, grant_id))
        return None if holds else Changed()
    if permit.approval_id is not None:
        approval_id, owner = permit.approval_id, approvals.store.owner
        used = await approvals.store.write(
            lambda tx: redeem(tx, approval_id, permit.digest, owner), durable=False
        )
        return None if used else Changed()
    return None


def _untold(asked: Approval, decision: Decision) -> None:
    del asked, decision


async def _put(
    asked: Approval,
    decision: Decision,
    approvals: Approvals,
    approver: Approver | None,
    tell: Tell,
) -> Approval:
    """Have a question answered, by whoever is first. It is never left open."""
    own = OwnAnswer()
    ended: Approval | None = None
    try:
        tell(asked, decision)
        async with plain_task_group() as tasks:
            if approver is not None:
                tasks.start_soon(_hear, approver, asked.question, own)
            ended = await approvals.wait(asked.approval_id, own=own)
            tasks.cancel_scope.cancel()
        if ended is None:
            # The approver let itself be cancelled, and the group with it.
            own.give(_no("it was cancelled"))
            ended = await approvals.wait(asked.approval_id, own=own)
    except BaseException:
        with (
            anyio.move_on_after(_CLOSE_SECONDS, shield=True),
            contextlib.suppress(SandboxrunError),
        ):
            tell(await approvals.close(asked.approval_id, Answered.CANCELLED), decision)
        raise
    tell(ended, decision)
    return ended


async def _hear(approver: Approver, question: Question, own: OwnAnswer) -> None:
    """Give what somebody else's code answers. Whatever is not an answer is a no."""
    try:
        answer: object = await approver(question)
    except SandboxrunError as fault:
        answer = _no(fault.message)
    except Exception as error:  # noqa: BLE001 - a callback of others may raise anything at all
        answer = _no(f"{type(error).__name__}: {error}")
    if not isinstance(answer, Answer):
        answer = _no(f"it returned {type(answer).__name__} instead of an Answer")
    own.give(answer)


def _no(why: str) -> Answer:
    return Answer(approved=False, by=_FAILED, reason=why)


def _unanswered(ended: Approval, decision: Decision, deadline_seconds: float) -> Stopped:
    match ended.answer:
        case Answered.DENIED:
            who = ended.answered_by
            no = "The approver failed, which is a no" if who == _FAILED else f"{who} said no"
            said = f": {ended.reason}\n" if ended.reason else ". "
            reason = f"{no}{said}{_why(decision)}"
            ending = Ending.APPROVAL_DENIED
        case Answered.EXPIRED:
            reason = (
                f"Nobody answered within {deadline_seconds:g} s, which means no. {_why(decision)}"
            )
            ending = Ending.APPROVAL_EXPIRED
        case Answered.CANCELLED | Answered.APPROVED | None:
            reason, ending = "The question was withdrawn; nothing was run.", Ending.CANCELLED
        case _:
            assert_never(ended.answer)
    return Stopped(ending, reason.strip(), decision, ended.approval_id)


def _why(decision: Decision) -> str:
    asked = decision.reason.removeprefix(ASKED)
    return f"It was asked because: {asked} {decision.advice}"
