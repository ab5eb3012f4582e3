"""Hazards of form: what is dangerous by its shape, whatever its words are."""

from __future__ import annotations

from sandboxrun.screening.grammar.tree import Literal, Pipeline, Simple, Statement
from sandboxrun.screening.grammar.visit import commands_of


def is_fork_bomb(name: str, body: Statement) -> bool:
    """Tell whether a function of this ``name`` starts itself more than once at a time."""
    if not _calls(name, (body,)):
        return False
    for command in commands_of((body,)):
        if isinstance(command, Pipeline):
            if sum(1 for stage in command.stages if _calls(name, (stage,))) > 1:
                return True
        elif isinstance(command, Simple):
            continue
    return any(_calls(name, (statement,)) for statement in _background(body))


def _calls(name: str, statements: tuple[Statement, ...]) -> bool:
    return any(
        isinstance(command, Simple) and command.words and command.words[0].parts == (Literal(name),)
        for command in commands_of(statements)
    )


def _background(body: Statement) -> list[Statement]:
    found: list[Statement] = []
    pending: list[object] = [body]
    while pending:
        node = pending.pop()
        if isinstance(node, Statement) and node.background:
            found.append(node)
        if isinstance(node, tuple):
            pending.extend(node)
    return found
