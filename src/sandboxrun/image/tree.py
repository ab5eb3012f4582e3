"""A directory that a root file system is built in, owned for as long as it is needed."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.to_thread

from sandboxrun.errors import ImageBuildError

_PREFIX = "image-build-"
_LOCK = "owner.lock"
_REMOVE_SECONDS = 120.0
"""Removing a tree of 20,000 files takes a second; a busy disk may need longer."""


@asynccontextmanager
async def build_directory(parent: Path) -> AsyncIterator[Path]:
    """Give an empty directory below ``parent`` and remove it, with all content, at the end.

    A kernel lock in it says that its builder lives; directories whose builder was killed are
    removed first. Removal is shielded and bounded: what is left is removed by the next build.
    Raises `ImageBuildError` if the directory can't be made.
    """
    try:
        await anyio.to_thread.run_sync(_remove_abandoned, parent)
        directory, lock = await anyio.to_thread.run_sync(_make, parent)
    except OSError as refused:
        raise ImageBuildError(f"No directory to build in: {refused}.") from refused
    try:
        tree = directory / "root"
        tree.mkdir()
        # It becomes the image's root directory; the caller's umask must not show there.
        tree.chmod(0o755)
        yield tree
    finally:
        with anyio.CancelScope(shield=True), anyio.move_on_after(_REMOVE_SECONDS):
            await anyio.to_thread.run_sync(_remove, directory, abandon_on_cancel=True)
        os.close(lock)


def _make(parent: Path) -> tuple[Path, int]:
    # One by one: `parents=True` would give those above only the mode the umask leaves.
    for missing in reversed([each for each in (parent, *parent.parents) if not each.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
    lock = os.open(directory / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return directory, lock


def _remove_abandoned(parent: Path) -> None:
    for directory in parent.glob(f"{_PREFIX}*"):
        try:
            lock = os.open(directory / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            # Being made or being removed by someone else at this moment.
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        else:
            _remove(directory)
        finally:
            os.close(lock)


def _remove(directory: Path) -> None:
    # Never follows links, and the builder's mounts were never in this mount namespace. The lock
    # file goes last, so that a removal that was cut short is still found as abandoned.
    for entry in directory.iterdir():
        if entry.name != _LOCK:
            shutil.rmtree(entry, ignore_errors=True)
    shutil.rmtree(directory, ignore_errors=True)
