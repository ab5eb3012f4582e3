"""``sandboxrun workspace``: the state that outlives containers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from sandboxrun.config import Settings
from sandboxrun.errors import UsageError
from sandboxrun.interfaces.cli.options import EngineOption, JsonOption
from sandboxrun.interfaces.cli.signals import run
from sandboxrun.interfaces.cli.tables import print_table, printable
from sandboxrun.model.workspace import DEFAULT_MOUNT, Workspace
from sandboxrun.runner import Runner

app = typer.Typer(help="Create, fork, list and remove workspaces.", no_args_is_help=True)
NameArgument = Annotated[str, typer.Argument(metavar="WORKSPACE", help="Its name.")]


@app.command()
def create(
    name: NameArgument,
    source: Annotated[
        Path | None, typer.Option("--from", help="Start with a copy of this directory.")
    ] = None,
    from_image: Annotated[
        str | None, typer.Option(help="Start with this directory of the image.")
    ] = None,
    image: Annotated[str | None, typer.Option(help="Image of --from-image.")] = None,
    mount_at: Annotated[str, typer.Option(help="Where commands find it.")] = DEFAULT_MOUNT,
    as_root: Annotated[
        bool, typer.Option("--root", help="Commands run as root, still without capabilities.")
    ] = False,
    engine: EngineOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create a workspace: empty, or with a copy of a directory of this host or of an image."""
    if source is not None and from_image is not None:
        raise UsageError("Give --from or --from-image, not both.")
    settings = Settings.read(engine=engine, slots=0)

    async def work() -> Workspace:
        async with Runner.open(settings) as runner:
            seed = None
            if from_image is not None:
                reference = settings.image if image is None else image
                seed = await runner.workspaces.image_seed(reference, from_image)
            return await runner.workspaces.create(
                name, source=source, seed=seed, mount_at=mount_at, as_root=as_root
            )

    show_workspaces([run(work)], as_json=as_json, one=True)


@app.command("list")
def list_command(engine: EngineOption = None, as_json: JsonOption = False) -> None:
    """List all workspaces."""

    async def work() -> list[Workspace]:
        async with Runner.open(Settings.read(engine=engine, slots=0)) as runner:
            return list(await runner.workspaces.list())

    show_workspaces(run(work), as_json=as_json)


@app.command()
def show(name: NameArgument, engine: EngineOption = None, as_json: JsonOption = False) -> None:
    """Show one workspace."""

    async def work() -> Workspace:
        async with Runner.open(Settings.read(engine=engine, slots=0)) as runner:
            return await runner.workspaces.show(name)

    show_workspaces([run(work)], as_json=as_json, one=True)


@app.command()
def fork(
    name: NameArgument,
    new: Annotated[str, typer.Argument(metavar="NEW", help="Name of the new workspace.")],
    at: Annotated[str | None, typer.Option(help="Snapshot; default: the present state.")] = None,
    engine: EngineOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make an independent workspace with the state of another. Takes no time, whatever its size."""

    async def work() -> Workspace:
        async with Runner.open(Settings.read(engine=engine, slots=0)) as runner:
            return await runner.workspaces.fork(name, new, at=at)

    show_workspaces([run(work)], as_json=as_json, one=True)


@app.command()
def remove(name: NameArgument, engine: EngineOption = None) -> None:
    """Remove a workspace and everything in it, its snapshots included. Forks stay."""

    async def work() -> None:
        async with Runner.open(Settings.read(engine=engine, slots=0)) as runner:
            await runner.workspaces.remove(name)

    run(work)
    typer.echo(f"removed {printable(name)}")


def show_workspaces(workspaces: list[Workspace], *, as_json: bool, one: bool = False) -> None:
    """Print workspaces as a table or as JSON; ``one`` is printed as an object, not a list."""
    if as_json:
        documents = [workspace.model_dump(mode="json") for workspace in workspaces]
        typer.echo(json.dumps(documents[0] if one else documents))
        return
    print_table(
        ("NAME", "CREATED", "HEAD", "UID", "MOUNT"),
        [
            (each.name, each.created_at, each.head, str(each.uid), each.mount_at)
            for each in workspaces
        ],
    )
