"""The command line's composition, and the one place where faults become exit statuses."""

from __future__ import annotations

import sys
import traceback
from importlib.metadata import version
from typing import Annotated

import typer

from sandboxrun.errors import SandboxrunError
from sandboxrun.interfaces.cli import audit, engine, image, runs, workspace
from sandboxrun.interfaces.cli import exec as exec_module
from sandboxrun.interfaces.cli.gc import gc_command

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
app.add_typer(workspace.app, name="workspace")
app.add_typer(runs.app, name="runs")
app.add_typer(audit.app, name="audit")
app.command("gc")(gc_command)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"sandboxrun {version('sandboxrun')}")
        raise typer.Exit


@app.callback()
def _root(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show it.")
    ] = False,
) -> None:
    del show_version


def main() -> None:
    """Run the command line and exit: a fault's own status, 130 for ^C, 70 for a defect of ours."""
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
