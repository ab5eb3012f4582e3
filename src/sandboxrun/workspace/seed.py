"""What a new workspace starts with: a directory of this host, or one out of an image.

Everything is given to the workspace's uid. Kinds, permission bits, times, links, holes and
``user.`` attributes are kept; set-id bits, devices, sockets and overlayfs's own attributes are
not. Sources are untrusted: nothing is followed, and no name leads outside.
"""

from __future__ import annotations

import io
import os
import posixpath
import stat
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TypeAlias

from sandboxrun.errors import UsageError
from sandboxrun.model.text import escaped
from sandboxrun.model.workspace import HOME_NAME
from sandboxrun.workspace.kernel import DIRECTORY, open_beneath
from sandboxrun.workspace.layers import Layers

Seed: TypeAlias = Callable[[int, int], int]
"""Fills an open directory for a uid and returns how many entries it brought. Blocks."""

_NEVER_COVERED: Final = frozenset(
    {"bin", "dev", "etc", "lib", "lib64", "proc", "run", "sbin", "sys", "tmp", "usr"}
    | {".sandboxrun"}
)
_KEPT_BITS: Final = 0o1777
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PIECE: Final = 1 << 24


def plant(layers: Layers, layer: str, uid: int, seed: Seed | None) -> int:
    """Make a workspace's first layer; return how many entries it holds. Blocks."""
    layers.make(layer, like=None, owner=uid)
    count = 0 if seed is None else layers.fill(layer, lambda root: seed(root, uid))
    layers.make_home(layer, HOME_NAME, uid)
    return count


def check_mount(path: str) -> None:
    """Check where a workspace is to be mounted. Raises `UsageError`."""
    plain = path.isprintable() and not set(path) & set(':,\\"')
    if not plain or not path.startswith("/") or posixpath.normpath(path) != path or path == "/":
        raise UsageError(
            f"A workspace cannot be mounted at {path!r}.",
            advice="Give an absolute path like /testbed, without dots, commas and colons.",
        )
    if path.split("/")[1] in _NEVER_COVERED:
        raise UsageError(
            f"A workspace at {path!r} would hide what commands need.",
            advice="Choose a directory of its own, such as /testbed.",
        )


def from_directory(path: Path) -> Seed:
    """Return the seed that copies a directory of this host. Raises `UsageError` if it is none."""
    if not path.is_dir():
        raise UsageError(
            f"{escaped(os.fsencode(path))} is not a directory.",
            advice="Name the directory whose content the workspace is to start with.",
        )

    def copy(root: int, uid: int) -> int:
        source = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            return _Copy(source, root, uid).all()
        except FileNotFoundError as error:
            raise UsageError(
                f"{escaped(os.fsencode(path))} changed while it was copied."
            ) from error
        finally:
            os.close(source)

    return copy


def from_archive(archive: bytes) -> Seed:
    """Return the seed that unpacks an engine's archive of a directory.

    The archive's names start with that directory's own name, which is dropped. Unpacking raises
    `UsageError` for an archive that is none or would lead outside.
    """

    def unpack(root: int, uid: int) -> int:
        try:
            with tarfile.open(fileobj=io.BytesIO(archive), mode="r:") as tar:
                return _Unpack(tar, root, uid).all()
        except tarfile.TarError as error:
            raise UsageError(f"The archive is broken: {error}.") from error
        except (FileExistsError, FileNotFoundError, NotADirectoryError) as error:
            raise UsageError(f"The archive contradicts itself: {error.strerror}.") from error

    return unpack


class _Copy:
    """One copy of a tree, from directory descriptor to directory descriptor."""

    def __init__(self, source: int, target: int, uid: int) -> None:
        self._source, self._target, self._uid = source, target, uid
        self._linked: dict[tuple[int, int], bytes] = {}

    def all(self) -> int:
        count = 0
        waiting, directories = [b""], [b""]
        while waiting:
            path = waiting.pop()
            with _opened(self._source, path) as old, _opened(self._target, path) as new:
                for name in _names(old):
                    found = os.stat(name, dir_fd=old, follow_symlinks=False)
                    inner = path + b"/" + name if path else name
                    if stat.S_ISDIR(found.st_mode):
                        os.mkdir(name, 0o700, dir_fd=new)
                        waiting.append(inner)
                        directories.append(inner)
                    elif not self._leaf(old, new, name, inner, found):
                        continue
                    count += 1
        # The deepest first: filling a directory changes its times.
        for path in reversed(directories):
            with _opened(self._source, path) as old, _opened(self._target, path) as new:
                _copy_attributes(old, new, self._uid)
        return count

    def _leaf(self, old: int, new: int, name: bytes, path: bytes, found: os.stat_result) -> bool:
        key = (found.st_dev, found.st_ino)
        if found.st_nlink > 1 and key in self._linked:
            _link_beneath(self._target, self._linked[key], new, name)
            return True
        if stat.S_ISREG(found.st_mode):
            _copy_file(old, new, name, self._uid)
        elif stat.S_ISLNK(found.st_mode):
            os.symlink(os.readlink(name, dir_fd=old), name, dir_fd=new)
            _own(new, name, self._uid, found.st_mtime_ns)
        elif stat.S_ISFIFO(found.st_mode):
            os.mkfifo(name, stat.S_IMODE(found.st_mode) & _KEPT_BITS, dir_fd=new)
            _own(new, name, self._uid, found.st_mtime_ns)
        else:
            return False
        if found.st_nlink > 1:
            self._linked[key] = path
        return True


class _Unpack:
    """One archive, unpacked into a directory descriptor."""

    def __init__(self, tar: tarfile.TarFile, target: int, uid: int) -> None:
        self._tar, self._target, self._uid = tar, target, uid

    def all(self) -> int:
        count = 0
        directories: list[tuple[bytes, tarfile.TarInfo]] = []
        for member in self._tar:
            path = _below_top(member.name)
            if member.isdir():
                directories.append((path, member))
            if path and self._one(member, path):
                count += 1
        for path, member in reversed(directories):
            with _opened(self._target, path) as directory:
                os.fchown(directory, self._uid, self._uid)
                os.fchmod(directory, member.mode & _KEPT_BITS)
                os.utime(directory, (member.mtime, member.mtime))
        return count

    def _one(self, member: tarfile.TarInfo, path: bytes) -> bool:
        parent, _, name = path.rpartition(b"/")
        with _opened(self._target, parent) as directory:
            if member.isdir():
                os.mkdir(name, 0o700, dir_fd=directory)
            elif member.issym():
                os.symlink(os.fsencode(member.linkname), name, dir_fd=directory)
                _own(directory, name, self._uid, int(member.mtime * 1e9))
            elif member.islnk():
                _link_beneath(self._target, _below_top(member.linkname), directory, name)
            elif member.isreg():
                self._file(member, directory, name)
            else:
                return False
        return True

    def _file(self, member: tarfile.TarInfo, directory: int, name: bytes) -> None:
        reader = self._tar.extractfile(member)
        with os.fdopen(os.open(name, _WRITE, 0o600, dir_fd=directory), "wb") as file:
            while reader is not None and (piece := reader.read(_PIECE)):
                file.write(piece)
            file.flush()
            os.fchown(file.fileno(), self._uid, self._uid)
            os.fchmod(file.fileno(), member.mode & _KEPT_BITS)
            os.utime(file.fileno(), (member.mtime, member.mtime))


def _copy_file(old: int, new: int, name: bytes, uid: int) -> None:
    source = os.open(name, _READ, dir_fd=old)
    try:
        target = os.open(name, _WRITE, 0o600, dir_fd=new)
        try:
            _copy_data(source, target)
            _copy_attributes(source, target, uid)
        finally:
            os.close(target)
    finally:
        os.close(source)


def _copy_data(source: int, target: int) -> None:
    """Copy what is there and leave holes; file systems that can share the blocks."""
    size = os.fstat(source).st_size
    at = 0
    while at < size:
        try:
            start = os.lseek(source, at, os.SEEK_DATA)
        except OSError:
            break  # Only a hole is left.
        at = end = os.lseek(source, start, os.SEEK_HOLE)
        while start < end:
            done = os.copy_file_range(source, target, min(_PIECE, end - start), start, start)
            if done == 0:
                break
            start += done
    os.ftruncate(target, size)


def _copy_attributes(source: int, target: int, uid: int) -> None:
    found = os.fstat(source)
    os.fchown(target, uid, uid)
    os.fchmod(target, stat.S_IMODE(found.st_mode) & _KEPT_BITS)
    with suppress(OSError):  # Not every file system has attributes.
        for name in os.listxattr(source):
            if name.startswith("user."):
                os.setxattr(target, name, os.getxattr(source, name))
    os.utime(target, ns=(found.st_atime_ns, found.st_mtime_ns))


def _own(directory: int, name: bytes, uid: int, mtime_ns: int) -> None:
    os.chown(name, uid, uid, dir_fd=directory, follow_symlinks=False)
    os.utime(name, ns=(mtime_ns, mtime_ns), dir_fd=directory, follow_symlinks=False)


def _link_beneath(root: int, path: bytes, directory: int, name: bytes) -> None:
    parent, _, old = path.rpartition(b"/")
    with _opened(root, parent) as source:
        os.link(old, name, src_dir_fd=source, dst_dir_fd=directory, follow_symlinks=False)


def _below_top(name: str) -> bytes:
    """Return a member's path without the archive's top directory."""
    parts = [part for part in os.fsencode(name).split(b"/") if part not in (b"", b".")]
    if b".." in parts or name.startswith("/"):
        raise UsageError(f"The archive has a name that leads outside: {escaped(os.fsencode(name))}")
    return b"/".join(parts[1:])


def _names(directory: int) -> list[bytes]:
    with os.scandir(directory) as found:
        return [os.fsencode(each.name) for each in found]


@contextmanager
def _opened(start: int, path: bytes) -> Iterator[int]:
    fd = open_beneath(start, path, DIRECTORY)
    try:
        yield fd
    finally:
        os.close(fd)
