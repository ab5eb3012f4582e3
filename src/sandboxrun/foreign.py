"""Objects on the engine that belong to other installations, and removing those of a dead one.

A volume outlives the state directory that knows what it is for. From the engine's side alone one
cannot tell whether anybody still wants it; so nothing here is removed unless a person names the
installation, and never while anything shows that it lives.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio.to_thread

from sandboxrun.engine.protocol import ContainerSummary, Engine, VolumeInfo
from sandboxrun.engine.sandbox import REMOVE_SECONDS
from sandboxrun.model import labels
from sandboxrun.state.owner import Owner

_VOLUMES: Final = (labels.ROLE_MOUNT, labels.ROLE_STORE)
"""The mounts first: they are made of what is in a store."""
_CONTAINERS: Final = (labels.ROLE_RUN, labels.ROLE_LOOK)


@dataclass(frozen=True, slots=True)
class Foreign:
    """What an engine has of one other installation."""

    installation: str
    place: str | None
    """Its state directory as ``HOST:PATH``, where that was written down."""
    alive: str | None
    """Why it is known to live, as a sentence; None where nothing shows that it does."""
    gone: bool
    """Whether its state directory was on this host and is not there any more."""
    containers: tuple[str, ...]
    volumes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RemovedForeign:
    """What was removed, and what the engine would not let go of."""

    containers: int
    volumes: int
    left: tuple[str, ...]


async def foreign_installations(engine: Engine, ours: str) -> tuple[Foreign, ...]:
    """Return the other installations that have containers or volumes on ``engine``, by name.

    Raises engine faults. Cancelling leaves nothing.
    """
    volumes = [each for role in _VOLUMES for each in await engine.list_volumes({labels.ROLE: role})]
    containers = [
        each for role in _CONTAINERS for each in await engine.list_containers({labels.ROLE: role})
    ]
    named = {each.labels.get(labels.INSTALLATION) for each in volumes}
    named |= {each.labels.get(labels.INSTALLATION) for each in containers}
    others = sorted(name for name in named if name is not None and name != ours)
    return await anyio.to_thread.run_sync(
        lambda: tuple(_described(name, containers, volumes) for name in others)
    )


async def remove_foreign(engine: Engine, foreign: Foreign) -> RemovedForeign:
    """Remove all there is of an installation that does not live. Its containers are killed.

    Raises engine faults. Cancelling leaves the rest.
    """
    containers = [
        each
        for each in foreign.containers
        if not await engine.remove(each, timeout_seconds=REMOVE_SECONDS)
    ]
    volumes = [each for each in foreign.volumes if not await engine.remove_volume(each)]
    return RemovedForeign(
        containers=len(foreign.containers) - len(containers),
        volumes=len(foreign.volumes) - len(volumes),
        left=(*containers, *volumes),
    )


def _described(
    name: str, containers: Iterable[ContainerSummary], volumes: Iterable[VolumeInfo]
) -> Foreign:
    its_containers = [each for each in containers if each.labels.get(labels.INSTALLATION) == name]
    its_volumes = [each for each in volumes if each.labels.get(labels.INSTALLATION) == name]
    tags = [each.labels for each in its_containers] + [each.labels for each in its_volumes]
    place = next((each[labels.STATE] for each in tags if labels.STATE in each), None)
    path = _here(place)
    return Foreign(
        installation=name,
        place=place,
        alive=_alive(name, path, tags),
        gone=path is not None and not _is_state_of(path, name),
        containers=tuple(each.id for each in its_containers),
        volumes=tuple(each.name for each in its_volumes),
    )


def _alive(name: str, path: Path | None, tags: Iterable[Mapping[str, str]]) -> str | None:
    if path is not None and _is_state_of(path, name):
        return f"Its state directory {path} is there."
    for owner in sorted({each[labels.OWNER] for each in tags if labels.OWNER in each}):
        try:
            process = Owner.parse(owner)
        except ValueError:
            return f"Something of it belongs to {owner!r}, which cannot be looked up."
        if process.is_alive():
            return f"The process {process.pid} uses it."
    return None


def _here(place: str | None) -> Path | None:
    host, _, path = (place or "").partition(":")
    return Path(path) if path and host == os.uname().nodename else None


def _is_state_of(path: Path, name: str) -> bool:
    try:
        return (path / "installation").read_text(encoding="ascii").strip() == name
    except FileNotFoundError:
        return False
    except (OSError, ValueError):
        # There is something that we may not read or do not understand: it may well be alive.
        return True
