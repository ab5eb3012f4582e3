"""The store's directories reached by path: for root on the engine's own host."""

from __future__ import annotations

import errno
import itertools
import os
import secrets
import stat
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from sandboxrun.workspace.entry import OPAQUE, REDIRECT, Entry
from sandboxrun.workspace.kernel import DIRECTORY, open_beneath, sync_file_system
from sandboxrun.workspace.layers import CONTENT, SCRATCH, Look
from sandboxrun.workspace.merge import copy_metadata, is_visible, merge

_MARKER: Final = ".sandboxrun-store"
_ABSENT: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
_KEPT_OPEN: Final = 64
_BLOCK: Final = 1 << 20
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


@dataclass(frozen=True, slots=True)
class DirectLayers:
    """See `Layers`. Opens the store by its path each time: a removed volume must be noticed."""

    path: Path

    def marker(self) -> str | None:
        """See `Layers.marker`."""
        with suppress(FileNotFoundError, NotADirectoryError), self._store() as store:
            fd = os.open(_MARKER, _READ, dir_fd=store)
            with os.fdopen(fd, encoding="ascii") as file:
                return file.read().strip()
        return None

    def mark(self, identity: str) -> None:
        """See `Layers.mark`."""
        with self._store() as store:
            os.fchmod(store, 0o700)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            with os.fdopen(os.open(_MARKER, flags, 0o600, dir_fd=store), "w") as file:
                file.write(identity + "\n")
                file.flush()
                os.fsync(file.fileno())
            os.fsync(store)

    def missing(self, layers: tuple[str, ...]) -> str | None:
        """See `Layers.missing`."""
        with self._store() as store:
            for layer in layers:
                try:
                    os.stat(f"{layer}/{CONTENT}", dir_fd=store, follow_symlinks=False)
                except FileNotFoundError:
                    return layer
        return None

    def make(self, layer: str, *, like: str | None, owner: int | None = None) -> None:
        """See `Layers.make`."""
        with self._store() as store:
            os.mkdir(layer, 0o700, dir_fd=store)
            os.mkdir(f"{layer}/{CONTENT}", 0o755, dir_fd=store)
            os.mkdir(f"{layer}/{SCRATCH}", 0o700, dir_fd=store)
            with opened(store, f"{layer}/{CONTENT}".encode()) as made:
                os.fchmod(made, 0o755)
                if like is not None:
                    with opened(store, f"{like}/{CONTENT}".encode()) as model:
                        copy_metadata(model, made)
                if owner is not None:
                    os.fchown(made, owner, owner)

    def fill(self, layer: str, work: Callable[[int], int]) -> int:
        """See `Layers.fill`."""
        with self._store() as store, opened(store, _content(layer, b"")) as root:
            return work(root)

    def merge(self, layers: tuple[str, ...], into: str) -> None:
        """See `Layers.merge`."""
        self.make(into, like=layers[0])
        with self.look() as look, self._store() as store:
            merge(store, look, layers, into)

    def make_home(self, layer: str, name: str, owner: int) -> None:
        """See `Layers.make_home`."""
        with self._store() as store, opened(store, _content(layer, b"")) as root:
            try:
                os.mkdir(name, 0o755, dir_fd=root)
            except FileExistsError:
                return
            with opened(root, name.encode()) as home:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
                ignore = os.open(".gitignore", flags, 0o644, dir_fd=home)
                try:
                    os.write(ignore, b"*\n")
                    os.fchmod(ignore, 0o644)
                    os.fchown(ignore, owner, owner)
                finally:
                    os.close(ignore)
                os.fchmod(home, 0o755)
                os.fchown(home, owner, owner)

    def drop_scratch(self, layer: str) -> None:
        """See `Layers.drop_scratch`."""
        with (
            suppress(FileNotFoundError),
            self._store() as store,
            opened(store, layer.encode()) as directory,
        ):
            remove_tree(directory, SCRATCH)

    def remove(self, layer: str) -> None:
        """See `Layers.remove`."""
        with self._store() as store:
            remove_tree(store, layer)

    @contextmanager
    def look(self) -> Iterator[Look]:
        """See `Layers.look`."""
        with self._store() as store:
            look = DirectLook(store)
            try:
                yield look
            finally:
                look.close()

    def sync(self) -> None:
        """See `Layers.sync`."""
        with self._store() as store:
            sync_file_system(store)

    def stored(self) -> Iterator[str]:
        """See `Layers.stored`."""
        with self._store() as store, os.scandir(store) as found:
            yield from (each.name for each in found if each.is_dir(follow_symlinks=False))

    @contextmanager
    def _store(self) -> Iterator[int]:
        fd = os.open(self.path, DIRECTORY)
        try:
            yield fd
        finally:
            os.close(fd)


@dataclass(slots=True)
class DirectLook:
    """See `Look`. Keeps the directories used last open."""

    store: int
    _open: OrderedDict[tuple[str, bytes], int] = field(default_factory=OrderedDict)

    def entry(self, layer: str, path: bytes) -> Entry | None:
        """See `Look.entry`."""
        parent, _, name = path.rpartition(b"/")
        try:
            return read_entry(self._directory(layer, parent), name or b".")
        except OSError as error:
            if error.errno in _ABSENT:
                return None
            raise

    def children(self, layer: str, path: bytes) -> Mapping[bytes, Entry]:
        """See `Look.children`."""
        directory = self._directory(layer, path)
        return {name: read_entry(directory, name) for name in self.names(layer, path)}

    def names(self, layer: str, path: bytes) -> list[bytes]:
        """See `Look.names`."""
        return list_names(self._directory(layer, path))

    def same_content(self, one: tuple[str, bytes], other: tuple[str, bytes]) -> bool:
        """See `Look.same_content`."""
        with self._file(*one) as first, self._file(*other) as second:
            while True:
                left, right = os.read(first, _BLOCK), os.read(second, _BLOCK)
                if left != right:
                    return False
                if not left:
                    return True

    def read(self, layer: str, path: bytes, limit: int) -> bytes:
        """See `Look.read`."""
        with self._file(layer, path) as fd:
            return os.read(fd, limit)

    def close(self) -> None:
        """Close what is open."""
        while self._open:
            os.close(self._open.popitem()[1])

    def _directory(self, layer: str, path: bytes) -> int:
        key = (layer, path)
        if key in self._open:
            self._open.move_to_end(key)
            return self._open[key]
        fd = open_beneath(self.store, _content(layer, path), DIRECTORY)
        self._open[key] = fd
        if len(self._open) > _KEPT_OPEN:
            os.close(self._open.popitem(last=False)[1])
        return fd

    @contextmanager
    def _file(self, layer: str, path: bytes) -> Iterator[int]:
        fd = open_beneath(self.store, _content(layer, path), _READ)
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise OSError(errno.EINVAL, "not a regular file", os.fsdecode(path))
            yield fd
        finally:
            os.close(fd)


@contextmanager
def opened(start: int, path: bytes, flags: int = DIRECTORY) -> Iterator[int]:
    """Open something below ``start`` and close it again."""
    fd = open_beneath(start, path, flags)
    try:
        yield fd
    finally:
        os.close(fd)


def list_names(directory: int) -> list[bytes]:
    """Return the names in an open directory."""
    with os.scandir(directory) as found:
        return [os.fsencode(each.name) for each in found]


def read_entry(directory: int, name: bytes) -> Entry:
    """Describe one name of an open directory without opening or following it."""
    found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    target = b""
    xattrs: tuple[tuple[str, bytes], ...] = ()
    opaque, redirect = False, None
    if stat.S_ISLNK(found.st_mode):
        target = os.readlink(name, dir_fd=directory)
    elif stat.S_ISDIR(found.st_mode) or stat.S_ISREG(found.st_mode):
        path = b"/proc/self/fd/%d/%b" % (directory, name)
        raw = _xattrs(path)
        opaque, redirect = raw.get(OPAQUE) == b"y", raw.get(REDIRECT)
        xattrs = tuple(sorted(each for each in raw.items() if is_visible(each[0])))
    return Entry(
        mode=found.st_mode,
        uid=found.st_uid,
        gid=found.st_gid,
        size=found.st_size,
        mtime_ns=found.st_mtime_ns,
        rdev=found.st_rdev,
        device=found.st_dev,
        inode=found.st_ino,
        links=found.st_nlink,
        target=target,
        xattrs=xattrs,
        opaque=opaque,
        redirect=redirect,
    )


def remove_tree(parent: int, name: str) -> None:
    """Remove a directory and all below it, however deep, following nothing.

    Subdirectories are moved up before they are emptied, so that depth costs neither descriptors
    nor stack.
    """
    try:
        top = os.open(name, DIRECTORY, dir_fd=parent)
    except FileNotFoundError:
        return
    try:
        names = _fresh_names()
        waiting = _empty(top, top, names)
        while waiting:
            each = waiting.pop()
            with opened(top, each.encode()) as inner:
                waiting += _empty(inner, top, names)
            os.rmdir(each, dir_fd=top)
    finally:
        os.close(top)
    os.rmdir(name, dir_fd=parent)


def _fresh_names() -> Iterator[str]:
    """Names that nothing in the tree can have."""
    token = secrets.token_hex(16)
    return (f"{token}-{number}" for number in itertools.count())


def _empty(directory: int, top: int, names: Iterator[str]) -> list[str]:
    """Unlink what is in ``directory`` and move its subdirectories to ``top``; return their names."""
    with os.scandir(directory) as found:
        entries = [(each.name, each.is_dir(follow_symlinks=False)) for each in found]
    moved = []
    for name, is_dir in entries:
        if is_dir:
            moved.append(next(names))
            os.rename(name, moved[-1], src_dir_fd=directory, dst_dir_fd=top)
        else:
            os.unlink(name, dir_fd=directory)
    return moved


def _content(layer: str, path: bytes) -> bytes:
    base = f"{layer}/{CONTENT}".encode()
    return base + b"/" + path if path else base


def _xattrs(path: bytes) -> dict[str, bytes]:
    try:
        names = os.listxattr(path, follow_symlinks=False)
    except OSError as error:
        if error.errno == errno.ENOTSUP:
            return {}
        raise
    return {name: os.getxattr(path, name, follow_symlinks=False) for name in names}
