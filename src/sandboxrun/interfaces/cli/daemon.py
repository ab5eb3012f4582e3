"""``sandboxrun daemon``: keep a runner open, so that `exec` finds warm containers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated, Final

import anyio.to_thread
import typer

from sandboxrun.config import Settings, host_environment
from sandboxrun.errors import StateError
from sandboxrun.interfaces.cli.options import JsonOption
from sandboxrun.interfaces.cli.signals import run
from sandboxrun.interfaces.daemon import wire
from sandboxrun.interfaces.daemon.server import LOCK, alone, listening, serve
from sandboxrun.interfaces.daemon.understanding import Understanding
from sandboxrun.runner import Runner
from sandboxrun.state.directory import StateDirectory

app = typer.Typer(
    help="Start, show and end the process that keeps warm containers for `exec`.",
    no_args_is_help=True,
)
LOG: Final = "daemon.log"
IDLE_SECONDS: Final = 300.0
READY_SECONDS: Final = 60.0
STOP_SECONDS: Final = 90.0
"""Its runs are ended and its containers removed; the bounds of both, with room."""
_PAUSE: Final = 0.02
_TAIL: Final = 2000
IdleOption = Annotated[
    float, typer.Option("--idle", metavar="S", min=1, help="End after so long without a command.")
]


@app.command("run")
def run_command(idle: IdleOption = IDLE_SECONDS) -> None:
    """Run it in the foreground, until idle or interrupted."""
    run(_served, Settings.read(), idle)


@app.command("start")
def start_command(idle: IdleOption = IDLE_SECONDS) -> None:
    """Start one in the background, unless one serves already, and wait until it is ready."""
    settings = Settings.read()
    with StateDirectory.open(settings.state_dir) as directory:
        if _pids(directory):
            typer.echo(f"A daemon serves {directory.path} already.")
            return
        log = directory.path / LOG
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "sandboxrun", "daemon", "run", "--idle", str(idle)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        _await_ready(directory, process, log)
        typer.echo(f"The daemon (pid {process.pid}) serves {directory.path}; its log is {log}.")


@app.command("stop")
def stop_command() -> None:
    """End it; its runs are cancelled and its containers removed."""
    with StateDirectory.open(Settings.read().state_dir) as directory:
        pids = _pids(directory)
        for pid in pids:
            os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + STOP_SECONDS
        while _pids(directory):
            if time.monotonic() > deadline:
                raise StateError(
                    f"The daemon (pid {pids[0]}) did not end within {STOP_SECONDS:g} s."
                )
            time.sleep(_PAUSE)
    typer.echo("The daemon has ended." if pids else "No daemon was running.")


@app.command("status")
def status_command(as_json: JsonOption = False) -> None:
    """Show whether one serves. Exit status: 0 if so, 1 if not."""
    with StateDirectory.open(Settings.read().state_dir) as directory:
        pids = _pids(directory)
        shown = {
            "running": bool(pids),
            "pid": pids[0] if pids else None,
            "socket": str(directory.path / wire.SOCKET),
            "log": str(directory.path / LOG),
        }
    if as_json:
        typer.echo(json.dumps(shown))
    else:
        typer.echo(f"pid {pids[0]}, {shown['socket']}" if pids else "No daemon is running.")
    raise typer.Exit(0 if pids else 1)


async def _served(settings: Settings, idle_seconds: float) -> None:
    directory = await anyio.to_thread.run_sync(StateDirectory.open, settings.state_dir)
    # Alone until everything is removed: whoever stops it may look at the engine then.
    with directory, alone(directory):
        async with Runner.open(settings) as runner:
            with listening(directory) as listener:
                understanding = Understanding(settings, host_environment())
                await serve(runner, understanding, listener, idle_seconds=idle_seconds)


def _pids(directory: StateDirectory) -> tuple[int, ...]:
    return directory.lock_holders(LOCK)


def _await_ready(directory: StateDirectory, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while not (_pids(directory) and (directory.path / wire.SOCKET).exists()):
        if process.poll() is not None:
            tail = log.read_bytes()[-_TAIL:].decode("utf-8", "backslashreplace").strip()
            raise StateError(f"The daemon ended while starting. The end of its log:\n{tail}")
        if time.monotonic() > deadline:
            raise StateError(f"The daemon (pid {process.pid}) is not ready; its log is {log}.")
        time.sleep(_PAUSE)
