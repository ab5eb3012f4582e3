"""``sandboxrun workspace access``: the switch for running commands in a workspace."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from sandboxrun.approval.consents import Consents, workspace_identity
from sandboxrun.config import Settings
from sandboxrun.interfaces.cli.opened import opened_store
from sandboxrun.interfaces.cli.signals import run
from sandboxrun.interfaces.cli.tables import printable


class Switch(StrEnum):
    """The two positions."""

    ON = "on"
    OFF = "off"


def access_command(
    workspace: Annotated[str, typer.Argument(metavar="WORKSPACE", help="Its name.")],
    switch: Annotated[Switch, typer.Argument(metavar="on|off", help="Whether they may.")],
) -> None:
    """Let commands run in a workspace, or refuse them all. What runs already goes on."""
    settings = Settings.read()

    async def work() -> None:
        async with opened_store(settings) as store:
            identity = await workspace_identity(store, workspace)
            await Consents(store).set_access(
                identity, allowed=switch is Switch.ON, by=settings.principal
            )

    run(work)
    may = "may run" if switch is Switch.ON else "are refused"
    typer.echo(f"Commands {may} in {printable(workspace)}.")
