"""``sandboxrun audit``: what was written down, and whether it is still so."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import anyio
import typer

from sandboxrun.audit import anchor
from sandboxrun.audit.reading import every_record, last_head, records_of, verify_store
from sandboxrun.audit.record import Record
from sandboxrun.audit.signing import SignedHead
from sandboxrun.audit.verdict import Verdict
from sandboxrun.config import Settings
from sandboxrun.errors import UnknownRunError, UsageError
from sandboxrun.interfaces.cli.opened import opened_store
from sandboxrun.interfaces.cli.options import JsonOption
from sandboxrun.interfaces.cli.signals import run
from sandboxrun.interfaces.cli.tables import print_table, printable

app = typer.Typer(
    name="audit",
    help="Verify, show and export the signed record of what ran.",
    no_args_is_help=True,
)


@app.command("verify")
def verify_command(
    public_key: Annotated[
        str | None, typer.Option(metavar="HEX", help="Believe this key, not the installation's.")
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(
            exists=True, dir_okay=False, help="A signed head kept from `audit export --head`."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Find every record that was changed, removed, inserted, moved or cut off.

    Exit status: 0 when everything holds, 1 when something was found or the audit itself recorded
    a break, such as a database that was lost.
    """
    kept = None if against is None else _kept(against)
    verdict = run(_verdict, Settings.read(), public_key, kept)
    if as_json:
        typer.echo(json.dumps({"intact": verdict.intact, **asdict(verdict)}, indent=2))
    else:
        _print_verdict(verdict)
    raise typer.Exit(0 if verdict.intact and not verdict.breaks else 1)


@app.command("show")
def show_command(
    run_id: Annotated[str, typer.Option("--run", metavar="RUN", help="A run's id.")],
    as_json: JsonOption = False,
) -> None:
    """Show the records about one run."""
    records = run(_records, Settings.read(), run_id)
    if not records:
        raise UnknownRunError(f"The audit has no record of a run {run_id!r}.")
    bodies = [json.loads(record.text) for record in records]
    if as_json:
        typer.echo(json.dumps(bodies, indent=2))
        return
    for record, body in zip(records, bodies, strict=True):
        typer.echo(f"record {record.seq}  {record.kind}  {body['time']}  sha256 {record.hash}")
        for name, value in sorted(body["entry"].items()):
            if name not in ("kind", "run_id") and value not in (None, {}, []):
                typer.echo(f"  {name:>16}  {printable(_plain(value))}")


@app.command("export")
def export_command(
    head: Annotated[
        Path | None,
        typer.Option(help="Also write the signed head to this file, to verify against."),
    ] = None,
) -> None:
    """Print the records as JSON Lines. The SHA-256 of a line is the record's hash."""
    run(_export, Settings.read(), head)


async def _verdict(settings: Settings, key: str | None, against: SignedHead | None) -> Verdict:
    async with opened_store(settings) as store:
        return await verify_store(store, key=key, against=against)


async def _records(settings: Settings, run_id: str) -> tuple[Record, ...]:
    async with opened_store(settings) as store:
        return await records_of(store, run_id)


async def _export(settings: Settings, head: Path | None) -> None:
    async with opened_store(settings) as store:
        # The head first: the records written until it is printed are then beyond it, not missing.
        signed = await last_head(store)
        async for record in every_record(store):
            typer.echo(record.text)
        if head is not None and signed is not None:
            await anyio.Path(head).write_bytes(anchor.render(signed))


def _kept(path: Path) -> SignedHead:
    signed = anchor.parse(path.read_bytes())
    if signed is None:
        raise UsageError(
            f"{path} is not a signed head.", advice="Make one with `audit export --head FILE`."
        )
    return signed


def _plain(value: Any) -> str:  # noqa: ANN401 - any JSON
    return value if isinstance(value, str) else json.dumps(value)


def _print_verdict(verdict: Verdict) -> None:
    typer.echo(
        f"{verdict.records} records, {_span(verdict)}; signed by {verdict.key or 'nobody yet'}."
    )
    if verdict.breaks:
        typer.echo("Breaks the audit recorded itself:")
        print_table(
            ("RECORD", "TIME", "REASON", "WHAT"),
            ((str(each.seq), each.time, each.reason, each.detail) for each in verdict.breaks),
        )
    if verdict.intact:
        typer.echo("Nothing was changed since it was written.")
        return
    print_table(
        ("RECORD", "RUN", "FLAW", "WHAT"),
        (
            (None if each.seq is None else str(each.seq), each.run_id, each.flaw.value, each.detail)
            for each in verdict.findings
        ),
    )
    typer.echo(f"{len(verdict.findings)} findings: this audit cannot be relied on.")


def _span(verdict: Verdict) -> str:
    if verdict.last_seq is None:
        return "none kept"
    return f"{verdict.first_seq if verdict.first_seq is not None else '?'} to {verdict.last_seq}"
