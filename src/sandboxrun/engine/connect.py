"""Which engine to use: the one that is named, else one that answers, else our own."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio.to_thread

from sandboxrun.engine.docker import DockerEngine, connect
from sandboxrun.engine.managed import ManagedEngine, answers
from sandboxrun.engine.protocol import EngineKind
from sandboxrun.errors import ConfigurationError, EngineUnavailableError

_MANAGED_KINDS: Final = (EngineKind.DOCKER, EngineKind.PODMAN)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSearch:
    """What is known of engines before looking; `sandboxrun.config.Settings` has all of it."""

    state_dir: Path
    engine: str | None = None
    """An address given by option or setting."""
    docker_host: str | None = None
    docker_config: Path | None = None
    docker_context: str | None = None
    xdg_runtime_dir: Path | None = None


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """The engine to use. It may not be up yet if it is a managed one."""

    url: str
    source: str
    """Where the choice comes from, for people."""
    managed: ManagedEngine | None


async def open_engine(search: EngineSearch) -> DockerEngine:
    """Choose an engine, start the managed one if it is chosen and not up, and connect.

    Raises `ConfigurationError`, `InstallError`, `EngineUnavailableError` or `EngineError`.
    Cancelling waits for a start in progress (bounded) and leaves the managed engine running.
    """
    choice = await choose_engine(search)
    if choice.managed is not None:
        await anyio.to_thread.run_sync(choice.managed.up)
    return await connect(choice.url)


async def choose_engine(search: EngineSearch) -> EngineChoice:
    """Return the engine to use, starting nothing.

    In this order: the address given, DOCKER_HOST, the Docker client's context, a managed engine
    that was brought up before, a Docker or Podman socket that answers, the managed engine.
    Raises `ConfigurationError` for a context that cannot be used. Cancelling leaves nothing.
    """
    return await anyio.to_thread.run_sync(_choose, search)


def _choose(search: EngineSearch) -> EngineChoice:
    if search.engine:
        return _named(search, search.engine, "setting")
    if search.docker_host:
        return _named(search, search.docker_host, "DOCKER_HOST")
    context = _context(search)
    if context is not None:
        return context
    for managed in managed_engines(search.state_dir):
        if managed.was_started():
            return EngineChoice(managed.url, "managed", managed)
    path = _answering_socket(search.xdg_runtime_dir)
    if path is not None:
        return EngineChoice(f"unix://{path}", f"socket {path}", None)
    managed = ManagedEngine.of(search.state_dir)
    return EngineChoice(managed.url, "managed", managed)


def _answering_socket(runtime_dir: Path | None) -> Path | None:
    refused: Path | None = None
    for path in _sockets(runtime_dir):
        if not _is_socket(path):
            continue
        if not os.access(path, os.W_OK):
            refused = path
        elif answers(path):
            return path
    if refused is not None and os.geteuid() != 0:
        raise EngineUnavailableError(
            f"This user may not use the engine at {refused}.",
            advice="Add the user to the group that owns the socket (docker group), or choose "
            "another engine with --engine.",
        )
    return None


def managed_engines(state_dir: Path) -> list[ManagedEngine]:
    """Return the managed engines a state directory may have."""
    return [ManagedEngine.of(state_dir, kind) for kind in _MANAGED_KINDS]


def _named(search: EngineSearch, url: str, source: str) -> EngineChoice:
    """Recognise a managed engine that is named by its address: it is still ours to start."""
    for managed in managed_engines(search.state_dir):
        if url in {managed.url, f"managed:{managed.layout.kind.value}"}:
            return EngineChoice(managed.url, source, managed)
    return EngineChoice(url, source, None)


def _context(search: EngineSearch) -> EngineChoice | None:
    if search.docker_config is None:
        return None
    name = search.docker_context or _current_context(search.docker_config / "config.json")
    if name in {None, "", "default"}:
        return None
    identity = hashlib.sha256(str(name).encode()).hexdigest()
    meta = search.docker_config / "contexts" / "meta" / identity / "meta.json"
    document = _read_json(meta)
    if document is None:
        raise ConfigurationError(
            f"The Docker context {name!r} does not exist.",
            advice="`docker context ls` shows those that do; DOCKER_CONTEXT or `docker context "
            "use` chooses.",
        )
    host = _host(document)
    tls = search.docker_config / "contexts" / "tls" / identity
    if host is None or tls.exists():
        raise ConfigurationError(
            f"The Docker context {name!r} has no address that can be used without TLS.",
            advice="Forward the engine's socket (ssh -L) and name it with --engine.",
        )
    return EngineChoice(host, f"Docker context {name}", None)


def _current_context(path: Path) -> str | None:
    document = _read_json(path)
    name = document.get("currentContext") if document else None
    return name if isinstance(name, str) else None


def _host(document: dict[str, object]) -> str | None:
    endpoints = document.get("Endpoints")
    docker = endpoints.get("docker") if isinstance(endpoints, dict) else None
    host = docker.get("Host") if isinstance(docker, dict) else None
    return host if isinstance(host, str) and host else None


def _read_json(path: Path) -> dict[str, object] | None:
    try:
        document = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}.") from error
    return document if isinstance(document, dict) else None


def _sockets(runtime_dir: Path | None) -> Iterator[Path]:
    yield Path("/var/run/docker.sock")
    if runtime_dir is not None:
        yield runtime_dir / "docker.sock"
        yield runtime_dir / "podman" / "podman.sock"
    yield Path("/run/podman/podman.sock")


def _is_socket(path: Path) -> bool:
    try:
        return stat.S_ISSOCK(path.stat().st_mode)
    except OSError:
        return False
