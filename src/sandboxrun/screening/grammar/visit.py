"""Walk a tree without reading it: every command that is reachable, in any order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sandboxrun.screening.grammar.tree import (
    AndOr,
    Arithmetic,
    Arm,
    Assignment,
    Case,
    Command,
    Coprocess,
    Double,
    Evaluation,
    Extended,
    For,
    Function,
    Group,
    If,
    Literal,
    Parameter,
    Pipeline,
    Process,
    Quoted,
    Redirect,
    Simple,
    Statement,
    Substitution,
    Test,
    Timed,
    While,
    Word,
)

_LEAVES: Final = (Literal, Quoted, Extended)
_COMMANDS: Final = (
    Simple,
    Pipeline,
    AndOr,
    Group,
    If,
    While,
    For,
    Case,
    Function,
    Evaluation,
    Test,
    Timed,
    Coprocess,
)
_INNER: Final = (
    *_COMMANDS,
    Statement,
    Word,
    Double,
    Parameter,
    Substitution,
    Process,
    Arithmetic,
    Assignment,
    Redirect,
    Arm,
)


def commands_of(statements: tuple[Statement, ...]) -> Iterator[Command]:
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


def count_nodes(statements: tuple[Statement, ...], most: int) -> int:
    """Return the number of nodes, counting no further than ``most``."""
    pending: list[object] = list(statements)
    count = 0
    while pending and count < most:
        node = pending.pop()
        count += 1
        if isinstance(node, tuple):
            pending.extend(child for child in node if isinstance(child, tuple))
    return count
