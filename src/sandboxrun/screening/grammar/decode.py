"""The slow parser's JSON, read into our tree. An unknown node is an error, never skipped."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

from sandboxrun.screening.grammar.ansi import unescape
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
    Part,
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

Node: TypeAlias = dict[str, Any]
"""Parsed JSON: its shape is the other program's, and every use of it is checked here."""


class UnknownNodeError(Exception):
    """The parser said something this reader does not know."""


def read_file(node: Node) -> tuple[Statement, ...]:
    """Return the statements of a parsed script. Raises `UnknownNodeError`."""
    try:
        return _statements(node.get("Stmts"))
    except (KeyError, TypeError, AttributeError) as missing:
        raise UnknownNodeError(str(missing)) from missing


def _at(node: Node, key: str) -> int:
    place = node[key]["Offset"]
    if not isinstance(place, int):
        raise UnknownNodeError(key)
    return place


def _statements(nodes: list[Node] | None) -> tuple[Statement, ...]:
    return tuple(_statement(node) for node in nodes or ())


def _statement(node: Node) -> Statement:
    command = node.get("Cmd")
    if node.get("Disown") or node.get("Coprocess"):
        raise UnknownNodeError("statement")
    return Statement(
        None if command is None else _command(command),
        tuple(_redirect(redirect) for redirect in node.get("Redirs") or ()),
        bool(node.get("Background")),
        _at(node, "Pos"),
        _at(node, "End"),
    )


def _word(node: Node | None) -> Word:
    if node is None:
        return Word((), 0, 0)
    return Word(_parts(node.get("Parts")), _at(node, "Pos"), _at(node, "End"))


def _parts(nodes: list[Node] | None) -> tuple[Part, ...]:
    """Return the parts, neighbouring literals as one."""
    parts: list[Part] = []
    for node in nodes or ():
        part = _part(node)
        last = parts[-1] if parts else None
        if isinstance(part, Literal) and isinstance(last, Literal):
            parts[-1] = Literal(last.text + part.text)
        else:
            parts.append(part)
    return tuple(parts)


def _words(nodes: list[Node] | None) -> tuple[Word, ...]:
    return tuple(_word(node) for node in nodes or ())


def _redirect(node: Node) -> Redirect:
    number, body = node.get("N"), node.get("Hdoc")
    return Redirect(
        node["Op"],
        None if number is None else number["Value"],
        _word(node["Word"]),
        None if body is None else _word(body),
        _at(node, "Pos"),
        _at(node, "End"),
    )


def _double(node: Node) -> Part:
    return Double(_parts(node.get("Parts")))


def _single(node: Node) -> Part:
    text = node.get("Value", "")
    return Quoted(unescape(text) if node.get("Dollar") else text)


def _extended(node: Node) -> Part:
    return Extended(node["Op"] + node["Pattern"]["Value"] + ")")


def _process(node: Node) -> Part:
    return Process(_statements(node.get("Stmts")), node["Op"] == ">(")


_PARTS: Final[dict[str, Callable[[Node], Part]]] = {
    "Lit": lambda node: Literal(node.get("Value", "")),
    "SglQuoted": _single,
    "DblQuoted": _double,
    "ParamExp": lambda node: _parameter(node),  # noqa: PLW0108 - defined below
    "CmdSubst": lambda node: Substitution(_statements(node.get("Stmts"))),
    "ArithmExp": lambda node: Arithmetic(_arithmetic(node.get("X"))),
    "ProcSubst": _process,
    "ExtGlob": _extended,
}


def _part(node: Node) -> Part:
    reader = _PARTS.get(node["Type"])
    if reader is None:
        raise UnknownNodeError(node["Type"])
    return reader(node)


def _parameter(node: Node) -> Part:
    param = node.get("Param")
    if param is None or node.get("NestedParam") or node.get("Flags"):
        raise UnknownNodeError("ParamExp")
    index = _arithmetic(node.get("Index"))
    operator, word, other = "", None, None
    if expansion := node.get("Exp"):
        operator = expansion["Op"]
        word = _word(expansion.get("Word"))
    elif replacement := node.get("Repl"):
        operator = "//" if replacement.get("All") else "/"
        word, other = _word(replacement.get("Orig")), _word(replacement.get("With"))
    elif part := node.get("Slice"):
        operator = "slice"
        word = _bound(part.get("Offset"))
        other = _bound(part["Length"]) if part.get("Length") else None
    if node.get("Length") or node.get("Width"):
        operator = "length"
    elif node.get("Excl"):
        operator = "!" + operator
    elif node.get("IsSet"):
        raise UnknownNodeError("IsSet")
    if names := node.get("Names"):
        operator = "!" + names
    return Parameter(param["Value"], operator, word, other, index)


def _bound(node: Node | None) -> Word:
    """Return a slice's bound: its word, a negative number, or the words of an expression."""
    if node is not None and node["Type"] == "Word":
        return _word(node)
    words = _arithmetic(node)
    start, end = (words[0].start, words[-1].end) if words else (0, 0)
    if node is not None and node["Type"] == "UnaryArithm" and node["Op"] == "-" and len(words) == 1:
        return Word((Literal("-"), *words[0].parts), start, end)
    return Word((Arithmetic(words),), start, end)


def _arithmetic(node: Node | None) -> tuple[Word, ...]:
    """Return every word of an arithmetic expression, in order."""
    return tuple(_arithmetic_words(node))


def _arithmetic_words(node: Node | None) -> Iterator[Word]:
    if node is None:
        return
    match node["Type"]:
        case "Word":
            yield _word(node)
        case "BinaryArithm":
            yield from _arithmetic_words(node["X"])
            yield from _arithmetic_words(node["Y"])
        case "UnaryArithm" | "ParenArithm" | "FlagsArithm":
            yield from _arithmetic_words(node["X"])
        case kind:
            raise UnknownNodeError(kind)


_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _assignment(node: Node) -> Assignment:
    name = node["Name"]["Value"]
    if not _NAME.fullmatch(name):
        # The parser takes `a\ b=c` for an assignment. To bash it is a program's name.
        raise UnknownNodeError("Assign")
    array = node.get("Array")
    elements: tuple[Word, ...] | None = None
    index = _arithmetic(node.get("Index"))
    if array is not None:
        elements = _words([e["Value"] for e in array.get("Elems") or () if e.get("Value")])
        for element in array.get("Elems") or ():
            index += _arithmetic(element.get("Index"))
    value = node.get("Value")
    return Assignment(
        name,
        bool(node.get("Append")),
        None if value is None else _word(value),
        elements,
        index,
        _at(node, "Pos"),
        _at(node, "End"),
    )


def _call(node: Node) -> Command:
    assignments = tuple(_assignment(assign) for assign in node.get("Assigns") or ())
    return Simple(assignments, _words(node.get("Args")))


def _literal_word(node: Node) -> Word:
    return Word((Literal(node["Value"]),), _at(node, "Pos"), _at(node, "End"))


def _declaration(node: Node) -> Command:
    words = [_literal_word(node["Variant"])]
    assignments = []
    for argument in node.get("Args") or ():
        if argument.get("Naked"):
            named = argument.get("Value") is None
            words.append(_literal_word(argument["Name"]) if named else _word(argument["Value"]))
        else:
            assignments.append(_assignment(argument))
    return Simple(tuple(assignments), tuple(words), declaration=True)


def _binary(node: Node) -> Command:
    left, right = _statement(node["X"]), _statement(node["Y"])
    match node["Op"]:
        case "&&" | "||":
            return AndOr(left, right, node["Op"] == "||")
        case "|" | "|&":
            return Pipeline((*_stages(left), *_stages(right)))
        case operator:
            raise UnknownNodeError(operator)


def _stages(statement: Statement) -> tuple[Statement, ...]:
    if isinstance(statement.command, Pipeline) and not statement.redirects:
        return statement.command.stages
    return (statement,)


def _if(node: Node) -> Command:
    other = node.get("Else")
    otherwise: tuple[Statement, ...] = ()
    if other is not None and other.get("Cond"):
        place = _at(other, "Pos"), _at(other, "End")
        otherwise = (Statement(_if(other), (), False, *place),)
    elif other is not None:
        otherwise = _statements(other.get("Then"))
    return If(_statements(node.get("Cond")), _statements(node.get("Then")), otherwise)


def _for(node: Node) -> Command:
    loop = node["Loop"]
    body = _statements(node.get("Do"))
    if loop["Type"] == "WordIter":
        items = _words(loop.get("Items"))
        return For(loop["Name"]["Value"], items or None, (), body)
    if loop["Type"] == "CStyleLoop":
        words = tuple(w for key in ("Init", "Cond", "Post") for w in _arithmetic(loop.get(key)))
        return For(None, (), words, body)
    raise UnknownNodeError(loop["Type"])


def _case(node: Node) -> Command:
    arms = tuple(
        Arm(_words(item.get("Patterns")), _statements(item.get("Stmts")))
        for item in node.get("Items") or ()
    )
    return Case(_word(node["Word"]), arms)


_NUMERIC_TESTS: Final = frozenset({"-eq", "-ne", "-le", "-ge", "-lt", "-gt"})


def _test(node: Node) -> Command:
    words: list[Word] = []
    names: list[Word] = []
    _test_words(node["X"], words, names)
    return Test(tuple(words), tuple(names))


def _test_words(node: Node, words: list[Word], names: list[Word]) -> None:
    match node["Type"]:
        case "Word":
            words.append(_word(node))
        case "ParenTest":
            _test_words(node["X"], words, names)
        case "UnaryTest":
            start = len(words)
            _test_words(node["X"], words, names)
            if node["Op"] in ("-v", "-R"):
                names.extend(words[start:])
        case "BinaryTest":
            start = len(words)
            _test_words(node["X"], words, names)
            _test_words(node["Y"], words, names)
            if node["Op"] in _NUMERIC_TESTS:
                names.extend(words[start:])
        case kind:
            raise UnknownNodeError(kind)


def _function(node: Node) -> Command:
    name = node.get("Name")
    if name is None:
        raise UnknownNodeError("FuncDecl")
    return Function(name["Value"], _statement(node["Body"]))


def _timed(node: Node) -> Command:
    inner = node.get("Stmt")
    return Timed(None if inner is None else _statement(inner))


_COMMANDS: Final[dict[str, Callable[[Node], Command]]] = {
    "CallExpr": _call,
    "DeclClause": _declaration,
    "BinaryCmd": _binary,
    "Subshell": lambda node: Group(_statements(node.get("Stmts")), True),
    "Block": lambda node: Group(_statements(node.get("Stmts")), False),
    "IfClause": _if,
    "WhileClause": lambda node: While(_statements(node["Cond"]), _statements(node.get("Do"))),
    "ForClause": _for,
    "CaseClause": _case,
    "FuncDecl": _function,
    "ArithmCmd": lambda node: Evaluation(_arithmetic(node.get("X"))),
    "LetClause": lambda node: Evaluation(tuple(w for e in node["Exprs"] for w in _arithmetic(e))),
    "TestClause": _test,
    "TimeClause": _timed,
    "CoprocClause": lambda node: Coprocess(_statement(node["Stmt"])),
}


def _command(node: Node) -> Command:
    reader = _COMMANDS.get(node["Type"])
    if reader is None:
        raise UnknownNodeError(node["Type"])
    return reader(node)
