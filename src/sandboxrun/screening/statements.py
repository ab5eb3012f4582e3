"""Statements by their kind: lists, pipelines, branches, loops."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from sandboxrun.screening.grammar.tree import (
    AndOr,
    Case,
    Command,
    Coprocess,
    Evaluation,
    For,
    Function,
    Group,
    If,
    Pipeline,
    Simple,
    Statement,
    Test,
    Timed,
    While,
)
from sandboxrun.screening.judging.access import probes_secret
from sandboxrun.screening.reading import marks
from sandboxrun.screening.reading.expand import Arg, Expander
from sandboxrun.screening.reading.scope import Scope
from sandboxrun.screening.simple import run_simple

if TYPE_CHECKING:
    from sandboxrun.screening.walk import Walk


def read_command(
    walk: Walk, statement: Statement, command: Command, scope: Scope, stdin: str | None
) -> str:
    """Read the command of ``statement`` and return what it prints."""
    match command:
        case Simple():
            return run_simple(walk, command, scope, stdin)
        case Pipeline(stages):
            return _pipeline(walk, stages, scope, stdin)
        case AndOr():
            return _and_or(walk, command, scope, stdin)
        case Group(statements, subshell):
            return read_group(walk, statements, scope, stdin, subshell=subshell)
        case Timed(inner):
            return "" if inner is None else _timed(walk, inner, scope, stdin)
        case Coprocess(inner):
            return read_group(walk, (inner,), scope, marks.UNKNOWN, subshell=True)
        case Function(name, body):
            walk.define(statement, name, body, scope)
            return ""
        case Evaluation(words):
            Expander(scope, walk).arithmetic(words)
            return ""
        case Test(words, names):
            expander = Expander(scope, walk)
            for word in words:
                for text in expander.value(word):
                    if probes_secret(text, scope):
                        walk.find("secret.probe", Arg(text, word.start, word.end))
            expander.arithmetic(names)
            return ""
        case If() | While() | For() | Case():
            return _branches(walk, command, scope, stdin)
        case _:
            assert_never(command)


def _timed(walk: Walk, inner: Statement, scope: Scope, stdin: str | None) -> str:
    command = inner.command
    if isinstance(command, Simple) and len(command.words) > 1:
        first = Expander(scope, walk).fields(command.words[0])[0]
        if first and first[0].text.startswith("-"):
            # Bash would look for a program of that name; people mean an option of time's.
            shorter = command._replace(words=command.words[1:])
            walk.mutates()
            return walk.statement(inner._replace(command=shorter), scope, stdin)
    return walk.statement(inner, scope, stdin)


def _pipeline(walk: Walk, stages: tuple[Statement, ...], scope: Scope, stdin: str | None) -> str:
    flow = stdin
    for stage in stages:
        inner = scope.copy()
        flow = walk.statement(stage, inner, flow)
        scope.files.update(inner.files)
    return flow if flow is not None else ""


def read_group(
    walk: Walk,
    statements: tuple[Statement, ...],
    scope: Scope,
    stdin: str | None,
    *,
    subshell: bool,
) -> str:
    """Read statements that stand together, in a scope of their own for a subshell."""
    inner = scope.copy() if subshell else scope
    output = walk.run(statements, inner, stdin)
    if subshell:
        scope.files.update(inner.files)
    return output


def _and_or(walk: Walk, command: AndOr, scope: Scope, stdin: str | None) -> str:
    """Read a list. What follows an `&&` sees the state in which all before it succeeded."""
    failures: list[Scope] = []
    rest = [command]
    # The left side nests as deep as the list is long.
    while isinstance(rest[-1].left.command, AndOr) and not rest[-1].left.redirects:
        rest.append(rest[-1].left.command)
    before = scope.copy()
    output = walk.statement(rest[-1].left, scope, stdin)
    for step in reversed(rest):
        if step.otherwise:
            failed = before.copy()
            output += walk.statement(step.right, failed, stdin)
            if not _leaves(step.right):
                scope.absorb(failed)
        else:
            failures.append(scope.copy())
            before = scope.copy()
            output += walk.statement(step.right, scope, stdin)
    for failed in failures:
        scope.absorb(failed)
    return output


def _branches(walk: Walk, command: If | While | For | Case, scope: Scope, stdin: str | None) -> str:
    match command:
        case If(condition, then, otherwise):
            walk.run(condition, scope, stdin)
            other = scope.copy()
            output = walk.run(then, scope, stdin)
            output += walk.run(otherwise, other, stdin)
            scope.absorb(other)
            return output
        case While(condition, body):
            return _loop(walk, (*condition, *body), scope, stdin)
        case For():
            _for(walk, command, scope)
            return _loop(walk, command.body, scope, stdin)
        case Case(word, arms):
            expander = Expander(scope, walk)
            expander.visit((word,))
            outputs = []
            before = scope.copy()
            for arm in arms:
                expander.visit(arm.patterns)
                inner = before.copy()
                outputs.append(walk.run(arm.body, inner, stdin))
                scope.absorb(inner)
            return "".join(outputs)
        case _:
            assert_never(command)


def _for(walk: Walk, command: For, scope: Scope) -> None:
    expander = Expander(scope, walk)
    expander.arithmetic(command.arithmetic)
    if command.name is None:
        return
    if command.items is None:
        scope.assign(command.name, scope.positional or (marks.UNKNOWN,))
        return
    values = [
        argument.text
        for item in command.items
        for alternative in expander.fields(item)
        for argument in alternative
    ]
    scope.assign(command.name, tuple(v.replace(marks.SPLAT, marks.UNKNOWN) for v in values))


def _loop(walk: Walk, body: tuple[Statement, ...], scope: Scope, stdin: str | None) -> str:
    """Read a body twice: the second time it sees what the first has left behind."""
    output = ""
    for _ in range(2):
        inner = scope.copy()
        output = walk.run(body, inner, stdin)
        scope.absorb(inner)
    return output + (marks.UNKNOWN if output else "")


def _leaves(statement: Statement) -> bool:
    command = statement.command
    if isinstance(command, Group) and command.statements and not command.subshell:
        return _leaves(command.statements[-1])
    if not isinstance(command, Simple) or not command.words:
        return False
    part = command.words[0].parts[0]
    return getattr(part, "text", "") in ("exit", "return", "break", "continue")
