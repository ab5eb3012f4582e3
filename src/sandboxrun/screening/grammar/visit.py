"""Walk a tree without reading it: every command that is reachable, in any order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, get_args

from sandboxrun.screening.grammar import tree

_LEAVES: Final = (tree.Literal, tree.Quoted, tree.Extended)
_COMMANDS: Final = get_args(tree.Command)
_INNER: Final = (
    *_COMMANDS,
    *(part for part in get_args(tree.Part) if part not in _LEAVES),
    tree.Statement,
    tree.Word,
    tree.Assignment,
    tree.Redirect,
    tree.Arm,
)


def commands_of(statements: tuple[tree.Statement, ...]) -> Iterator[tree.Command]:
    """Yield every command in ``statements``, those inside words included."""
    pending: list[object] = list(statements)
    while pending:
        node = pending.pop()
        if isinstance(node, _LEAVES):
            continue
        if isinstance(node, _COMMANDS):
            yield node
        if isinstance(node, _INNER) or type(node) is tuple:
            pending.extend(child for child in node if isinstance(child, tuple))


def count_nodes(statements: tuple[tree.Statement, ...], most: int) -> int:
    """Return the number of nodes, counting no further than ``most``."""
    pending: list[object] = list(statements)
    count = 0
    while pending and count < most:
        node = pending.pop()
        count += 1
        if isinstance(node, tuple):
            pending.extend(child for child in node if isinstance(child, tuple))
    return count
