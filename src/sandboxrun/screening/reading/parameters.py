"""What a parameter expansion can become in a scope."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from sandboxrun.screening.grammar.tree import Literal, Parameter, Word
from sandboxrun.screening.reading import marks, params

if TYPE_CHECKING:
    from sandboxrun.screening.reading.expand import Expander

_DEFAULTS: Final = frozenset({":-", "-", ":=", "=", ":+", "+", ":?", "?"})
_REMOVALS: Final = frozenset({"#", "##", "%", "%%"})
_CASES: Final = frozenset({"^", "^^", ",", ",,"})


def parameter_values(part: Parameter, expander: Expander, word: Word, *, quoted: bool) -> list[str]:
    """Return the alternatives of ``part``, not yet split."""
    if part.subscript:
        expander.arithmetic(part.subscript)
    values = _values(part, expander, quoted=quoted)
    operator = part.operator
    if operator.startswith("!"):
        values, operator = _indirect(values, operator, expander)
    if not operator:
        return values
    if operator == "length":
        return [marks.OPAQUE]
    if operator in _DEFAULTS:
        return _default(part, operator, values, expander)
    if operator == "@":
        return _transformed(part, values, word, expander)
    return _changed(part, operator, values, expander)


def _values(part: Parameter, expander: Expander, *, quoted: bool) -> list[str]:
    scope = expander.scope
    subscript = _subscript(part)
    if part.name in ("@", "*") or subscript in ("@", "*"):
        elements = scope.elements(part.name)
        if elements is None:
            unknown = marks.UNKNOWN if quoted and part.name != "@" else marks.SPLAT
            possible = scope.possible if part.name in ("@", "*") else ()
            return [unknown, *(marks.BREAK.join(elements) for elements in possible)]
        star = part.name == "*" or subscript == "*"
        return [(" " if star and quoted else marks.BREAK).join(elements)]
    if part.subscript and part.name in scope.arrays:
        elements = scope.arrays[part.name]
        if subscript is not None and subscript.isdigit():
            place = int(subscript)
            return [elements[place] if place < len(elements) else ""]
        return [*elements] or [""]
    return list(scope.lookup(part.name))


def _subscript(part: Parameter) -> str | None:
    if len(part.subscript) == 1 and len(part.subscript[0].parts) == 1:
        only = part.subscript[0].parts[0]
        if isinstance(only, Literal):
            return only.text
    return None


def _indirect(values: list[str], operator: str, expander: Expander) -> tuple[list[str], str]:
    rest = operator[1:]
    if rest in ("@", "*"):
        return [marks.SPLAT], ""
    found: list[str] = []
    for value in values:
        found.extend(expander.scope.lookup(value) if marks.is_static(value) else (marks.UNKNOWN,))
    return found, rest


def _words(word: Word | None, expander: Expander) -> list[str]:
    if word is None or not word.parts:
        return [""]
    return expander.encoded(word)


def _default(part: Parameter, operator: str, values: list[str], expander: Expander) -> list[str]:
    words = _words(part.word, expander)
    kind = operator[-1]
    colon = operator[0] == ":"
    set_in_script = part.name in expander.scope.variables or part.name in expander.scope.arrays
    if kind == "?":
        return values
    unknown = [value for value in values if marks.is_unresolved(value)]
    known = [value for value in values if not marks.is_unresolved(value)]
    full = [value for value in known if value or not colon]
    if part.name.isdigit():
        full = [value for value in full if value]
        set_in_script = bool(full)
    replaced = bool(unknown) or len(full) < len(known) or not set_in_script
    if kind == "+":
        return [*(words if unknown or full else ()), *([""] if replaced else ())]
    if kind == "=" and replaced:
        expander.scope.assign(part.name, (*full, *unknown, *words))
    return [*full, *unknown, *(words if replaced else ())]


def _transformed(part: Parameter, values: list[str], word: Word, expander: Expander) -> list[str]:
    letter = expander.value(part.word)[0]
    if letter in ("U", "u", "L"):
        return [params.change_case(value, "@" + letter) for value in values]
    if letter == "Q":
        return values
    for value in values:
        expander.reader.prompt(
            value if marks.is_static(value) else marks.UNKNOWN + "`",
            word.start,
            word.end,
            expander.scope,
        )
    return [marks.UNKNOWN]


def _changed(part: Parameter, operator: str, values: list[str], expander: Expander) -> list[str]:
    words = [marks.plain(w).replace(marks.EMPTY, "") for w in _words(part.word, expander)]
    others = None if part.other is None else expander.value(part.other)
    change: Callable[[str, str], str]
    if operator in _REMOVALS:
        change = lambda value, word: params.remove(value, operator, word)  # noqa: E731
    elif operator in ("/", "//"):
        replacement = others[0] if others is not None else ""
        change = lambda value, word: params.replace(value, operator, word, replacement)  # noqa: E731
    elif operator == "slice":
        length = None if others is None else others[0]
        change = lambda value, word: params.substring(value, word, length)  # noqa: E731
    elif operator in _CASES:
        change = lambda value, _: params.change_case(value, operator)  # noqa: E731
    else:
        change = lambda value, _: marks.UNKNOWN + marks.taint(value)  # noqa: E731
    # A glob mark in the value is text here: the operators see the value before it is matched.
    return [change(value, word) for value in values for word in words]
