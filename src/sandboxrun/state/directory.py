"""The directory everything of an installation lives in, and its kernel locks.

It is resolved and opened once; what is reached through it later is reached from that descriptor,
so that exchanging a path component afterwards has no effect. Locks are flock(2) locks: the
kernel drops them when their holder dies, so there is never a stale one.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import anyio
import anyio.to_thread

from sandboxrun.errors import StateError
from sandboxrun.model.ids import new_id

_DIRECTORIES: Final = ("runs", "engine", "spool", "locks", "backups", "audit", "artifacts")
_INSTALLATION: Final = "installation"
_LOCK_POLL_SECONDS: Final = 0.02
_WRITABLE_BY_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]*")


@dataclass(frozen=True, slots=True)
class StateDirectory:
    """An open, checked state directory. Close it, or use it as a context manager."""

    path: Path
    """Where it is, with every symbolic link of its parents resolved."""
    fd: int
    """Descriptor of the directory itself."""
    installation_id: str
    """Random name of this installation; engine objects carry it. Survives the database."""

    @classmethod
    def open(cls, path: Path) -> Self:
        """Create the directory (mode 0700) where it is missing, check it and open it.

        Blocks for a handful of system calls. Raises `StateError` when it is a symbolic link, is
        not a directory, belongs to another user, can be written by others or cannot be used.
        """
        path = path.absolute()
        with usable(path):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            place = path.parent.resolve(strict=True) / path.name
            with suppress(FileExistsError):
                place.mkdir(mode=0o700)
            fd = os.open(place, os.O_DIRECTORY | os.O_NOFOLLOW | os.O_RDONLY | os.O_CLOEXEC)
        try:
            with usable(place):
                _check(place, os.fstat(fd))
                for name in _DIRECTORIES:
                    _subdirectory(fd, place, name)
                installation_id = _installation_id(fd)
            return cls(place, fd, installation_id)
        except BaseException:
            os.close(fd)
            raise

    @property
    def runs(self) -> Path:
        """Per-run files."""
        return self._below("runs")

    @property
    def engine(self) -> Path:
        """The managed engine's data root, socket and pid file."""
        return self._below("engine")

    @property
    def spool(self) -> Path:
        """Captured output on its way to consumers."""
        return self._below("spool")

    @property
    def artifacts(self) -> Path:
        """Complete output of runs, compressed."""
        return self._below("artifacts")

    @property
    def audit(self) -> Path:
        """The audit's signing key and anchor."""
        return self._below("audit")

    @property
    def backups(self) -> Path:
        """Copies of the database from before each migration."""
        return self._below("backups")

    @property
    def anchored(self) -> Path:
        """The directory by its descriptor, valid in this process whatever the path becomes."""
        return Path(f"/proc/self/fd/{self.fd}")

    def try_lock(self, name: str, *, exclusive: bool) -> int | None:
        """Take the kernel lock ``name`` and return its descriptor, or None while another has it.

        Closing the descriptor releases it. Raises `StateError` when the lock file is unusable.
        """
        if _NAME.fullmatch(name) is None:
            raise ValueError(f"not a lock name: {name!r}")
        with usable(self.path / "locks" / name):
            fd = os.open(
                f"locks/{name}",
                os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC,
                0o600,
                dir_fd=self.fd,
            )
        try:
            fcntl.flock(fd, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return None
        except BaseException:
            os.close(fd)
            raise
        return fd

    @asynccontextmanager
    async def lock(self, name: str, *, exclusive: bool, wait_seconds: float) -> AsyncIterator[int]:
        """Hold the kernel lock ``name``; yield its descriptor.

        Raises `StateError` naming the holders when it is not free within ``wait_seconds``.
        Cancellation while waiting leaves nothing; while holding, the lock is released.
        """
        fd = await anyio.to_thread.run_sync(lambda: self.try_lock(name, exclusive=exclusive))
        deadline = anyio.current_time() + wait_seconds
        while fd is None:
            if anyio.current_time() >= deadline:
                raise await anyio.to_thread.run_sync(self._held, name)
            await anyio.sleep(_LOCK_POLL_SECONDS)
            fd = await anyio.to_thread.run_sync(lambda: self.try_lock(name, exclusive=exclusive))
        try:
            yield fd
        finally:
            os.close(fd)

    def lock_holders(self, name: str) -> tuple[int, ...]:
        """Return the pids that hold the lock ``name``, as far as ``/proc/locks`` shows them."""
        try:
            inode = os.stat(f"locks/{name}", dir_fd=self.fd, follow_symlinks=False).st_ino
        except FileNotFoundError:
            return ()
        held = []
        for line in Path("/proc/locks").read_text(encoding="ascii").splitlines():
            fields = line.split()
            # "1: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF"; waiters have "->" in front.
            if fields[1] == "FLOCK" and fields[5].rpartition(":")[2] == str(inode):
                held.append(int(fields[4]))
        return tuple(sorted(set(held)))

    def close(self) -> None:
        """Close the descriptor. Everything reached through it stops working."""
        os.close(self.fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.close()

    def _below(self, name: str) -> Path:
        return self.path / name

    def _held(self, name: str) -> StateError:
        pids = ", ".join(str(pid) for pid in self.lock_holders(name)) or "unknown"
        return StateError(
            f"{self.path} is locked ({name}) by another process (pid {pids}).",
            advice="Wait for that process to end, or stop it, and try again.",
        )


def _check(path: Path, found: os.stat_result) -> None:
    if found.st_uid != os.geteuid():
        raise StateError(
            f"The state directory {path} belongs to uid {found.st_uid}, not to you "
            f"(uid {os.geteuid()}).",
            advice="Choose a directory of your own with SANDBOXRUN_STATE_DIR, or run as its owner.",
        )
    if found.st_mode & _WRITABLE_BY_OTHERS:
        raise StateError(
            f"The state directory {path} can be written by others "
            f"(mode {stat.S_IMODE(found.st_mode):04o}).",
            advice=f"Look whether anything in it is not yours, then `chmod 700 {path}`.",
        )


def _subdirectory(parent: int, path: Path, name: str) -> None:
    with suppress(FileExistsError):
        os.mkdir(name, mode=0o700, dir_fd=parent)
    found = os.stat(name, dir_fd=parent, follow_symlinks=False)
    if not stat.S_ISDIR(found.st_mode):
        raise StateError(
            f"{path / name} is not a directory.",
            advice="Something else put it there. Move it away and try again.",
        )
    _check(path / name, found)


def _installation_id(parent: int) -> str:
    """Read the id, made once: written under a name of its own and linked, so never half there."""
    for _ in range(2):
        with suppress(FileNotFoundError):
            fd = os.open(_INSTALLATION, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
            with os.fdopen(fd, encoding="ascii") as file:
                return file.read().strip()
        fresh = new_id("inst")
        fd = os.open(
            fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=parent
        )
        try:
            with os.fdopen(fd, "w", encoding="ascii") as file:
                file.write(fresh + "\n")
                file.flush()
                os.fsync(file.fileno())
            with suppress(FileExistsError):
                os.link(fresh, _INSTALLATION, src_dir_fd=parent, dst_dir_fd=parent)
        finally:
            os.unlink(fresh, dir_fd=parent)
    raise StateError(
        "The installation id appears and disappears; something else changes the state."
    )


@contextmanager
def usable(path: Path) -> Iterator[None]:
    """Turn what the kernel says about a place into a `StateError` that says what to do."""
    try:
        yield
    except OSError as error:
        match error.errno:
            case errno.ELOOP:
                said = f"{path} is a symbolic link."
                advice = "Name the directory it points to in SANDBOXRUN_STATE_DIR."
            case errno.ENOTDIR if path.is_symlink():
                said = f"{path} is a symbolic link."
                advice = "Name the directory it points to in SANDBOXRUN_STATE_DIR."
            case errno.ENOTDIR | errno.EEXIST:
                said = f"{path} is not a directory."
                advice = "Choose another with SANDBOXRUN_STATE_DIR."
            case errno.EROFS:
                said = f"{path} is on a read-only file system."
                advice = "Mount it writable, or choose another directory with SANDBOXRUN_STATE_DIR."
            case errno.ENOSPC | errno.EDQUOT:
                said = f"No space is left for {path}."
                advice = "Free some space (`sandboxrun gc` removes old runs), then try again."
            case errno.EACCES | errno.EPERM:
                said = f"{path} cannot be read and written by uid {os.geteuid()}."
                advice = f"Check its owner and mode (`ls -ld {path}`), or set SANDBOXRUN_STATE_DIR."
            case _:
                said = f"{path} cannot be used: {error.strerror}."
                advice = StateError.default_advice
        raise StateError(said, advice=advice) from error
