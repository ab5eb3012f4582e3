"""System calls that Python does not have, for walking hostile directories.

``openat2`` with RESOLVE_BENEATH, NO_SYMLINKS and NO_MAGICLINKS (openat2(2), Linux 5.6) resolves a
whole path without ever leaving its start or following a link, in one call.
"""

from __future__ import annotations

import ctypes
import os
from typing import Final

_SYS_OPENAT2: Final = 437
"""The same on every architecture."""
_RESOLVE: Final = 0x02 | 0x04 | 0x08
_PIECE: Final = 3072
"""Bytes of a path resolved at once; PATH_MAX is 4096 and trees may be deeper."""
DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class _How(ctypes.Structure):
    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


_LIBC: Final = ctypes.CDLL(None, use_errno=True)


def open_beneath(start: int, path: bytes, flags: int) -> int:
    """Open ``path`` below the directory ``start`` without following anything.

    An empty path is the directory itself. Raises `OSError`, with ELOOP where a component is a
    symbolic link.
    """
    pieces = _pieces(path)
    held = -1
    try:
        for piece in pieces[:-1]:
            inner = _openat2(start if held < 0 else held, piece, DIRECTORY)
            if held >= 0:
                os.close(held)
            held = inner
        return _openat2(start if held < 0 else held, pieces[-1], flags)
    finally:
        if held >= 0:
            os.close(held)


def sync_file_system(fd: int) -> None:
    """Write everything of the file system ``fd`` is on to the disk (syncfs(2))."""
    if _LIBC.syncfs(fd) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def _openat2(start: int, path: bytes, flags: int) -> int:
    how = _How(flags | os.O_CLOEXEC, 0, _RESOLVE)
    fd = _LIBC.syscall(_SYS_OPENAT2, start, path, ctypes.byref(how), ctypes.sizeof(how))
    if fd < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), os.fsdecode(path))
    return int(fd)


def _pieces(path: bytes) -> list[bytes]:
    if len(path) <= _PIECE:
        return [path or b"."]
    pieces: list[bytes] = []
    for name in path.split(b"/"):
        if pieces and len(pieces[-1]) + len(name) < _PIECE:
            pieces[-1] += b"/" + name
        else:
            pieces.append(name)
    return pieces
