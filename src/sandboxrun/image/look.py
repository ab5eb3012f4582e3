"""Look at single paths of an image through the engine, without running anything of it."""

from __future__ import annotations

import io
import tarfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import anyio

from sandboxrun.engine.protocol import Engine, ImageInfo
from sandboxrun.engine.spec import ContainerSpec
from sandboxrun.errors import EngineError
from sandboxrun.image.check import PathKind, PathStat, Stat
from sandboxrun.model.ids import new_id

_LARGEST_PROGRAM = 256 * 1024 * 1024
"""The archive of a larger file isn't read to its end."""
_REMOVE_SECONDS = 20.0
_MEMORY_BYTES = 64 * 1024 * 1024
_NANO_CPUS = 100_000_000


@asynccontextmanager
async def opened_image(
    engine: Engine, info: ImageInfo, *, labels: Sequence[tuple[str, str]]
) -> AsyncIterator[Stat]:
    """Give a `Stat` for the image while the body runs. Raises the engine's faults.

    See `never_started` for what it looks into and what is left behind.
    """
    async with never_started(engine, info, labels=labels) as container:

        async def look(path: str) -> PathStat | None:
            archive = await engine.get_archive(container, path, limit_bytes=_LARGEST_PROGRAM)
            return None if archive is None else parse_stat(archive)

        yield look


@asynccontextmanager
async def never_started(
    engine: Engine, info: ImageInfo, *, labels: Sequence[tuple[str, str]]
) -> AsyncIterator[str]:
    """Give a container of the image that is created, never started, and removed at the end.

    Its files are the image's, for the engine's archive verbs. Removal is shielded and bounded; a
    container the engine didn't remove in time is found by its ``labels``. Raises the engine's
    faults.
    """
    name = new_id("sandboxrun-look")
    try:
        yield await engine.create(_spec(name, info, labels))
    finally:
        with anyio.CancelScope(shield=True), anyio.move_on_after(_REMOVE_SECONDS):
            await _remove(engine, name)


def parse_stat(archive: bytes) -> PathStat:
    """Return what the first member of an archive is. Raises `EngineError` if it isn't a tar."""
    try:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:") as tar:
            member = tar.next()
    except (tarfile.TarError, ValueError) as invalid:
        raise EngineError(f"The engine's archive can't be read: {invalid}.") from invalid
    if member is None:
        raise EngineError("The engine's archive is empty.")
    mode = member.mode & 0o7777
    if member.issym():
        return PathStat(PathKind.SYMLINK, mode, member.linkname)
    if member.isdir():
        return PathStat(PathKind.DIRECTORY, mode)
    if member.isreg():
        return PathStat(PathKind.FILE, mode)
    return PathStat(PathKind.OTHER, mode)


def _spec(name: str, info: ImageInfo, labels: Sequence[tuple[str, str]]) -> ContainerSpec:
    return ContainerSpec(
        name=name,
        image=info.id,
        entrypoint=("/never-started",),
        user="65534:65534",
        hostname="sandbox",
        network="none",
        memory_bytes=_MEMORY_BYTES,
        nano_cpus=_NANO_CPUS,
        pids=8,
        shm_bytes=1024 * 1024,
        seccomp='{"defaultAction": "SCMP_ACT_ERRNO"}',
        seccomp_file="",
        labels=tuple(labels),
    )


async def _remove(engine: Engine, name: str) -> None:
    try:
        await engine.remove(name, timeout_seconds=_REMOVE_SECONDS)
    except EngineError:
        # The labels stay with it; recovery removes what the engine could not remove now.
        return
