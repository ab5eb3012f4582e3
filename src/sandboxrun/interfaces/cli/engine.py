"""`sandboxrun engine`: the managed engine, and which engine is in use."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import anyio.to_thread
import typer

from sandboxrun.config import Settings
from sandboxrun.engine.connect import (
    EngineChoice,
    EngineSearch,
    choose_engine,
    managed_engines,
)
from sandboxrun.engine.docker import connect
from sandboxrun.engine.managed import ManagedEngine
from sandboxrun.engine.protocol import EngineInfo, EngineKind
from sandboxrun.errors import EngineError, EngineUnavailableError
from sandboxrun.interfaces.cli.options import EngineOption, JsonOption
from sandboxrun.interfaces.cli.signals import run

app = typer.Typer(
    help="Start, stop and show the container engine.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
PodmanOption = Annotated[bool, typer.Option("--podman", help="Manage Podman instead of Docker.")]


@dataclass(frozen=True, slots=True)
class _Status:
    choice: EngineChoice
    info: EngineInfo


@app.command()
def up(podman: PodmanOption = False, as_json: JsonOption = False) -> None:
    """Start a private engine unless it answers already. It is used from then on."""
    kind = EngineKind.PODMAN if podman else EngineKind.DOCKER
    managed = ManagedEngine.of(Settings.read().state_dir, kind)
    # In a thread, which ^C waits for: an engine that is half up is nobody's.
    run(anyio.to_thread.run_sync, managed.up)
    choice = EngineChoice(managed.url, "managed", managed)
    _show(_Status(choice, run(_describe, managed.url)), as_json=as_json)


@app.command()
def down() -> None:
    """Stop the private engine and everything in it. Images and volumes stay."""
    engines = managed_engines(Settings.read().state_dir)
    stopped = run(anyio.to_thread.run_sync, _stopped, engines)
    typer.echo(f"stopped: {', '.join(stopped)}" if stopped else "no managed engine was running")


@app.command()
def status(engine: EngineOption = None, as_json: JsonOption = False) -> None:
    """Show the engine that is used. Exit status 125 when none answers."""
    settings = Settings.read(engine=engine)
    choice = run(choose_engine, search_of(settings))
    try:
        _show(_Status(choice, run(_describe, choice.url)), as_json=as_json)
    except EngineError as fault:
        if as_json:
            typer.echo(json.dumps(_absent(choice, fault)))
            raise typer.Exit(fault.exit_status) from fault
        raise EngineUnavailableError(
            f"No engine answers at {choice.url} ({choice.source}). {fault.message}"
        ) from fault


def _stopped(engines: Sequence[ManagedEngine]) -> list[str]:
    return [managed.layout.kind.value for managed in engines if managed.down()]


def search_of(settings: Settings) -> EngineSearch:
    """Return what the settings say about engines."""
    return EngineSearch(
        state_dir=settings.state_dir,
        engine=settings.engine,
        docker_host=settings.docker_host,
        docker_config=settings.docker_config,
        docker_context=settings.docker_context,
        xdg_runtime_dir=settings.xdg_runtime_dir,
    )


async def _describe(url: str) -> EngineInfo:
    engine = await connect(url)
    try:
        return await engine.describe()
    finally:
        await engine.aclose()


def _show(status: _Status, *, as_json: bool) -> None:
    info, choice = status.info, status.choice
    document = {
        "url": info.url,
        "engine": info.kind.value,
        "version": info.version,
        "api_version": info.api_version,
        "managed": choice.managed is not None,
        "running": True,
        "source": choice.source,
        "runtime": info.default_runtime,
        "runtimes": list(info.runtimes),
        "cgroup_version": info.cgroup_version,
        "storage_driver": info.storage_driver,
        "architecture": info.architecture,
        "rootless": info.rootless,
    }
    if as_json:
        typer.echo(json.dumps(document))
        return
    name = "Podman" if info.kind is EngineKind.PODMAN else "Docker"
    typer.echo(f"{name} {info.version} (API {info.api_version}) at {info.url}")
    typer.echo(f"chosen by: {choice.source}")
    typer.echo(f"runtime: {info.default_runtime}, storage: {info.storage_driver}")
    if choice.managed is not None:
        typer.echo(f"log: {choice.managed.layout.log}")


def _absent(choice: EngineChoice, fault: EngineError) -> dict[str, object]:
    return {
        "url": choice.url,
        "engine": None,
        "version": None,
        "api_version": None,
        "managed": choice.managed is not None,
        "running": False,
        "source": choice.source,
        "runtime": None,
        "reason": fault.message,
    }
