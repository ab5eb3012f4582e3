"""``sandboxrun consent``: accept the policies that commands of a workspace run under."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated

import typer

from sandboxrun.approval.consents import Consents, workspace_identity
from sandboxrun.approval.workspace_policies import WorkspacePolicies
from sandboxrun.config import Settings
from sandboxrun.interfaces.cli.opened import opened_store
from sandboxrun.interfaces.cli.options import JsonOption
from sandboxrun.interfaces.cli.policy import PolicyOption
from sandboxrun.interfaces.cli.signals import run
from sandboxrun.interfaces.cli.tables import printable
from sandboxrun.policy import Consent, Document, PolicyDigests, load_policy
from sandboxrun.screening import screen
from sandboxrun.state.store import Store

app = typer.Typer(
    name="consent",
    help="Show and give consent to the policies of a workspace.",
    no_args_is_help=True,
)

WorkspaceArgument = Annotated[str, typer.Argument(metavar="WORKSPACE", help="Its name.")]
PrincipalOption = Annotated[
    str | None, typer.Option("--principal", help="Whose; default: the settings' own.")
]


@dataclass(frozen=True, slots=True)
class _Asked:
    workspace: str
    principal: str
    by: str
    host: Document

    async def digests(self, store: Store, identity: str) -> PolicyDigests:
        return PolicyDigests.of(self.host, await WorkspacePolicies(store).get(identity))


@app.command("show")
def show_command(
    workspace: WorkspaceArgument,
    policy: PolicyOption = None,
    principal: PrincipalOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show whether the policies in force are accepted. Exit status: 0 if so, 1 if not."""
    settings = Settings.read()
    asked = _asked(settings, workspace, policy, principal)
    digests, consent = run(_latest, settings, asked)
    holds = consent is not None and consent.digests == digests
    if as_json:
        typer.echo(json.dumps(_told(asked, digests, consent, holds=holds), indent=2))
    else:
        typer.echo(_readable(asked, digests, consent, holds=holds))
    raise typer.Exit(0 if holds else 1)


@app.command("give")
def give_command(
    workspace: WorkspaceArgument,
    policy: PolicyOption = None,
    principal: PrincipalOption = None,
    as_json: JsonOption = False,
) -> None:
    """Accept the policies in force for a workspace. A policy that changes has to be accepted again."""
    settings = Settings.read()
    asked = _asked(settings, workspace, policy, principal)
    consent = run(_given, settings, asked)
    if as_json:
        typer.echo(json.dumps(_told(asked, consent.digests, consent, holds=True), indent=2))
        return
    typer.echo(
        f"{printable(asked.principal)} may run commands in {printable(workspace)} under these "
        f"policies ({consent.consent_id})."
    )


def _asked(settings: Settings, workspace: str, policy: str | None, principal: str | None) -> _Asked:
    return _Asked(
        workspace=workspace,
        principal=settings.principal if principal is None else principal,
        by=settings.principal,
        host=load_policy(settings.policy if policy is None else policy, screen),
    )


async def _latest(settings: Settings, asked: _Asked) -> tuple[PolicyDigests, Consent | None]:
    async with opened_store(settings) as store:
        identity = await workspace_identity(store, asked.workspace)
        digests = await asked.digests(store, identity)
        latest = await Consents(store).latest(principal=asked.principal, workspace=identity)
        return digests, latest


async def _given(settings: Settings, asked: _Asked) -> Consent:
    async with opened_store(settings) as store:
        identity = await workspace_identity(store, asked.workspace)
        return await Consents(store).give(
            principal=asked.principal,
            workspace=identity,
            digests=await asked.digests(store, identity),
            given_by=asked.by,
        )


def _told(
    asked: _Asked, digests: PolicyDigests, consent: Consent | None, *, holds: bool
) -> dict[str, object]:
    given = None
    if consent is not None:
        given = {
            "consent_id": consent.consent_id,
            "given_by": consent.given_by,
            "given_at": consent.given_at,
            "digests": consent.digests.model_dump(),
        }
    return {
        "workspace": asked.workspace,
        "principal": asked.principal,
        "holds": holds,
        "in_force": digests.model_dump(),
        "consent": given,
    }


def _readable(
    asked: _Asked, digests: PolicyDigests, consent: Consent | None, *, holds: bool
) -> str:
    who, where = printable(asked.principal), printable(asked.workspace)
    lines = [
        f"host policy       {digests.host_policy}",
        f"workspace policy  {digests.workspace_policy or 'none'}",
    ]
    if consent is None:
        first = f"Nobody has accepted policies for {who} in {where}."
    else:
        given = f"by {printable(consent.given_by)} at {consent.given_at}"
        state = "The policies in force are accepted" if holds else "Other policies were accepted"
        first = f"{state}, {given} ({consent.consent_id})."
    if not holds:
        lines.append(f"`sandboxrun consent give {where}` accepts those above.")
    return "\n".join([first, *lines])
