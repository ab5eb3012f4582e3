"""The tree both parsers are read into.

Offsets are bytes of the script that was parsed. A `Literal` is raw: its backslashes, braces,
globs and tilde are still to be read. Everything that can run is reachable from the statements.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias


class Literal(NamedTuple):
    """Text outside quotes, or the text between expansions inside double quotes; raw."""

    text: str


class Quoted(NamedTuple):
    """Constant text from single or ANSI-C quotes, already resolved."""

    text: str


class Double(NamedTuple):
    """Double quotes."""

    parts: tuple[Part, ...]


class Parameter(NamedTuple):
    """``$name`` in any of its forms."""

    name: str
    operator: str = ""
    """Such as ``:-``, ``#``, ``^^``; ``/`` and ``//`` replace, ``slice``, ``length``, ``!``, ``@``."""
    word: Word | None = None
    """The operator's first word."""
    other: Word | None = None
    """The replacement, or a slice's length."""
    subscript: tuple[Word, ...] = ()
    """Words of the subscript."""


class Substitution(NamedTuple):
    """``$(…)`` or backticks."""

    statements: tuple[Statement, ...]


class Process(NamedTuple):
    """``<(…)``, or ``>(…)`` when ``output``."""

    statements: tuple[Statement, ...]
    output: bool


class Arithmetic(NamedTuple):
    """``$((…))``: the words in it, in order."""

    words: tuple[Word, ...]


class Extended(NamedTuple):
    """An extended glob such as ``@(a|b)``."""

    text: str


Part: TypeAlias = (
    Literal | Quoted | Double | Parameter | Substitution | Process | Arithmetic | Extended
)


class Word(NamedTuple):
    """One shell word."""

    parts: tuple[Part, ...]
    start: int
    end: int


class Assignment(NamedTuple):
    """``name=value``; ``array`` holds the elements of ``name=(…)``."""

    name: str
    append: bool
    value: Word | None
    array: tuple[Word, ...] | None
    subscript: tuple[Word, ...]
    start: int
    end: int


class Redirect(NamedTuple):
    """A redirection. ``body`` is the text of a here-document."""

    operator: str
    fd: str | None
    target: Word
    body: Word | None
    start: int
    end: int


class Simple(NamedTuple):
    """Assignments and words. ``declaration`` for export, declare and their kin."""

    assignments: tuple[Assignment, ...]
    words: tuple[Word, ...]
    declaration: bool = False


class Pipeline(NamedTuple):
    """Two or more stages."""

    stages: tuple[Statement, ...]


class AndOr(NamedTuple):
    """``&&``, or ``||`` when ``otherwise``."""

    left: Statement
    right: Statement
    otherwise: bool


class Group(NamedTuple):
    """``{ …; }``, or ``(…)`` when ``subshell``."""

    statements: tuple[Statement, ...]
    subshell: bool


class If(NamedTuple):
    """One condition; ``otherwise`` holds the elif or else part."""

    condition: tuple[Statement, ...]
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...]


class While(NamedTuple):
    """``while`` or ``until``."""

    condition: tuple[Statement, ...]
    body: tuple[Statement, ...]


class For(NamedTuple):
    """``for`` or ``select``. ``items`` is None for the positional parameters."""

    name: str | None
    items: tuple[Word, ...] | None
    arithmetic: tuple[Word, ...]
    body: tuple[Statement, ...]


class Arm(NamedTuple):
    """One arm of a case."""

    patterns: tuple[Word, ...]
    body: tuple[Statement, ...]


class Case(NamedTuple):
    """``case``."""

    word: Word
    arms: tuple[Arm, ...]


class Function(NamedTuple):
    """A function's definition."""

    name: str
    body: Statement


class Evaluation(NamedTuple):
    """``((…))`` and ``let``."""

    words: tuple[Word, ...]


class Test(NamedTuple):
    """``[[ … ]]``: all its words, and those read as arithmetic or as a variable's name."""

    words: tuple[Word, ...]
    names: tuple[Word, ...]


class Timed(NamedTuple):
    """``time`` before a pipeline."""

    statement: Statement | None


class Coprocess(NamedTuple):
    """``coproc``."""

    statement: Statement


Command: TypeAlias = (
    Simple
    | Pipeline
    | AndOr
    | Group
    | If
    | While
    | For
    | Case
    | Function
    | Evaluation
    | Test
    | Timed
    | Coprocess
)


class Statement(NamedTuple):
    """A command with its redirections."""

    command: Command | None
    redirects: tuple[Redirect, ...]
    background: bool
    start: int
    end: int
