"""Words to fields: quoting, braces, tilde, parameters, substitutions, splitting.

The order is bash's. A word has alternatives where a variable in it has; every alternative is a
list of fields. What cannot be known becomes a mark, never a guess.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple, Protocol

from sandboxrun.screening.grammar.tree import (
    Arithmetic,
    Double,
    Extended,
    Literal,
    Parameter,
    Part,
    Process,
    Quoted,
    Statement,
    Substitution,
    Word,
)
from sandboxrun.screening.limits import ALTERNATIVES, FIELDS, VALUE_CHARACTERS
from sandboxrun.screening.reading import marks
from sandboxrun.screening.reading.braces import TooManyFieldsError, expand_braces
from sandboxrun.screening.reading.parameters import parameter_values
from sandboxrun.screening.reading.scope import Scope


class Arg(NamedTuple):
    """One field of a command, with the bytes it comes from."""

    text: str
    start: int
    end: int


class Reader(Protocol):
    """What expansion needs from the walk over the statements."""

    def substitute(self, statements: tuple[Statement, ...], scope: Scope) -> str:
        """Read a command substitution and return what it prints."""
        ...

    def process(self, part: Process, scope: Scope) -> str:
        """Read a process substitution and return its path."""
        ...

    def prompt(self, text: str, start: int, end: int, scope: Scope) -> None:
        """Read text that is expanded once more."""
        ...


_SPECIAL: Final = re.compile(r"[\\*?\[\]{},~]")
_BACKSLASH: Final = re.compile(r"\\(\n|.)?", re.DOTALL)
_IN_DOUBLE: Final = re.compile(r"\\([$`\"\\\n])")
_IN_HEREDOC: Final = re.compile(r"\\([$`\\\n])")
_UNQUOTED: Final = str.maketrans(
    {
        "*": marks.STAR,
        "?": marks.ONE,
        "[": marks.OPEN,
        "]": marks.CLOSE,
        "{": marks.BRACE,
        ",": marks.COMMA,
        "}": marks.BRACE_END,
    }
)
_TILDE: Final = re.compile(r"~([A-Za-z_][\w-]*|\+|-)?(?=/|:|$)")


def _unescape(text: str, pattern: re.Pattern[str]) -> str:
    return pattern.sub(lambda match: "" if match[1] == "\n" else match[1], text)


def _literal(text: str) -> str:
    """Return unquoted text with its active characters marked and its backslashes resolved."""
    if not _SPECIAL.search(text):
        return text
    if "\\" not in text:
        return text.translate(_UNQUOTED)
    pieces = []
    at = 0
    for match in _BACKSLASH.finditer(text):
        pieces.append(text[at : match.start()].translate(_UNQUOTED))
        character = match[1]
        if character is None:
            pieces.append("\\")
        elif character != "\n":
            pieces.append(character + marks.EMPTY)
        at = match.end()
    pieces.append(text[at:].translate(_UNQUOTED))
    return "".join(pieces)


def _tilde(text: str, scope: Scope) -> str:
    match = _TILDE.match(text)
    if match is None:
        return text
    user = match[1]
    if user == "+":
        return scope.directories()[0] + text[match.end() :]
    if user == "-":
        return marks.UNKNOWN + text[match.end() :]
    home = scope.lookup("HOME")[0] if user is None else marks.HOME_PATH
    return home + text[match.end() :]


_ASSIGNMENT_LIKE: Final = re.compile(r"([A-Za-z_]\w*=)(~.*)", re.DOTALL)


def _tilded(text: str, scope: Scope) -> str:
    if text.startswith("~"):
        return _tilde(text, scope)
    match = _ASSIGNMENT_LIKE.fullmatch(text)
    return text if match is None else match[1] + _tilde(match[2], scope)


class Expander:
    """Expands the words of one scope; substitutions go back to the walk."""

    def __init__(self, scope: Scope, reader: Reader) -> None:
        self.scope = scope
        self.reader = reader

    def fields(self, word: Word) -> list[list[Arg]]:
        """Return the alternatives of ``word``, each as its fields."""
        if len(word.parts) == 1:
            only = word.parts[0]
            if isinstance(only, Quoted):
                return [[Arg(_bounded(only.text), word.start, word.end)]]
            if isinstance(only, Literal) and (
                only.text in ("[", "]", "{}") or not _SPECIAL.search(only.text)
            ):
                return [[Arg(_bounded(only.text), word.start, word.end)]]
        return [self._split(text, word) for text in self.encoded(word)]

    def _split(self, text: str, word: Word) -> list[Arg]:
        try:
            words = expand_braces(text)
        except TooManyFieldsError:
            words = [marks.SPLAT]
        found = [
            Arg(soft.replace(marks.EMPTY, ""), word.start, word.end)
            for piece in words
            for hard in piece.split(marks.BREAK)
            for soft in hard.split(marks.SPLIT)
            if soft
        ]
        return found if len(found) <= FIELDS else [Arg(marks.SPLAT, word.start, word.end)]

    def value(self, word: Word | None) -> tuple[str, ...]:
        """Return what an assignment of ``word`` stores: no braces, no splitting."""
        if word is None:
            return ("",)
        return tuple(dict.fromkeys(unsplit(text) for text in self.encoded(word)))

    def document(self, word: Word) -> str:
        """Return the text of a here-document."""
        texts = self._product(word.parts, word, quoted=True, escapes=_IN_HEREDOC)
        return "".join(unsplit(text) for text in texts)

    def visit(self, words: Iterable[Word]) -> None:
        """Read ``words`` only for what they execute."""
        for word in words:
            self.encoded(word)

    def encoded(self, word: Word) -> list[str]:
        """Return the alternatives of ``word`` before braces and splitting."""
        return self._product(word.parts, word, quoted=False, escapes=_IN_DOUBLE)

    def _product(
        self, parts: tuple[Part, ...], word: Word, *, quoted: bool, escapes: re.Pattern[str]
    ) -> list[str]:
        texts = [""]
        for place, part in enumerate(parts):
            options = self._part(part, word, quoted=quoted, escapes=escapes)
            if place == 0 and not quoted and isinstance(part, Literal) and "~" in part.text:
                options = [_tilded(option, self.scope) for option in options]
            texts = [text + option for text in texts for option in options]
            if len(texts) > ALTERNATIVES:
                rest = marks.UNKNOWN + marks.taint(*texts)
                texts = [*texts[: ALTERNATIVES - 1], rest]
        return [_bounded(text) for text in texts]

    def _part(self, part: Part, word: Word, *, quoted: bool, escapes: re.Pattern[str]) -> list[str]:
        match part:
            case Literal(text):
                return [_unescape(text, escapes) if quoted else _literal(text)]
            case Quoted(text):
                return [text + marks.EMPTY]
            case Double(inner):
                texts = self._product(inner, word, quoted=True, escapes=_IN_DOUBLE)
                lone = len(inner) == 1 and isinstance(inner[0], Parameter)
                # "$@" without parameters is no word at all.
                return [
                    t + marks.EMPTY if t or not lone or not _many(inner[0]) else t for t in texts
                ]
            case Parameter():
                values = parameter_values(part, self, word, quoted=quoted)
                return [value if quoted else self._unquoted(value) for value in values]
            case Substitution(statements):
                value = self.reader.substitute(statements, self.scope).rstrip("\n")
                return [value if quoted else self._unquoted(value)]
            case Process():
                return [self.reader.process(part, self.scope)]
            case Arithmetic(words):
                self.arithmetic(words)
                return [marks.OPAQUE]
            case Extended(text):
                return [marks.STAR if "(" in text else text]

    def _unquoted(self, value: str) -> str:
        """Return an unquoted value: split at IFS, its globs active, unknowns any number of words."""
        if value.isascii() and value.isalnum():
            return value
        value = value.replace(marks.BREAK, marks.SPLIT).replace(marks.UNKNOWN, marks.SPLAT)
        for character in self.scope.lookup("IFS")[0]:
            value = value.replace(character, marks.SPLIT)
        return marks.activate(value)

    def arithmetic(self, words: Iterable[Word]) -> None:
        """Read the words of an arithmetic expression: names in it are evaluated again."""
        for word in words:
            for text in self.encoded(word):
                self._evaluated(unsplit(text), word)

    def _evaluated(self, text: str, word: Word) -> None:
        self.reader.prompt(text, word.start, word.end, self.scope)
        for name in _NAMES.findall(text):
            for value in self.scope.variables.get(name, ()):
                if "$(" in value or "`" in value:
                    self.reader.prompt(value, word.start, word.end, self.scope)


_NAMES: Final = re.compile(r"[A-Za-z_]\w*")


def _many(part: Part) -> bool:
    return isinstance(part, Parameter) and (part.name == "@" or bool(part.subscript))


def unsplit(text: str) -> str:
    """Return a value as one string: its split points are blanks again."""
    if text.isascii():
        return text
    text = marks.plain(text).replace(marks.EMPTY, "")
    return (
        text.replace(marks.SPLIT, " ").replace(marks.BREAK, " ").replace(marks.SPLAT, marks.UNKNOWN)
    )


def _bounded(text: str) -> str:
    return text if len(text) <= VALUE_CHARACTERS else marks.UNKNOWN + marks.taint(text)
