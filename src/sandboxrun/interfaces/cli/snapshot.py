"""``sandboxrun snapshot``: the states of a workspace one can go back to."""

from __future__ import annotations

import json
import stat
from typing import Annotated

import typer

from sandboxrun.config import Settings
from sandboxrun.interfaces.cli.options import EngineOption, JsonOption
from sandboxrun.interfaces.cli.signals import run
from sandboxrun.interfaces.cli.tables import print_table, printable
from sandboxrun.interfaces.cli.workspace import NameArgument, show_workspaces
from sandboxrun.model.difference import PathDifference
from sandboxrun.model.effects import Effects
from sandboxrun.model.workspace import Snapshot, Workspace
from sandboxrun.runner import Runner

app = typer.Typer(
    help="List and compare a workspace's snapshots, and go back to one.", no_args_is_help=True
)


@app.command("list")
def list_command(
    name: NameArgument, engine: EngineOption = None, as_json: JsonOption = False
) -> None:
    """List a workspace's snapshots, oldest first. The head is where the next run starts."""

    async def work() -> tuple[Workspace, tuple[Snapshot, ...]]:
        async with Runner.open(Settings.read(engine=engine, slots=0)) as runner:
            workspace = await runner.workspaces.show(name)
            return workspace, await runner.workspaces.snapshots(name)

    workspace, snapshots = run(work)
    if as_json:
        documents = [
            {**each.model_dump(mode="json"), "head": each.snapshot_id == workspace.head}
            for each in snapshots
        ]
        typer.echo(json.dumps(documents))
        return
    print_table(
        ("SNAPSHOT", "CREATED", "CAUSE", "RUN", "STATE", "HEAD"),
        [
            (
                each.snapshot_id,
                each.created_at,
                each.cause.value,
                each.run_id,
                each.state.value,
                "*" if each.snapshot_id == workspace.head else "",
            )
            for each in snapshots
        ],
    )


@app.command()
def restore(
    name: NameArgument,
    snapshot: Annotated[str, typer.Argument(metavar="SNAPSHOT", help="The one to go back to.")],
    engine: EngineOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a snapshot the present state again. Later snapshots stay listed."""

    async def work() -> Workspace:
        async with Runner.open(Settings.read(engine=engine, slots=0)) as runner:
            return await runner.workspaces.restore(name, snapshot)

    show_workspaces([run(work)], as_json=as_json, one=True)


@app.command()
def diff(
    name: NameArgument,
    old: Annotated[str, typer.Argument(metavar="OLD", help="Snapshot to start from.")],
    new: Annotated[
        str | None, typer.Argument(help="Snapshot to compare it with; default: the head.")
    ] = None,
    patch: Annotated[bool, typer.Option("--patch", "-p", help="Show how text changed.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="Paths shown at most.")] = 10_000,
    engine: EngineOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what changed from one snapshot to another, and how much in all."""

    async def work() -> tuple[tuple[PathDifference, ...], Effects]:
        async with Runner.open(Settings.read(engine=engine, slots=0)) as runner:
            spaces = runner.workspaces
            end = (await spaces.show(name)).head if new is None else new
            paths = await spaces.difference(name, old, end, text=patch, limit=limit)
            return paths, await spaces.effects(name, old, end)

    paths, effects = run(work)
    if as_json:
        document = {
            "effects": effects.model_dump(mode="json"),
            "paths": [each.model_dump(mode="json") for each in paths],
        }
        typer.echo(json.dumps(document))
        return
    for each in paths:
        typer.echo(_line(each))
        if each.diff is not None:
            typer.echo("\n".join(map(printable, each.diff.rstrip("\n").split("\n"))))
    total = effects.created.count + effects.home.created.count
    changed = effects.modified.count + effects.home.modified.count
    gone = effects.deleted.count + effects.home.deleted.count
    typer.echo(f"{total} created, {changed} modified, {gone} deleted")


def _line(each: PathDifference) -> str:
    letter = {"created": "+", "modified": "~", "deleted": "-"}[each.kind]
    size = "" if each.size_after is None else f" {each.size_after} bytes"
    if each.size_before is not None and each.size_after is not None:
        size = f" {each.size_before} -> {each.size_after} bytes"
    what = f" ({', '.join(each.what)})" if each.what else ""
    modes = ""
    if "mode" in each.what and each.mode_before is not None and each.mode_after is not None:
        modes = f" {stat.filemode(each.mode_before)} -> {stat.filemode(each.mode_after)}"
    link = "" if each.target_after is None else f" -> {printable(each.target_after)}"
    return f"{letter} {printable(each.path)}{link}{size}{modes}{what}"
