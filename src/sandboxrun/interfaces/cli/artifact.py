"""``sandboxrun artifact``: the complete output of runs."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from contextlib import aclosing
from typing import Annotated, Any

import anyio
import anyio.to_thread
import typer

from sandboxrun.config import Settings
from sandboxrun.interfaces.cli.opened import opened_store
from sandboxrun.interfaces.cli.options import JsonOption
from sandboxrun.interfaces.cli.signals import run
from sandboxrun.interfaces.cli.tables import print_table
from sandboxrun.model.artifact import ArtifactRow
from sandboxrun.opening import artifacts_of
from sandboxrun.output.escape import TerminalEscaper
from sandboxrun.state.artifacts import ArtifactRows

app = typer.Typer(
    name="artifact", help="List and read the complete output of runs.", no_args_is_help=True
)


@app.command("list")
def list_command(as_json: JsonOption = False) -> None:
    """List the artifacts that can be read, oldest first."""
    shown = run(_listed, Settings.read())
    if as_json:
        typer.echo(json.dumps(shown, indent=2))
        return
    columns = ("id", "run_id", "workspace", "bytes", "expires_at")
    print_table(
        [column.upper() for column in columns],
        (["-" if row[column] is None else str(row[column]) for column in columns] for row in shown),
    )


@app.command("get")
def get_command(
    artifact_id: Annotated[str, typer.Argument(metavar="ARTIFACT", help="An artifact's id.")],
    start: Annotated[int, typer.Option("--offset", min=0, help="Skip so many bytes.")] = 0,
    length: Annotated[int | None, typer.Option("--bytes", min=0, help="At most so many.")] = None,
) -> None:
    """Write an artifact to stdout: exact bytes, or on a terminal with control sequences escaped."""
    run(_written, Settings.read(), artifact_id, start, length)


async def _listed(settings: Settings) -> list[dict[str, Any]]:
    async with opened_store(settings) as store:
        rows = await ArtifactRows(store).present()
    may_read = _may_read(settings)
    return [
        {"run_id": row.run_id, "workspace": row.workspace, **row.artifact.model_dump(mode="json")}
        for row in rows
        if may_read(row)
    ]


async def _written(settings: Settings, artifact_id: str, start: int, length: int | None) -> None:
    escaper = TerminalEscaper() if sys.stdout.isatty() else None
    async with opened_store(settings) as store:
        artifacts = artifacts_of(store, settings)
        pieces = artifacts.read(artifact_id, _may_read(settings), start=start, length=length)
        async with aclosing(pieces):
            async for piece in pieces:
                shown = piece if escaper is None else escaper.feed(piece).encode()
                await anyio.to_thread.run_sync(_write, shown)
    if escaper is not None:
        _write(escaper.finish().encode())


def _may_read(settings: Settings) -> Callable[[ArtifactRow], bool]:
    def allowed(row: ArtifactRow) -> bool:
        return row.principal == settings.principal

    return allowed


def _write(data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(sys.stdout.fileno(), rest) :]
