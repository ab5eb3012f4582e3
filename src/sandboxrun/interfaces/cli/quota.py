"""``sandboxrun quota``: who has what, and who waits."""

from __future__ import annotations

import json
from dataclasses import asdict

import typer

from sandboxrun.config import Settings
from sandboxrun.interfaces.cli.opened import opened_store
from sandboxrun.interfaces.cli.options import JsonOption
from sandboxrun.interfaces.cli.signals import run
from sandboxrun.interfaces.cli.tables import print_table
from sandboxrun.quota.admission import shown
from sandboxrun.quota.standing import Line, standing_of

app = typer.Typer(name="quota", help="Show what runs may have at once.", no_args_is_help=True)


@app.command("show")
def show_command(as_json: JsonOption = False) -> None:
    """Show what is in use of every account, what its bound is, and how many runs wait.

    The bounds are those of the runs that are there, and of this process's settings. What the
    host's quota takes from the machine is shown while something runs.
    """
    lines = run(_lines, Settings.read())
    if as_json:
        typer.echo(json.dumps([asdict(line) for line in lines], indent=2))
        return
    columns = ("ACCOUNT", "NAME", "RESOURCE", "USED", "BOUND", "WAITING")
    print_table(columns, [_row(line) for line in lines])


async def _lines(settings: Settings) -> tuple[Line, ...]:
    async with opened_store(settings) as store:
        return await standing_of(store, settings.quotas)


def _row(line: Line) -> tuple[str | None, ...]:
    bound = None if line.bound is None else shown(line.resource, line.bound)
    used = shown(line.resource, line.used)
    return line.account, line.name, line.resource.value, used, bound, str(line.waiting)
