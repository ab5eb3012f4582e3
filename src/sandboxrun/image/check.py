"""Whether an image can be used, and what it lacks.

Nothing of the image is run: its metadata and a few paths are looked at, so an image that lies
can at most lie about itself. What only shows at run time (a bash whose libraries are missing) is
found by the first run, as `image_unusable` or `command_not_found`.
"""

from __future__ import annotations

import stat as posix_stat
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from pydantic import BaseModel, ConfigDict

from sandboxrun.engine.protocol import ImageInfo
from sandboxrun.image.recipe import KIND, LABEL_KIND
from sandboxrun.image.requirements import REQUIREMENTS, SHELL, Requirement, Severity

WORKSPACE = "/workspace"
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_LINK_LIMIT = 16
"""A longer chain of links is taken for a loop; the kernel gives up at 40."""
_PATH_LIMIT = 16
"""Directories of the image's PATH that are looked into."""
# Engines say Go's names, machines say the kernel's.
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}


class PathKind(StrEnum):
    """What a path is, links not followed."""

    FILE = "file"
    DIRECTORY = "directory"
    SYMLINK = "symlink"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class PathStat:
    """One path of an image. ``mode`` holds the permission bits."""

    kind: PathKind
    mode: int
    link_target: str | None = None


Stat: TypeAlias = Callable[[str], Awaitable[PathStat | None]]
"""Looks at one absolute path, links in its directories followed inside the image, its last
component not; None when nothing is there. May raise the engine's faults."""


@dataclass(frozen=True, slots=True)
class ImageProbe:
    """The facts that `evaluate` judges."""

    info: ImageInfo
    engine_architecture: str
    """The machine's own name (``x86_64``) or the engine's (``amd64``)."""
    found: Mapping[str, str | None]
    """Where each requirement was found, by its name; None when it wasn't."""
    workspace: PathStat | None
    """What the image has at /workspace."""


class Lack(BaseModel):
    """One thing the image lacks."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    severity: Severity
    detail: str
    """What is missing and why that matters."""
    advice: str
    """What to do about it."""


class ImageReport(BaseModel):
    """The verdict on one image."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    image: str
    """Content id."""
    usable: bool
    """Shell commands and programs can run: the image serves as an agent's bash tool."""
    exec_form: bool
    """Programs given with ``--`` can run; true also for images without a shell."""
    lacks: tuple[Lack, ...]
    """The gravest first."""


async def gather(info: ImageInfo, engine_architecture: str, stat: Stat) -> ImageProbe:
    """Look for every requirement. Raises what ``stat`` raises. Leaves nothing when cancelled."""
    directories = _path_directories(info)
    found: dict[str, str | None] = {}
    for requirement in REQUIREMENTS:
        found[requirement.name] = await _find(requirement, directories, stat)
    return ImageProbe(info, engine_architecture, found, await stat(WORKSPACE))


def evaluate(probe: ImageProbe) -> ImageReport:
    """Judge an image by the facts gathered. Pure."""
    lacks = [*_platform_lacks(probe), *_workspace_lacks(probe), *_content_lacks(probe)]
    order = tuple(Severity)
    lacks.sort(key=lambda lack: order.index(lack.severity))
    severities = {lack.severity for lack in lacks}
    return ImageReport(
        image=probe.info.id,
        usable=not severities & {Severity.FATAL, Severity.SHELL},
        exec_form=Severity.FATAL not in severities,
        lacks=tuple(lacks),
    )


def _platform_lacks(probe: ImageProbe) -> list[Lack]:
    lacks: list[Lack] = []
    if probe.info.os != "linux":
        lacks.append(
            Lack(
                name="os",
                severity=Severity.FATAL,
                detail=f"The image is for {probe.info.os}; sandboxes are Linux.",
                advice="Use a Linux image.",
            )
        )
    own, engine = _architecture(probe.info.architecture), _architecture(probe.engine_architecture)
    if own != engine:
        lacks.append(
            Lack(
                name="architecture",
                severity=Severity.FATAL,
                detail=f"The image is for {own}, the engine runs {engine}.",
                advice=f"Get the image for {engine}.",
            )
        )
    return lacks


def _workspace_lacks(probe: ImageProbe) -> list[Lack]:
    lacks: list[Lack] = []
    if probe.workspace is not None and probe.workspace.kind is not PathKind.DIRECTORY:
        lacks.append(
            Lack(
                name="workspace",
                severity=Severity.FATAL,
                detail=f"{WORKSPACE} is a {probe.workspace.kind}; a workspace is mounted there.",
                advice=f"Make an image whose {WORKSPACE} is an empty directory or absent.",
            )
        )
    elif probe.workspace is not None:
        lacks.append(
            Lack(
                name="workspace",
                severity=Severity.NOTE,
                detail=f"The image has a {WORKSPACE}. Podman gives the root of every workspace the "
                "owner and mode of that directory, so commands may not write there.",
                advice=f"For Podman, make an image without {WORKSPACE}.",
            )
        )
    if probe.info.volumes:
        lacks.append(
            Lack(
                name="volumes",
                severity=Severity.NOTE,
                detail=f"The image declares volumes ({', '.join(probe.info.volumes)}); a sandbox "
                "has a small empty tmpfs there, so what the image holds there can't be seen.",
                advice="Make an image without VOLUME.",
            )
        )
    return lacks


def _content_lacks(probe: ImageProbe) -> list[Lack]:
    lacks = [
        Lack(
            name=requirement.name,
            severity=requirement.severity,
            detail=f"No {requirement.names[0]}: {requirement.why}.",
            advice=_advice(requirement),
        )
        for requirement in REQUIREMENTS
        if probe.found.get(requirement.name) is None
    ]
    if probe.info.labels.get(LABEL_KIND) != KIND:
        lacks.append(
            Lack(
                name="passwd",
                severity=Severity.NOTE,
                detail="Not the workspace image: its passwd has no name for the uid commands run "
                "as, so whoami fails and git asks for an identity.",
                advice="Start from the workspace image to have names for them.",
            )
        )
    return lacks


def _advice(requirement: Requirement) -> str:
    if requirement.severity is Severity.SHELL:
        return f"Install bash as {SHELL}, or run programs with: exec -- PROG ARG…"
    if not requirement.executable:
        return f"Copy {requirement.names[0]} from the workspace image if commands need it."
    return f"Install {requirement.name} in the image if commands need it."


async def _find(requirement: Requirement, directories: tuple[str, ...], stat: Stat) -> str | None:
    for name in requirement.names:
        paths = (name,) if name.startswith("/") else tuple(f"{d}/{name}" for d in directories)
        for path in paths:
            if await _is_file(path, stat, executable=requirement.executable):
                return path
    return None


async def _is_file(path: str, stat: Stat, *, executable: bool) -> bool:
    for _ in range(_LINK_LIMIT):
        seen = await stat(path)
        if seen is None:
            return False
        if seen.kind is not PathKind.SYMLINK:
            # Commands run as a uid that owns nothing in the image: the bits for others count.
            needed = posix_stat.S_IXOTH if executable else posix_stat.S_IROTH
            return seen.kind is PathKind.FILE and bool(seen.mode & needed)
        if not seen.link_target:
            return False
        path = join_link(path, seen.link_target)
    return False


def join_link(path: str, target: str) -> str:
    """Return the absolute path a link at ``path`` leads to, never above the image's root."""
    base = [] if target.startswith("/") else path.split("/")[:-1]
    parts: list[str] = []
    for part in (*base, *target.split("/")):
        if part == "..":
            # Purely textual: a directory that is itself a link would need the kernel to say.
            del parts[-1:]
        elif part not in {"", "."}:
            parts.append(part)
    return "/" + "/".join(parts)


def _path_directories(info: ImageInfo) -> tuple[str, ...]:
    value = _DEFAULT_PATH
    for entry in info.env:
        name, _, content = entry.partition("=")
        if name == "PATH":
            value = content
    absolute = (directory.rstrip("/") for directory in value.split(":") if directory[:1] == "/")
    return tuple(dict.fromkeys(absolute))[:_PATH_LIMIT]


def _architecture(name: str) -> str:
    return _ARCHITECTURES.get(name, name)
