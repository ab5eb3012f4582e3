"""``sandboxrun approvals``: answer what a run of any process asks."""

from __future__ import annotations

import json
from typing import Annotated, assert_never

import typer

from sandboxrun.approval.approvals import Approval, Approvals, Heard
from sandboxrun.approval.question import Answer
from sandboxrun.config import Settings
from sandboxrun.errors import UsageError
from sandboxrun.interfaces.cli.opened import opened_store
from sandboxrun.interfaces.cli.options import JsonOption
from sandboxrun.interfaces.cli.question_text import question_text
from sandboxrun.interfaces.cli.signals import run

app = typer.Typer(
    name="approvals",
    help="List and answer the questions that wait for a yes.",
    no_args_is_help=True,
)

ApprovalArgument = Annotated[str, typer.Argument(metavar="APPROVAL", help="Its id.")]


@app.command("list")
def list_command(as_json: JsonOption = False) -> None:
    """List the questions that wait for an answer, oldest first."""
    pending = run(_pending, Settings.read())
    if as_json:
        typer.echo(json.dumps([_told(each) for each in pending], indent=2))
        return
    if not pending:
        typer.echo("Nothing waits for an answer.")
    for each in pending:
        typer.echo(
            f"{each.approval_id}, asked {each.asked_at}, silence means no at {each.expires_at}\n\n"
            f"{question_text(each.question)}\n"
        )


@app.command("approve")
def approve_command(
    approval_id: ApprovalArgument,
    always: Annotated[
        bool, typer.Option("--always", help="Also allow it from now on, as the question offers.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Say yes to one question. Exit status: 0 when the answer counts, 1 when it came too late."""
    _answer(approval_id, approved=True, reason=None, always=always, as_json=as_json)


@app.command("deny")
def deny_command(
    approval_id: ApprovalArgument,
    reason: Annotated[
        str | None, typer.Option("--reason", "-r", help="It reaches the caller word for word.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Say no to one question. Exit status: 0 when the answer counts, 1 when it came too late."""
    _answer(approval_id, approved=False, reason=reason, always=False, as_json=as_json)


def _answer(
    approval_id: str, *, approved: bool, reason: str | None, always: bool, as_json: bool
) -> None:
    settings = Settings.read()
    answer = Answer(approved=approved, by=settings.principal, reason=reason, always=always)
    heard = run(_answered, settings, approval_id, answer)
    if as_json:
        typer.echo(json.dumps({"approval_id": approval_id, "result": heard.value}))
    else:
        typer.echo(_said(heard, answer))
    raise typer.Exit(0 if heard is Heard.RECORDED else 1)


async def _answered(settings: Settings, approval_id: str, answer: Answer) -> Heard:
    async with opened_store(settings) as store:
        approvals = Approvals(store)
        if answer.always and (await approvals.get(approval_id)).question.always is None:
            raise UsageError(
                "This question offers no 'always': nothing safe covers more than this one run.",
                advice="Approve it without --always.",
            )
        return await approvals.answer(approval_id, answer)


async def _pending(settings: Settings) -> tuple[Approval, ...]:
    async with opened_store(settings) as store:
        return await Approvals(store).pending()


def _told(approval: Approval) -> dict[str, object]:
    return {
        "approval_id": approval.approval_id,
        "asked_at": approval.asked_at,
        "expires_at": approval.expires_at,
        "request_digest": approval.request_digest,
        "owner_pid": approval.owner.pid,
        **approval.question.model_dump(mode="json"),
    }


def _said(heard: Heard, answer: Answer) -> str:
    match heard:
        case Heard.RECORDED:
            always = " and will not be asked again" if answer.always else ""
            return f"It is {'allowed' if answer.approved else 'denied'}{always}."
        case Heard.ANSWERED_BEFORE:
            return "Somebody answered before, or the question was withdrawn."
        case Heard.EXPIRED:
            return "Time was up: silence was a no."
        case Heard.RUN_ENDED:
            return "Nothing waits for this answer: the run ended, or the process that asked died."
        case _:
            assert_never(heard)
