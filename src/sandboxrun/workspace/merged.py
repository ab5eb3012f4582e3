"""A stack of layers seen as the one tree that overlayfs shows. Pure but for reading layers.

The lookup follows the kernel's (fs/overlayfs/namei.c: ovl_lookup, ovl_lookup_layer,
ovl_check_redirect): the uppermost entry counts; directories are merged downwards until a
whiteout, another kind of file or an opaque directory ends it; a redirect says where the layers
below have the directory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sandboxrun.workspace.entry import Entry
from sandboxrun.workspace.layers import Look


@dataclass(frozen=True, slots=True)
class Part:
    """One layer's share of a node."""

    layer: str
    path: bytes


@dataclass(frozen=True, slots=True)
class Node:
    """A file, or a directory with all layers that contribute to it, uppermost first."""

    entry: Entry
    parts: tuple[Part, ...]

    @property
    def top(self) -> Part:
        """Where the entry itself is."""
        return self.parts[0]


@dataclass(slots=True)
class Below:
    """Where the next lower layers have the name that is looked up."""

    path: bytes
    """Below the parent, one name; below the root when ``absolute``."""
    absolute: bool = False
    stopped: bool = False
    """They don't count: something above hides what they have."""


class MergedTree:
    """The tree of ``stack``, whose first layer is the uppermost."""

    def __init__(self, look: Look, stack: tuple[str, ...]) -> None:
        self.look = look
        self._stack = stack
        self._below = {layer: position for position, layer in enumerate(stack)}

    def root(self) -> Node:
        """Return the root directory. All layers have it. Raises `FileNotFoundError`."""
        entry = self.look.entry(self._stack[0], b"")
        if entry is None:
            raise FileNotFoundError(self._stack[0])
        return Node(entry, tuple(Part(layer, b"") for layer in self._stack))

    def lookup(self, parent: Node, name: bytes) -> Node | None:
        """Return what the tree has at ``name`` in the directory ``parent``."""
        return self.resolve(parent.parts, name)[0]

    def resolve(self, parents: tuple[Part, ...], name: bytes) -> tuple[Node | None, Below]:
        """Look ``name`` up in ``parents``; return it and where still lower layers would have it."""
        search = Below(name)
        first: Entry | None = None
        parts: list[Part] = []
        waiting = list(parents)
        while waiting and not search.stopped:
            base = waiting.pop(0)
            was_absolute = search.absolute
            path = search.path if search.absolute else _join(base.path, search.path)
            entry = self._entry(base.layer, path, search)
            if entry is not None and (entry.is_dir or first is None):
                first = entry if first is None else first
                parts.append(Part(base.layer, path))
            if search.absolute and not was_absolute:
                below = self._stack[self._below[base.layer] + 1 :]
                waiting = [Part(layer, b"") for layer in below]
        return (None if first is None else Node(first, tuple(parts))), search

    def children(self, node: Node) -> Iterator[tuple[bytes, Node]]:
        """Yield what is in a directory, by name."""
        names = {name for part in node.parts for name in self.look.names(part.layer, part.path)}
        for name in sorted(names):
            child = self.lookup(node, name)
            if child is not None:
                yield name, child

    def find(self, path: bytes) -> Node | None:
        """Return what the tree has at ``path``."""
        node: Node | None = self.root()
        for name in path.split(b"/") if path else []:
            if node is None or not node.entry.is_dir:
                return None
            node = self.lookup(node, name)
        return node

    def _entry(self, layer: str, path: bytes, search: Below) -> Entry | None:
        """Look one layer up and note in ``search`` what it says of the layers below."""
        components = path.split(b"/") if search.absolute else [path]
        for position in range(1, len(components) + 1):
            last = position == len(components)
            here = b"/".join(components[:position])
            entry = self.look.entry(layer, here)
            if entry is None:
                return None
            if entry.is_whiteout or (not last and not entry.is_dir):
                search.stopped = True
                return None
            if not entry.is_dir:
                search.stopped = True
                return entry
            if entry.opaque:
                search.stopped = True
            elif entry.redirect is not None:
                _follow(search, entry.redirect, components[:position], components[position:])
            if last:
                return entry
        return None


def _follow(search: Below, redirect: bytes, walked: list[bytes], rest: list[bytes]) -> None:
    """Apply a redirect found at ``walked``; ``rest`` is still to be looked up below it."""
    if redirect.startswith(b"/"):
        search.stopped = False
        search.absolute = True
        search.path = b"/".join([redirect.lstrip(b"/"), *rest])
    elif search.absolute:
        search.path = b"/".join([*walked[:-1], redirect, *rest])
    else:
        search.path = redirect


def _join(directory: bytes, name: bytes) -> bytes:
    return directory + b"/" + name if directory else name
