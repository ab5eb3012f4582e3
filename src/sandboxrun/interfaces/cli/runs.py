"""``sandboxrun runs``: what ran, what runs, and ending it from elsewhere."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any, assert_never

import anyio
import anyio.to_thread
import typer

from sandboxrun.audit.reading import receipts_of, records_of
from sandboxrun.config import Settings
from sandboxrun.interfaces.cli.opened import opened_store
from sandboxrun.interfaces.cli.options import JsonOption
from sandboxrun.interfaces.cli.signals import run
from sandboxrun.interfaces.cli.tables import print_table, printable
from sandboxrun.state.cancelling import Cancelled, CancelReport, Recover, cancel_run
from sandboxrun.state.runs import RunRow, Runs
from sandboxrun.state.store import Store

app = typer.Typer(
    name="runs", help="List, show, follow, cancel and export runs.", no_args_is_help=True
)

_BATCH = 200

RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="A run's id.")]


@app.command("list")
def list_command(
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many at most.")] = 20,
    status: Annotated[str | None, typer.Option(help="Only runs that ended so.")] = None,
    workspace: Annotated[
        str | None, typer.Option("-w", "--workspace", help="Only this one's.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the latest runs, newest first.

    A run that has not ended is shown as running, or as orphaned when the process that owned it
    died and nobody has recovered it yet.
    """
    shown = run(_listed, Settings.read(), limit, status, workspace)
    if as_json:
        typer.echo(json.dumps(shown, indent=2))
        return
    columns = ("run_id", "workspace", "status", "started_at", "principal", "command")
    print_table(
        [column.upper() for column in columns],
        ([row[column] for column in columns] for row in shown),
    )


@app.command("show")
def show_command(run_id: RunArgument, as_json: JsonOption = False) -> None:
    """Show one run: what was asked, how it ended, and its records in the audit."""
    shown = run(_shown, Settings.read(), run_id)
    typer.echo(json.dumps(shown) if as_json else _readable(shown))


@app.command("cancel")
def cancel_command(
    ctx: typer.Context,
    run_id: RunArgument,
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait for its end.")] = 10.0,
    as_json: JsonOption = False,
) -> None:
    """End a run of any process of this installation.

    Exit status: 0 when it has ended, 1 when that is not known yet.
    """
    recover: Recover | None = ctx.obj if callable(ctx.obj) else None
    report = run(_cancelled, Settings.read(), run_id, wait, recover)
    if as_json:
        answer = {"result": report.result.value, "run_id": run_id, "status": report.run.status}
        typer.echo(json.dumps(answer))
    else:
        typer.echo(_said(report))
    raise typer.Exit(1 if report.result in (Cancelled.NO_ANSWER, Cancelled.OWNER_DEAD) else 0)


@app.command("export")
def export_command(
    run_id: Annotated[
        list[str] | None, typer.Option("--run", help="Only this run. Repeatable.")
    ] = None,
) -> None:
    """Print runs as JSON Lines, oldest first: request, outcome and receipt of each."""
    run(_export, Settings.read(), run_id)


async def _listed(
    settings: Settings, limit: int, status: str | None, workspace: str | None
) -> list[dict[str, Any]]:
    async with opened_store(settings) as store:
        rows = await Runs(store).list(limit=limit, status=status, workspace=workspace)
        return await anyio.to_thread.run_sync(lambda: [_summary(row) for row in rows])


async def _shown(settings: Settings, run_id: str) -> dict[str, Any]:
    async with opened_store(settings) as store:
        row = await Runs(store).get(run_id)
        records = await records_of(store, run_id)
        summary = await anyio.to_thread.run_sync(_summary, row)
        return summary | _contents(row) | {"audit": [json.loads(each.text) for each in records]}


async def _cancelled(
    settings: Settings, run_id: str, wait: float, recover: Recover | None
) -> CancelReport:
    async with opened_store(settings) as store:
        return await cancel_run(store, run_id, wait_seconds=wait, recover=recover)


async def _export(settings: Settings, run_ids: list[str] | None) -> None:
    async with opened_store(settings) as store:
        runs = Runs(store)
        if run_ids is not None:
            await _print_lines(store, [await runs.get(run_id) for run_id in run_ids])
            return
        last: str | None = None
        while batch := await runs.every(limit=_BATCH, after=last):
            await _print_lines(store, batch)
            last = batch[-1].run_id


async def _print_lines(store: Store, rows: Sequence[RunRow]) -> None:
    receipts = await receipts_of(store, [row.run_id for row in rows])
    for row in rows:
        receipt = receipts.get(row.run_id)
        line = {
            "run_id": row.run_id,
            "status": row.status,
            "started_at": row.started_at,
            "settled_at": row.settled_at,
            **_contents(row),
            "receipt": None if receipt is None else json.loads(receipt.text),
        }
        typer.echo(json.dumps(line))


def _summary(row: RunRow) -> dict[str, Any]:
    request = json.loads(row.request_json)
    argv = request.get("argv")
    return {
        "run_id": row.run_id,
        "workspace": row.workspace,
        "status": _status(row),
        "started_at": row.started_at,
        "settled_at": row.settled_at,
        "principal": row.principal,
        "conversation": row.conversation,
        "command": request.get("command") if argv is None else " ".join(argv),
        "owner_pid": row.owner.pid,
    }


def _status(row: RunRow) -> str:
    if row.status is not None:
        return row.status
    return "running" if row.owner.is_alive() else "orphaned"


def _contents(row: RunRow) -> dict[str, Any]:
    outcome = None if row.outcome_json is None else json.loads(row.outcome_json)
    return {"request": json.loads(row.request_json), "outcome": outcome}


def _readable(shown: dict[str, Any]) -> str:
    outcome = shown["outcome"] or {}
    lines = [
        f"{name:>12}  {printable(str(shown[name]))}"
        for name in (
            "run_id",
            "status",
            "workspace",
            "principal",
            "started_at",
            "settled_at",
            "command",
        )
        if shown[name] is not None
    ]
    lines += [
        f"{name:>12}  {printable(str(outcome[name]))}"
        for name in ("exit_code", "signal", "elapsed_seconds", "reason")
        if outcome.get(name) is not None
    ]
    lines += [
        f"{'audit':>12}  record {record['seq']}, {record['entry']['kind']}, {record['time']}"
        for record in shown["audit"]
    ]
    preview = outcome.get("preview", {}).get("text")
    if preview:
        text = "\n".join(printable(line) for line in preview.split("\n"))
        lines += ["", text.rstrip("\n")]
    return "\n".join(lines)


def _said(report: CancelReport) -> str:
    run = report.run
    match report.result:
        case Cancelled.ENDED_BEFORE:
            return f"{run.run_id} had ended before: {run.status}."
        case Cancelled.CANCELLED:
            return f"{run.run_id} has ended: {run.status}."
        case Cancelled.RECOVERED:
            return f"The process that owned {run.run_id} is dead; it was recovered: {run.status}."
        case Cancelled.OWNER_DEAD:
            return (
                f"The process that owned {run.run_id} (pid {run.owner.pid}) is dead. "
                "The next `sandboxrun exec` or `sandboxrun gc` recovers the run."
            )
        case Cancelled.NO_ANSWER:
            return (
                f"The owner of {run.run_id} (pid {run.owner.pid}) has not answered yet. "
                "The request stands."
            )
        case _:
            assert_never(report.result)
