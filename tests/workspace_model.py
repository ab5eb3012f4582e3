# ruff: noqa: PTH101, PTH102, PTH104, PTH108, PTH112, PTH113, PTH114, PTH115, PTH116, PTH118, PTH119, PTH123, PTH208, PTH211
"""A store of layers on a temporary directory, and random operations on a tree.

The operations run twice, on a real overlay mount and on a plain directory: the model.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from hypothesis import strategies as st
from tests.overlay_mount import overlay

from sandboxrun.workspace.compare import compare
from sandboxrun.workspace.direct import DirectLayers
from sandboxrun.workspace.effects import effects_between
from sandboxrun.workspace.merged import MergedTree

Verb = Literal[
    "write", "append", "mkdir", "rename", "remove", "symlink", "hardlink", "fifo", "chmod",
    "utime", "xattr", "touch_open", "sparse", "remake", "rewrite_same",
]  # fmt: skip
NAMES = (b"a", b"b", b"c", b"d d", b"\xff\xfe\n", b".wh.x", "ü".encode(), b"-rf")
T0 = 1_700_000_000_000_000_000


@dataclass(frozen=True)
class Step:
    verb: Verb
    path: tuple[bytes, ...]
    other: tuple[bytes, ...]
    number: int

    def apply(self, root: Path) -> None:
        """Do it; what cannot be done on this tree is left out, the same in both."""
        path = os.path.join(os.fsencode(root), *self.path)
        other = os.path.join(os.fsencode(root), *self.other)
        with suppress(OSError, shutil.Error):
            getattr(self, f"_{self.verb}")(path, other)

    def _write(self, path: bytes, _: bytes) -> None:
        if os.path.isfile(path) or not os.path.lexists(path):
            with open(path, "wb") as file:
                file.write(b"%d" % self.number * (self.number % 50))

    def _append(self, path: bytes, _: bytes) -> None:
        if os.path.isfile(path) and not os.path.islink(path):
            with open(path, "ab") as file:
                file.write(b"+")

    def _mkdir(self, path: bytes, _: bytes) -> None:
        os.mkdir(path)

    def _rename(self, path: bytes, other: bytes) -> None:
        os.rename(path, other)

    def _remove(self, path: bytes, _: bytes) -> None:
        _remove(path)

    def _symlink(self, path: bytes, other: bytes) -> None:
        os.symlink(os.path.basename(other), path)

    def _hardlink(self, path: bytes, other: bytes) -> None:
        os.link(path, other, follow_symlinks=False)

    def _fifo(self, path: bytes, _: bytes) -> None:
        os.mkfifo(path)

    def _chmod(self, path: bytes, _: bytes) -> None:
        if not os.path.islink(path):
            os.chmod(path, 0o700 | self.number % 64)

    def _utime(self, path: bytes, _: bytes) -> None:
        if not os.path.islink(path):
            os.utime(path, ns=(T0, T0 + self.number))

    def _xattr(self, path: bytes, _: bytes) -> None:
        if os.path.isfile(path) and not os.path.islink(path):
            os.setxattr(path, b"user.note", b"%d" % self.number)

    def _touch_open(self, path: bytes, _: bytes) -> None:
        """Open for writing without writing: overlayfs copies it up."""
        if os.path.isfile(path) and not os.path.islink(path):
            os.close(os.open(path, os.O_RDWR))

    def _sparse(self, path: bytes, _: bytes) -> None:
        if os.path.isfile(path) or not os.path.lexists(path):
            with open(path, "wb") as file:
                file.truncate(100_000 + self.number)

    def _remake(self, path: bytes, _: bytes) -> None:
        """Make a directory that hides what it had: opaque."""
        if os.path.isdir(path) and not os.path.islink(path):
            _remove(path)
            os.mkdir(path)
            with open(os.path.join(path, b"new"), "wb") as file:
                file.write(b"new")

    def _rewrite_same(self, path: bytes, _: bytes) -> None:
        """Change the content of the same size, and put the time back."""
        if os.path.isfile(path) and not os.path.islink(path):
            found = os.stat(path)
            with open(path, "r+b") as file:
                file.write(b"%d" % (self.number % 10) if found.st_size else b"")
            os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))


def _remove(path: bytes) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        os.unlink(path)


_PATHS = st.lists(st.sampled_from(NAMES[:4]), min_size=1, max_size=3).map(tuple) | st.lists(
    st.sampled_from(NAMES), min_size=1, max_size=2
).map(tuple)
STEPS = st.builds(
    Step,
    st.sampled_from(
        ("write", "mkdir", "mkdir", "rename", "rename", "remove", *Verb.__args__)  # type: ignore[attr-defined]
    ),
    _PATHS,
    _PATHS,
    st.integers(0, 999),
)


Description = tuple[int, int, int, int, bytes, str, tuple[tuple[str, bytes], ...]]


def describe(root: Path) -> dict[bytes, Description]:
    """Everything that counts of a tree: by path, without the times of directories."""
    found: dict[bytes, Description] = {}
    base = os.fsencode(root)
    waiting = [b""]
    while waiting:
        relative = waiting.pop()
        path = os.path.join(base, relative) if relative else base
        status = os.lstat(path)
        target, digest = b"", ""
        xattrs: tuple[tuple[str, bytes], ...] = ()
        if stat.S_ISLNK(status.st_mode):
            target = os.readlink(path)
        elif stat.S_ISREG(status.st_mode):
            with open(path, "rb") as file:
                digest = hashlib.sha256(file.read()).hexdigest()
            names = [name for name in os.listxattr(path) if name.startswith("user.")]
            xattrs = tuple((name, os.getxattr(path, name)) for name in sorted(names))
        elif stat.S_ISDIR(status.st_mode):
            waiting += [relative + b"/" + n if relative else n for n in os.listdir(path)]
        mtime = 0 if stat.S_ISDIR(status.st_mode) else status.st_mtime_ns
        found[relative] = (
            status.st_mode, status.st_uid, status.st_gid, mtime, target, digest, xattrs,
        )  # fmt: skip
    return found


def without_times(tree: dict[bytes, Description]) -> dict[bytes, tuple[object, ...]]:
    """Leave every time out: two trees were made one after the other."""
    return {path: (*each[:3], *each[4:]) for path, each in tree.items()}


@dataclass
class Sheaf:
    """A store with a head, as the project would keep it."""

    path: Path
    stack: tuple[str, ...] = ()
    layers: DirectLayers = field(init=False)

    def __post_init__(self) -> None:
        self.store = self.path / "store"
        self.point = self.path / "mnt"
        self.store.mkdir(parents=True)
        self.point.mkdir()
        self.layers = DirectLayers(self.store)
        self.layers.make("base", like=None)
        self.layers.make("seed", like=None, owner=1234)
        self.stack = ("seed", "base")

    @contextmanager
    def writing(self) -> Iterator[Path]:
        upper = secrets.token_hex(4)
        self.layers.make(upper, like=self.stack[0])
        with overlay(self.store, self.stack, upper, self.point) as point:
            yield point
        self.layers.drop_scratch(upper)
        self.stack = (upper, *self.stack)

    def tree(self, stack: tuple[str, ...] | None = None) -> dict[bytes, Description]:
        with overlay(self.store, stack or self.stack, None, self.point) as point:
            return describe(point)

    def changes(self, old: tuple[str, ...], new: tuple[str, ...]) -> dict[str, set[bytes]]:
        found: dict[str, set[bytes]] = {"created": set(), "modified": set(), "deleted": set()}
        with self.layers.look() as look:
            for change in compare(MergedTree(look, old), MergedTree(look, new)):
                assert change.path not in found[change.kind]
                found[change.kind].add(change.path)
            effects = effects_between(look, old, new)
        counts = {
            kind: getattr(effects, kind).count + getattr(effects.home, kind).count for kind in found
        }
        assert counts == {kind: len(paths) for kind, paths in found.items()}
        return found

    def merge(self, count: int) -> None:
        into = secrets.token_hex(4)
        self.layers.merge(self.stack[:count], into)
        self.stack = (into, *self.stack[count:])


def differences(
    old: dict[bytes, Description], new: dict[bytes, Description]
) -> dict[str, set[bytes]]:
    """Compare two trees in full."""
    return {
        "created": new.keys() - old.keys(),
        "modified": {path for path in old.keys() & new.keys() if old[path] != new[path]},
        "deleted": old.keys() - new.keys(),
    }
