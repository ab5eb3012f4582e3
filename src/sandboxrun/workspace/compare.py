"""What differs between two stacks of layers. The cost grows with the difference.

Directories made of the same layers are the same and aren't entered; where two share their lower
layers only names mentioned above those are looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from sandboxrun.workspace.entry import Entry
from sandboxrun.workspace.merged import MergedTree, Node


class Kind(StrEnum):
    """What happened to a path."""

    CREATED = "created"
    MODIFIED = "modified"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class Change:
    """One path that differs. ``before`` is None where it was created, ``after`` where deleted."""

    path: bytes
    """Relative to the workspace; empty for its root."""
    before: Node | None
    after: Node | None

    @property
    def kind(self) -> Kind:
        """Created, modified or deleted."""
        if self.before is None:
            return Kind.CREATED
        return Kind.DELETED if self.after is None else Kind.MODIFIED


def compare(old: MergedTree, new: MergedTree) -> Iterator[Change]:
    """Yield every difference, a directory before its content, names in order of their bytes."""
    waiting: list[tuple[bytes, Node | None, Node | None]] = [(b"", old.root(), new.root())]
    while waiting:
        path, before, after = waiting.pop()
        if before is not None and after is not None and before.parts == after.parts:
            continue
        if _differ(old, new, before, after):
            yield Change(path, before, after)
        for name in sorted(_names(old, new, before, after), reverse=True):
            was = _child(old, before, name)
            now = _child(new, after, name)
            if was is not None or now is not None:
                waiting.append((path + b"/" + name if path else name, was, now))


def _child(tree: MergedTree, node: Node | None, name: bytes) -> Node | None:
    return None if node is None or not node.entry.is_dir else tree.lookup(node, name)


def _differ(old: MergedTree, new: MergedTree, before: Node | None, after: Node | None) -> bool:
    if before is None or after is None:
        return True
    if not before.entry.same_metadata(after.entry):
        return True
    return before.entry.is_file and not _same_content(old, new, before, after)


def _same_content(old: MergedTree, new: MergedTree, before: Node, after: Node) -> bool:
    if _inode(before.entry) == _inode(after.entry):
        return True
    del new  # Both look at the same store.
    one, other = before.top, after.top
    return old.look.same_content((one.layer, one.path), (other.layer, other.path))


def _inode(entry: Entry) -> tuple[int, int]:
    return entry.device, entry.inode


def _names(old: MergedTree, new: MergedTree, before: Node | None, after: Node | None) -> set[bytes]:
    """Return the names that may differ: all but those both have from the same lower layers."""
    olds = before.parts if before is not None and before.entry.is_dir else ()
    news = after.parts if after is not None and after.entry.is_dir else ()
    shared = 0
    while shared < min(len(olds), len(news)) and olds[-1 - shared] == news[-1 - shared]:
        shared += 1
    names: set[bytes] = set()
    for tree, parts in ((old, olds), (new, news)):
        for part in parts[: len(parts) - shared]:
            names.update(_listed(tree, part.layer, part.path))
    return names


def _listed(tree: MergedTree, layer: str, path: bytes) -> Iterable[bytes]:
    return tree.look.names(layer, path)
