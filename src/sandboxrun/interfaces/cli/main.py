"""The command line's composition, and the one place where faults become exit statuses."""

from __future__ import annotations

import sys
import traceback
from importlib.metadata import version
from typing import Annotated

import structlog
import typer

from sandboxrun.config import Settings
from sandboxrun.errors import SandboxrunError
from sandboxrun.interfaces.cli import (
    approvals,
    artifact,
    audit,
    consent,
    engine,
    grants,
    image,
    policy,
    quota,
    runs,
    snapshot,
    workspace,
)
from sandboxrun.interfaces.cli import exec as exec_module
from sandboxrun.interfaces.cli.access import access_command
from sandboxrun.interfaces.cli.gc import gc_command
from sandboxrun.interfaces.cli.run_events import events_command
from sandboxrun.interfaces.cli.screen import screen_command
from sandboxrun.runner import Runner
from sandboxrun.state.runs import RunRow

app = typer.Typer(
    name="sandboxrun",
    help="A bash tool for AI agents: every command in its own throwaway, hardened container.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("exec", cls=exec_module.ExecCommand)(exec_module.exec_command)
app.add_typer(engine.app, name="engine")
app.add_typer(image.app, name="image")
workspace.app.command("access")(access_command)
app.add_typer(workspace.app, name="workspace")
app.add_typer(snapshot.app, name="snapshot")
app.add_typer(runs.app, name="runs")
app.add_typer(artifact.app, name="artifact")
app.add_typer(audit.app, name="audit")
runs.app.command("events")(events_command)
app.add_typer(policy.app, name="policy")
app.add_typer(approvals.app, name="approvals")
app.add_typer(grants.app, name="grants")
app.add_typer(consent.app, name="consent")
app.add_typer(quota.app, name="quota")
app.command("screen")(screen_command)
app.command("gc")(gc_command)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"sandboxrun {version('sandboxrun')}")
        raise typer.Exit


async def _recover(run: RunRow) -> None:
    """Open a runner: that settles the runs of dead owners and removes what they left."""
    del run
    async with Runner.open(Settings.read()):
        return


@app.callback()
def _root(
    ctx: typer.Context,
    show_version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show it.")
    ] = False,
) -> None:
    del show_version
    ctx.obj = _recover


def main() -> None:
    """Run the command line and exit: a fault's own status, 130 for ^C, 70 for a defect of ours."""
    # stdout is for results: what is logged must not end up in somebody's JSON.
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    try:
        app()
    except SandboxrunError as fault:
        sys.stderr.write(f"sandboxrun: {fault.diagnostics()}\n")
        sys.exit(fault.exit_status)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(141)
    except Exception:  # noqa: BLE001 - the outermost handler: a defect must not look like a result
        sys.stderr.write(
            "sandboxrun: a defect of sandboxrun ended this command. What follows helps to mend "
            f"it.\n{traceback.format_exc()}"
        )
        sys.exit(70)
