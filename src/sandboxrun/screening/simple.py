"""Simple commands: their words, their assignments, and what is run with which."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandboxrun.screening.grammar.tree import Assignment, Simple
from sandboxrun.screening.judging.builtins import is_integer
from sandboxrun.screening.judging.environment import environment_rule
from sandboxrun.screening.limits import ALTERNATIVES
from sandboxrun.screening.reading import marks
from sandboxrun.screening.reading.expand import Arg, Expander
from sandboxrun.screening.reading.scope import Scope

if TYPE_CHECKING:
    from sandboxrun.screening.walk import Walk


def run_simple(walk: Walk, command: Simple, scope: Scope, stdin: str | None) -> str:
    """Read a simple command and return what it prints."""
    expander = Expander(scope, walk)
    alternatives = _alternatives(command, expander)
    if command.declaration or not command.words:
        for assignment in command.assignments:
            _assign(walk, assignment, expander)
        if command.declaration and any(is_integer(args) for args in alternatives):
            _evaluate(walk, command, scope)
        restored = None
    else:
        restored = (dict(scope.variables), scope.path_changed) if command.assignments else None
        for assignment in command.assignments:
            _assign(walk, assignment, expander)
    outputs = [walk.judge(tuple(args), scope, stdin).output for args in alternatives if args]
    if restored is not None:
        _restore(command, scope, *restored)
    if len(set(outputs)) <= 1:
        return outputs[0] if outputs else ""
    return marks.UNKNOWN + marks.taint(*outputs)


def _evaluate(walk: Walk, command: Simple, scope: Scope) -> None:
    """Read the values of integers: they are arithmetic, and subscripts in it are expanded."""
    for assignment in command.assignments:
        for value in scope.lookup(assignment.name):
            walk.prompt(marks.plain(value), assignment.start, assignment.end, scope)


def _restore(
    command: Simple, scope: Scope, variables: dict[str, tuple[str, ...]], path_changed: bool
) -> None:
    for assignment in command.assignments:
        if assignment.name in variables:
            scope.variables[assignment.name] = variables[assignment.name]
        else:
            scope.variables.pop(assignment.name, None)
    scope.path_changed = path_changed


def _alternatives(command: Simple, expander: Expander) -> list[list[Arg]]:
    found: list[list[Arg]] = [[]]
    for word in command.words:
        options = expander.fields(word)
        if len(options) == 1:
            for args in found:
                args.extend(options[0])
            continue
        found = [[*args, *option] for args in found for option in options]
        if len(found) > ALTERNATIVES:
            rest = [*found[0][:-1], Arg(marks.SPLAT, word.start, word.end)]
            found = [*found[: ALTERNATIVES - 1], rest]
    return found


def _assign(walk: Walk, assignment: Assignment, expander: Expander) -> None:
    scope = expander.scope
    expander.arithmetic(assignment.subscript)
    if assignment.array is not None:
        elements = tuple(
            argument.text for word in assignment.array for argument in expander.fields(word)[0]
        )
        before = scope.arrays.get(assignment.name, ()) if assignment.append else ()
        scope.assign_array(assignment.name, before + elements)
        return
    values = expander.value(assignment.value)
    if assignment.subscript:
        elements = (*scope.arrays.get(assignment.name, ()), *values)
        scope.assign_array(assignment.name, elements)
        return
    if assignment.append:
        values = tuple(a + b for a in scope.lookup(assignment.name) for b in values)
    place = Arg(assignment.name, assignment.start, assignment.end)
    for value in values:
        environment_rule(walk, place, value, scope)
    scope.assign(assignment.name, values)
