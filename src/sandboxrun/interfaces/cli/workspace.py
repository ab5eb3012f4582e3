"""``sandboxrun workspace``: the state that outlives containers."""

from __future__ import annotations

import json
from typing import Annotated

import anyio
import typer

from sandboxrun.config import Settings
from sandboxrun.interfaces.cli.options import EngineOption, JsonOption
from sandboxrun.interfaces.cli.tables import print_table, printable
from sandboxrun.model.workspace import Workspace
from sandboxrun.runner import Runner

app = typer.Typer(help="Create, list and remove workspaces.", no_args_is_help=True)
NameArgument = Annotated[str, typer.Argument(help="The workspace's name.")]


@app.command()
def create(name: NameArgument, engine: EngineOption = None, as_json: JsonOption = False) -> None:
    """Create an empty workspace."""

    async def work() -> Workspace:
        async with Runner.open(Settings.read(engine=engine)) as runner:
            return await runner.workspaces.create(name)

    _show([anyio.run(work)], as_json=as_json, one=True)


@app.command("list")
def list_command(engine: EngineOption = None, as_json: JsonOption = False) -> None:
    """List all workspaces."""

    async def work() -> list[Workspace]:
        async with Runner.open(Settings.read(engine=engine)) as runner:
            return list(await runner.workspaces.list())

    _show(anyio.run(work), as_json=as_json)


@app.command()
def show(name: NameArgument, engine: EngineOption = None, as_json: JsonOption = False) -> None:
    """Show one workspace."""

    async def work() -> Workspace:
        async with Runner.open(Settings.read(engine=engine)) as runner:
            return await runner.workspaces.show(name)

    _show([anyio.run(work)], as_json=as_json, one=True)


@app.command()
def remove(name: NameArgument, engine: EngineOption = None) -> None:
    """Remove a workspace and everything in it."""

    async def work() -> None:
        async with Runner.open(Settings.read(engine=engine)) as runner:
            await runner.workspaces.remove(name)

    anyio.run(work)
    typer.echo(f"removed {printable(name)}")


def _show(workspaces: list[Workspace], *, as_json: bool, one: bool = False) -> None:
    if as_json:
        documents = [workspace.model_dump(mode="json") for workspace in workspaces]
        typer.echo(json.dumps(documents[0] if one else documents))
        return
    print_table(
        ("NAME", "CREATED", "HEAD", "UID"),
        [(each.name, each.created_at, each.head, str(each.uid)) for each in workspaces],
    )
