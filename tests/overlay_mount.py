"""Real overlay mounts without an engine, with the options the project uses. Needs root."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

_LIBC = ctypes.CDLL(None, use_errno=True)
_NOSUID_NODEV = 2 | 4
_DETACH = 2


@contextmanager
def overlay(store: Path, lowers: Sequence[str], upper: str | None, point: Path) -> Iterator[Path]:
    """Mount layers of a store directory, the uppermost first, at ``point``."""
    options = "lowerdir=" + ":".join(str(store / each / "d") for each in lowers)
    if upper is not None:
        options += f",upperdir={store / upper / 'd'},workdir={store / upper / 'w'}"
    options += ",redirect_dir=on,index=off,metacopy=off"
    _check(_LIBC.mount(b"overlay", os.fsencode(point), b"overlay", _NOSUID_NODEV, options.encode()))
    try:
        yield point
    finally:
        _check(_LIBC.umount2(os.fsencode(point), _DETACH))


def _check(result: int) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
