"""What a person is asked, and what they may answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from pydantic import BaseModel, ConfigDict

from sandboxrun.approval.binding import Bound
from sandboxrun.model.text import escaped
from sandboxrun.policy.decision import Clamped, Decision, Objection, Obligations
from sandboxrun.policy.grants import Pattern, offered_pattern
from sandboxrun.policy.requested import Requested
from sandboxrun.screening.facts import Effect, Facts


class Question(BaseModel):
    """Everything a person needs to say yes or no. Frozen; the same JSON everywhere."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    run_id: str
    principal: str
    conversation: str | None
    workspace: str | None
    """What identifies it; None is a throwaway one."""
    workspace_name: str | None = None
    """What people call it."""
    command: str
    """As it was given; bytes that are not UTF-8 show as ``\\xNN``."""
    argv: tuple[str, ...] | None
    cwd: str | None
    effect: Effect
    objections: tuple[Objection, ...]
    """Why a person is asked; spans count in the bytes of `command`."""
    reason: str
    advice: str
    touches: tuple[str, ...]
    """What it writes, reads and wants, one kind an entry."""
    obligations: Obligations
    clamped: tuple[Clamped, ...]
    snapshot: str | None = None
    """The state of the workspace when the question was put; not part of what is bound."""
    always: Pattern | None = None
    """What an 'always' would cover; None: it is not offered."""


class Answer(BaseModel):
    """What somebody says to a question. Strict: what is not exactly true is not a yes."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    approved: bool
    by: str
    """Who says it."""
    reason: str | None = None
    """In their own words; a denial's reaches the caller word for word."""
    always: bool = False
    """Also give the standing grant that the question offers."""


Approver = Callable[[Question], Awaitable[Answer]]
"""Somebody who can be asked. It is cancelled when another answer comes first or time is up, and
must let that through. Whatever it raises, or returns instead of an `Answer`, is a no."""


def question_of(
    decision: Decision,
    bound: Bound,
    facts: Facts,
    requested: Requested,
    *,
    touches: tuple[str, ...],
    workspace_name: str | None = None,
    snapshot: str | None = None,
) -> Question:
    """Return the question that ``decision`` leads to, with the safe 'always' if there is one."""
    command = bound.command
    pattern = None
    if bound.workspace is not None:
        pattern = offered_pattern(command, facts, requested, decision.objections)
    return Question(
        run_id=bound.run_id,
        principal=bound.principal,
        conversation=bound.conversation,
        workspace=bound.workspace,
        workspace_name=workspace_name,
        command=escaped(command.source()),
        argv=tuple(map(escaped, command.parts)) if command.form == "argv" else None,
        cwd=command.cwd,
        effect=decision.effect,
        objections=tuple(_placed(each, command.source()) for each in decision.objections),
        reason=decision.reason,
        advice=decision.advice,
        touches=touches,
        obligations=decision.obligations,
        clamped=decision.clamped,
        snapshot=snapshot,
        always=pattern,
    )


def _placed(objection: Objection, source: bytes) -> Objection:
    """Return an objection whose spans count in the shown command, where bytes may be escaped."""
    spans = tuple(
        (len(escaped(source[:start]).encode()), len(escaped(source[:end]).encode()))
        for start, end in objection.spans
    )
    return objection.model_copy(update={"spans": spans})


def operator_approver(by: str) -> Approver:
    """Return the approver of somebody who said yes before they were asked."""

    async def approve(question: Question) -> Answer:
        del question
        return Answer(approved=True, by=by)

    return approve
