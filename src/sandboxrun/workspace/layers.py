"""What is done with the directories in a store, wherever they are.

A layer is a directory of the store with two in it: ``d`` holds its content, ``w`` is overlayfs's
scratch space while it is written. Names and contents of what is in ``d`` are hostile bytes.

The calls here block and belong in worker threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Final, Protocol

from sandboxrun.workspace.entry import Entry

CONTENT: Final = "d"
SCRATCH: Final = "w"


class Look(Protocol):
    """Reading layers that nobody writes any more. Paths are relative to the layer's content."""

    def entry(self, layer: str, path: bytes) -> Entry | None:
        """Return what is at ``path``, or None. No component of it may be a symbolic link."""
        ...

    def children(self, layer: str, path: bytes) -> Mapping[bytes, Entry]:
        """Return what is in the directory ``path``, by name."""
        ...

    def names(self, layer: str, path: bytes) -> list[bytes]:
        """Return the names in the directory ``path``, in no order."""
        ...

    def same_content(self, one: tuple[str, bytes], other: tuple[str, bytes]) -> bool:
        """Whether two regular files, each a layer and a path, hold the same bytes."""
        ...

    def read(self, layer: str, path: bytes, limit: int) -> bytes:
        """Return up to ``limit`` bytes of a regular file."""
        ...


class Layers(Protocol):
    """The store's directories: made, looked at, removed."""

    def marker(self) -> str | None:
        """Return the identity written in the store, or None when there is none."""
        ...

    def mark(self, identity: str) -> None:
        """Write the identity into an empty store."""
        ...

    def missing(self, layers: tuple[str, ...]) -> str | None:
        """Return the first of ``layers`` that the store does not have, or None."""
        ...

    def make(self, layer: str, *, like: str | None, owner: int | None = None) -> None:
        """Make an empty layer whose root is a copy of ``like``'s (mode, owner, times, xattrs).

        ``owner`` makes the root belong to that uid instead.
        """
        ...

    def fill(self, layer: str, work: Callable[[int], int]) -> int:
        """Let ``work`` fill the content of a new layer, given as an open directory."""
        ...

    def merge(self, layers: tuple[str, ...], into: str) -> None:
        """Make the new layer ``into`` mean what ``layers`` do, the uppermost first."""
        ...

    def make_home(self, layer: str, name: str, owner: int) -> None:
        """Make the home directory in a new layer unless it has one; git never sees it."""
        ...

    def drop_scratch(self, layer: str) -> None:
        """Remove what overlayfs needed to write a layer, once it is mounted no more."""
        ...

    def remove(self, layer: str) -> None:
        """Remove a layer and all it holds. One that is gone is fine."""
        ...

    def look(self) -> AbstractContextManager[Look]:
        """Open the layers for reading."""
        ...

    def sync(self) -> None:
        """Return when everything in the store would survive a power loss."""
        ...

    def stored(self) -> Iterator[str]:
        """Yield the layers that are there."""
        ...
