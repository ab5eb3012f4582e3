"""Several neighbouring layers become one that means the same, so that stacks stay shallow.

Files are hard links to the old layers' (their ctime changes, nothing else). What the merged
layers say of those below them is kept: whiteouts, opaque directories, redirects.
"""

from __future__ import annotations

import os
import stat
from typing import Final

from sandboxrun.workspace.entry import OPAQUE, REDIRECT
from sandboxrun.workspace.kernel import DIRECTORY, open_beneath
from sandboxrun.workspace.layers import CONTENT, Look
from sandboxrun.workspace.merged import Below, MergedTree, Node, Part

DEPTH_CAP: Final = 16
"""Layers of a stack, the two at its bottom included. A writer whose stack is deeper merges."""
_FIXED: Final = 2
"""The base and what the workspace started with are never merged."""
_AT_ONCE: Final = 8
_DEPTH_AFTER: Final = 11


def how_many(sizes: tuple[int, ...]) -> int:
    """Return how many of the uppermost layers to merge, given all their sizes from the top.

    A layer is taken along once those above it weigh half as much, so that each path is merged a
    number of times that grows with the logarithm of the workspace's history. 0: the stack is
    shallow enough. Pure.
    """
    if len(sizes) < DEPTH_CAP:
        return 0
    candidates = sizes[:-_FIXED]
    count = max(_AT_ONCE, len(sizes) - _DEPTH_AFTER)
    weight = sum(candidates[:count])
    while count < len(candidates) and candidates[count] <= 2 * weight:
        weight += candidates[count]
        count += 1
    return min(count, len(candidates))


def merge(store: int, look: Look, layers: tuple[str, ...], into: str) -> None:
    """Fill the new layer ``into`` with what ``layers`` are, the uppermost first. Blocks.

    ``into`` has to be empty. Raises `OSError`; what is there then has to be removed.
    """
    tree = MergedTree(look, layers)
    root = tree.root()
    waiting: list[tuple[bytes, tuple[Part, ...]]] = [(b"", root.parts)]
    made: list[tuple[bytes, Part]] = [(b"", root.top)]
    while waiting:
        path, parts = waiting.pop()
        directory = open_beneath(store, _inside(into, path), DIRECTORY)
        try:
            for name in {name for part in parts for name in look.names(part.layer, part.path)}:
                node, below = tree.resolve(parts, name)
                if node is None:
                    _white_out(directory, name)
                elif node.entry.is_dir:
                    _make_directory(directory, name, below)
                    inner = path + b"/" + name if path else name
                    waiting.append((inner, node.parts))
                    made.append((inner, node.top))
                else:
                    _link(store, node, directory, name)
        finally:
            os.close(directory)
    # Last, and the deepest first: filling a directory changes its times.
    for path, source in reversed(made):
        _copy_metadata(store, source, into, path)


def _white_out(directory: int, name: bytes) -> None:
    os.mknod(name, stat.S_IFCHR, 0, dir_fd=directory)


def _make_directory(directory: int, name: bytes, below: Below) -> None:
    os.mkdir(name, 0o700, dir_fd=directory)
    inner = open_beneath(directory, name, DIRECTORY)
    try:
        if below.stopped:
            os.setxattr(inner, OPAQUE, b"y")
        elif below.absolute:
            os.setxattr(inner, REDIRECT, b"/" + below.path)
        elif below.path != name:
            os.setxattr(inner, REDIRECT, below.path)
    finally:
        os.close(inner)


def _link(store: int, node: Node, directory: int, name: bytes) -> None:
    parent, _, old = node.top.path.rpartition(b"/")
    source = open_beneath(store, _inside(node.top.layer, parent), DIRECTORY)
    try:
        os.link(old, name, src_dir_fd=source, dst_dir_fd=directory, follow_symlinks=False)
    finally:
        os.close(source)


def _copy_metadata(store: int, source: Part, into: str, path: bytes) -> None:
    one = open_beneath(store, _inside(source.layer, source.path), DIRECTORY)
    try:
        other = open_beneath(store, _inside(into, path), DIRECTORY)
        try:
            copy_metadata(one, other)
        finally:
            os.close(other)
    finally:
        os.close(one)


def copy_metadata(source: int, target: int) -> None:
    """Give an open file or directory the owner, mode, visible xattrs and times of another."""
    found = os.fstat(source)
    os.fchown(target, found.st_uid, found.st_gid)
    os.fchmod(target, stat.S_IMODE(found.st_mode))
    for name in os.listxattr(source):
        if is_visible(name):
            os.setxattr(target, name, os.getxattr(source, name))
    os.utime(target, ns=(found.st_atime_ns, found.st_mtime_ns))


def is_visible(name: str) -> bool:
    """Whether programs in a container see the attribute. User ones and ACLs are."""
    return name.startswith(("user.", "system.posix_acl"))


def _inside(layer: str, path: bytes) -> bytes:
    base = f"{layer}/{CONTENT}".encode()
    return base + b"/" + path if path else base
