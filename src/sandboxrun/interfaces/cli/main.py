"""The command line's composition, and the one place where faults become exit statuses."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated, Any, Final

import structlog
import typer

from sandboxrun.config import Settings
from sandboxrun.errors import SandboxrunError
from sandboxrun.interfaces.cli import (
    approvals,
    artifact,
    audit,
    consent,
    daemon,
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
from sandboxrun.interfaces.cli.failures import of_defect, of_fault, of_interruption, of_usage
from sandboxrun.interfaces.cli.gc import gc_command
from sandboxrun.interfaces.cli.run_events import events_command
from sandboxrun.interfaces.cli.screen import screen_command
from sandboxrun.interfaces.cli.signals import Interrupted
from sandboxrun.interfaces.cli.strict import guard
from sandboxrun.interfaces.cli.verify import verify_command
from sandboxrun.runner import Runner
from sandboxrun.state.runs import RunRow

NAME: Final = "sandboxrun"
_PIPE_CLOSED: Final = 141
"""What a shell calls the end by SIGPIPE."""

app = typer.Typer(
    name=NAME,
    help="Run commands for AI agents, each in a throwaway, hardened container of its own.",
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
app.add_typer(daemon.app, name="daemon")
app.command("screen")(screen_command)
app.command("gc")(gc_command)
app.command("verify")(verify_command)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"sandboxrun {version('sandboxrun')}")
        raise typer.Exit


async def _recover(run: RunRow) -> None:
    """Open a runner: that settles the runs of dead owners and removes what they left."""
    del run
    async with Runner.open(Settings.read(slots=0)):
        return


@app.callback()
def _root(
    ctx: typer.Context,
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    del show_version
    ctx.obj = _recover


def run_command_line(arguments: Sequence[str]) -> int:
    """Run the command line and return its exit status.

    That is a fault's own, 130 where a signal ended it, 141 for a closed pipe, and 70 for a defect
    of ours. With ``--json`` a fault is on stdout, too, as ``{"error": {…}}``.
    """
    # stdout is for results: what is logged must not end up in somebody's JSON.
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    try:
        status = command_line()(list(arguments), prog_name=NAME, standalone_mode=False)
    except SandboxrunError as fault:
        return of_fault(fault, command=_named(arguments)).report(arguments)
    except typer.TyperException as error:
        return of_usage(error).report(arguments)
    except (Interrupted, KeyboardInterrupt, typer.Abort):
        return of_interruption().report(arguments)
    except BrokenPipeError:
        return _PIPE_CLOSED
    except Exception as error:  # noqa: BLE001 - the outermost handler: a defect must not look like a result
        return of_defect(error).report(arguments)
    return status if isinstance(status, int) else 0


def main() -> None:
    """Do the same with this process's arguments, for start scripts that were installed before."""
    sys.exit(run_command_line(sys.argv[1:]))


def command_line() -> Any:  # noqa: ANN401 - click's own type is vendored by typer
    """Return the whole command line, as click knows it."""
    command = typer.main.get_command(app)
    guard(command)
    return command


def _named(arguments: Sequence[str]) -> str:
    """Return the command that ``arguments`` call, as it is written."""
    command, words = typer.main.get_command(app), [NAME]
    for each in arguments:
        below = getattr(command, "commands", {}).get(each)
        if below is None:
            break
        command = below
        words.append(each)
    return " ".join(words)
