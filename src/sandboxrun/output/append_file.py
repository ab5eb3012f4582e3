"""A file that one process appends to, each time wholly or not at all."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from pathlib import Path
from typing import Final

from sandboxrun.errors import OutputError

_MODE: Final = 0o600
_FLAGS: Final = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
_LOCK_TRIES: Final = 50
"""A reader that asks whether a writer lives holds the lock for a moment."""
_LOCK_PAUSE_SECONDS: Final = 0.002
RESERVE_BYTES: Final = 16 * 1024 * 1024
"""Left free on the file system, or an eighth of a small one: the end of the run has to be recorded
there, too, and whoever wants to remove old runs needs space to note that."""
_RESERVE_SHARE: Final = 8
_LOOK_BYTES: Final = 256 * 1024
"""How much is written between two looks at the free space."""


class AppendFile:
    """An open file with a kernel lock that says its writer is alive."""

    def __init__(self, path: Path, *, create: bool) -> None:
        """Create ``path`` with mode 0600, which must not exist, or open it, which must.

        Raises `OutputError` if that fails or another process has it open for appending.
        """
        self.path = path
        flags = _FLAGS | (os.O_CREAT | os.O_EXCL if create else 0)
        try:
            self._fd = os.open(path, flags, _MODE)
        except OSError as error:
            raise self._failed(error) from error
        self._unlooked = _LOOK_BYTES
        try:
            self._lock()
            self.size = os.fstat(self._fd).st_size
        except BaseException:
            self.close()
            raise

    def append(self, *parts: bytes) -> None:
        """Put ``parts`` at the end. On failure the file is as it was, and `OutputError` is raised.

        It fails before the file system is full: the last `RESERVE_BYTES` are for others.
        """
        wanted = sum(len(part) for part in parts)
        self._unlooked += wanted
        try:
            if self._unlooked >= _LOOK_BYTES:
                self._require_space()
                self._unlooked = 0
            written = os.writev(self._fd, parts)
            while written < wanted:
                written += os.write(self._fd, b"".join(parts)[written:])
        except OSError as error:
            self.truncate(self.size)
            raise self._failed(error) from error
        self.size += wanted

    def truncate(self, size: int) -> None:
        """Cut the file to ``size`` bytes. Raises `OutputError`."""
        try:
            os.ftruncate(self._fd, size)
        except OSError as error:
            raise self._failed(error) from error
        self.size = size

    def close(self) -> None:
        """Let go of the file and its lock. Safe to call twice."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _require_space(self) -> None:
        found = os.fstatvfs(self._fd)
        free, size = found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize
        if free < min(RESERVE_BYTES, size // _RESERVE_SHARE):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _lock(self) -> None:
        for _ in range(_LOCK_TRIES):
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(_LOCK_PAUSE_SECONDS)
            else:
                return
        raise OutputError(f"{self.path} is being written by another process.")

    def _failed(self, error: OSError) -> OutputError:
        return OutputError(f"{self.path}: {error.strerror}.")


def writer_lives(fd: int) -> bool:
    """Say whether an `AppendFile` is open on the file behind ``fd``, in any process."""
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(fd, fcntl.LOCK_UN)
    return False
