"""From single changes to the summary an outcome carries."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from sandboxrun.model.effects import PATHS_SHOWN, Changes, Effects, TreeEffects
from sandboxrun.model.text import escaped
from sandboxrun.model.workspace import HOME_NAME
from sandboxrun.workspace.compare import Change, Kind, compare
from sandboxrun.workspace.layers import Look
from sandboxrun.workspace.merged import MergedTree

_HOME = HOME_NAME.encode()


@dataclass(slots=True)
class _Count:
    count: int = 0
    paths: list[str] = field(default_factory=list)

    def add(self, path: bytes) -> None:
        self.count += 1
        if len(self.paths) < PATHS_SHOWN:
            self.paths.append(escaped(path or b"."))

    def changes(self) -> Changes:
        return Changes(count=self.count, paths=tuple(self.paths))


@dataclass(slots=True)
class _Tally:
    kinds: dict[Kind, _Count] = field(default_factory=lambda: {kind: _Count() for kind in Kind})
    size: int = 0

    def add(self, change: Change) -> None:
        self.kinds[change.kind].add(change.path)
        if change.after is not None and change.after.entry.is_file:
            self.size += change.after.entry.size

    def tree(self) -> TreeEffects:
        return TreeEffects(
            created=self.kinds[Kind.CREATED].changes(),
            modified=self.kinds[Kind.MODIFIED].changes(),
            deleted=self.kinds[Kind.DELETED].changes(),
            bytes=self.size,
        )


def summarise(changes: Iterable[Change]) -> Effects:
    """Count all changes and keep the first paths of each kind; the home's apart. Pure."""
    work, home = _Tally(), _Tally()
    for change in changes:
        below = change.path == _HOME or change.path.startswith(_HOME + b"/")
        (home if below else work).add(change)
    tree = work.tree()
    return Effects(
        created=tree.created,
        modified=tree.modified,
        deleted=tree.deleted,
        bytes=tree.bytes,
        home=home.tree(),
    )


def effects_between(look: Look, old: tuple[str, ...], new: tuple[str, ...]) -> Effects:
    """Return what the stack ``new`` changes against ``old``. Blocks; for a worker thread."""
    return summarise(compare(MergedTree(look, old), MergedTree(look, new)))
