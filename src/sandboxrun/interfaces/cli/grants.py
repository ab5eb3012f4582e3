"""``sandboxrun grants``: what was allowed for good, and taking it back."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from sandboxrun.approval.consents import workspace_names
from sandboxrun.approval.grants import GrantRow, Grants
from sandboxrun.config import Settings
from sandboxrun.interfaces.cli.opened import opened_store
from sandboxrun.interfaces.cli.options import JsonOption
from sandboxrun.interfaces.cli.signals import run
from sandboxrun.interfaces.cli.tables import print_table

app = typer.Typer(
    name="grants", help="List and take back what an 'always' allowed.", no_args_is_help=True
)


@app.command("list")
def list_command(
    everything: Annotated[bool, typer.Option("--all", help="Also those taken back.")] = False,
    as_json: JsonOption = False,
) -> None:
    """List the grants in force, oldest first."""
    rows, names = run(_listed, Settings.read(), everything)
    if as_json:
        typer.echo(json.dumps([_told(row, names) for row in rows], indent=2))
        return
    print_table(
        ["GRANT", "PRINCIPAL", "WORKSPACE", "COVERS", "GIVEN BY", "GIVEN", "REVOKED"],
        (
            [
                row.grant.grant_id,
                row.grant.principal,
                names.get(row.grant.workspace, row.grant.workspace),
                row.grant.pattern.shown,
                row.given_by,
                row.given_at,
                row.revoked_at,
            ]
            for row in rows
        ),
    )


@app.command("revoke")
def revoke_command(
    grant_id: Annotated[str, typer.Argument(metavar="GRANT", help="Its id.")],
    as_json: JsonOption = False,
) -> None:
    """Take a grant back: from now on it is asked again. A run that started already goes on."""
    revoked = run(_revoked, Settings.read(), grant_id)
    if as_json:
        typer.echo(json.dumps({"grant_id": grant_id, "revoked": revoked}))
        return
    typer.echo("It is taken back." if revoked else "It had been taken back before.")


async def _listed(
    settings: Settings, everything: bool
) -> tuple[tuple[GrantRow, ...], dict[str, str]]:
    async with opened_store(settings) as store:
        return await Grants(store).list(revoked=everything), await workspace_names(store)


async def _revoked(settings: Settings, grant_id: str) -> bool:
    async with opened_store(settings) as store:
        return await Grants(store).revoke(grant_id)


def _told(row: GrantRow, names: dict[str, str]) -> dict[str, object]:
    return {
        **row.grant.model_dump(mode="json"),
        "workspace_name": names.get(row.grant.workspace),
        "lifts": sorted(row.grant.lifts),
        "given_by": row.given_by,
        "given_at": row.given_at,
        "revoked_at": row.revoked_at,
    }
