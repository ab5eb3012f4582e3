"""Look at single paths of an image through the engine, without running anything of it."""

from __future__ import annotations

import io
import tarfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from sandboxrun.engine.never_started import never_started
from sandboxrun.engine.protocol import Engine, ImageInfo
from sandboxrun.errors import EngineError
from sandboxrun.image.check import PathKind, PathStat, Stat

_LARGEST_PROGRAM = 256 * 1024 * 1024
"""The archive of a larger file isn't read to its end."""


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
