"""The fast path: one line of plain commands, read without a parser process.

It reads words, quotes, simple parameters, ``&& || ; |`` and plain redirections, and declines
(None) everything else, so that what it does read means the same to every shell parser. The
suite compares its trees with the slow parser's.
"""

from __future__ import annotations

import re
from typing import Final

from sandboxrun.screening.grammar.tree import (
    AndOr,
    Assignment,
    Double,
    Literal,
    Parameter,
    Part,
    Pipeline,
    Quoted,
    Redirect,
    Simple,
    Statement,
    Word,
)
from sandboxrun.screening.limits import PLAIN_CHARACTERS

_DECLINED_WORDS: Final = frozenset(
    "if then elif else fi while until for select do done case esac in function time coproc {"
    " } ! [[ ]] declare local export readonly typeset nameref let".split()
)
_DECLINED: Final = re.compile(r"[\n\r\0`()]|\$['\"(\[]|<<|(?<![<>&])&(?![&>])|&>>|;;|\|&|>\||<>")
_PARAMETER: Final = r"\$(?:[A-Za-z_][A-Za-z0-9_]*|\{[A-Za-z_][A-Za-z0-9_]*\}|[0-9?#$!@*-])"
_PIECE: Final = re.compile(
    r"(?P<bare>(?:[A-Za-z0-9_./:=@%+,^~*?\-\[\]{}!]|(?<=[^\s;&|<>])\#|\\[^\n])+)"
    r"|(?P<single>'[^']*')"
    rf'|(?P<double>"(?:[^"$`\\]|{_PARAMETER})*")'
    rf"|(?P<parameter>{_PARAMETER})"
)
_INSIDE: Final = re.compile(_PARAMETER)
_REDIRECT: Final = re.compile(r"(\d*)(>>|>&|<&|>|<)|(&>)")
_OPERATOR: Final = re.compile(r"&&|\|\||;|\|")
_BLANK: Final = re.compile(r"[ \t]*")
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=")
_SUBSCRIPT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\[")


class _DeclinedError(Exception):
    """The text is not plain."""


def read_plain(text: str) -> tuple[Statement, ...] | None:
    """Return the statements of ``text``, or None where it is not plain."""
    if len(text) > PLAIN_CHARACTERS or not text.isascii():
        return None
    body = text.rstrip("\n")
    if _DECLINED.search(_without_constants(body)):
        return None
    try:
        return _Reader(body).statements()
    except _DeclinedError:
        return None


_CONSTANT: Final = re.compile(r"\\.|\"[^\"$`\\\n]*\"|\"[^\"]*\"|'[^'\n]*'", re.DOTALL)
_EXPANDS: Final = re.compile(r"[$`\\\n]")


def _emptied(match: re.Match[str]) -> str:
    text = match[0]
    if text[0] == "\\" or (text[0] == '"' and _EXPANDS.search(text)):
        return text
    return "''"


def _without_constants(text: str) -> str:
    """Empty the quotes in which nothing is expanded, so that their text declines nothing."""
    return _CONSTANT.sub(_emptied, text)


def _parameter(text: str) -> Parameter:
    return Parameter(text[1:].strip("{}"))


def _inside_double(text: str) -> tuple[Part, ...]:
    parts: list[Part] = []
    at = 0
    for match in _INSIDE.finditer(text):
        if match.start() > at:
            parts.append(Literal(text[at : match.start()]))
        parts.append(_parameter(match[0]))
        at = match.end()
    if at < len(text):
        parts.append(Literal(text[at:]))
    return tuple(parts)


class _Reader:
    """A cursor over one line."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def statements(self) -> tuple[Statement, ...]:
        found: list[Statement] = []
        self._skip()
        while self._at < len(self._text):
            found.append(self._and_or())
            if self._take(";") or self._at >= len(self._text):
                continue
            raise _DeclinedError
        return tuple(found)

    def _skip(self) -> None:
        blank = _BLANK.match(self._text, self._at)
        self._at = self._at if blank is None else blank.end()
        if self._text.startswith("#", self._at):
            self._at = len(self._text)

    def _take(self, operator: str) -> bool:
        match = _OPERATOR.match(self._text, self._at)
        if match is None or match[0] != operator:
            return False
        self._at = match.end()
        self._skip()
        return True

    def _and_or(self) -> Statement:
        left = self._pipeline()
        while (both := self._take("&&")) or self._take("||"):
            right = self._pipeline()
            left = Statement(AndOr(left, right, not both), (), False, left.start, right.end)
        return left

    def _pipeline(self) -> Statement:
        stages = [self._simple()]
        while self._take("|"):
            stages.append(self._simple())
        if len(stages) == 1:
            return stages[0]
        return Statement(Pipeline(tuple(stages)), (), False, stages[0].start, stages[-1].end)

    def _simple(self) -> Statement:
        start = self._at
        assignments: list[Assignment] = []
        words: list[Word] = []
        redirects: list[Redirect] = []
        while self._at < len(self._text) and not _OPERATOR.match(self._text, self._at):
            redirect = _REDIRECT.match(self._text, self._at)
            if redirect is not None:
                redirects.append(self._redirect(redirect))
            else:
                word = self._word()
                assignment = None if words else _assignment(word)
                if assignment is None:
                    words.append(word)
                else:
                    assignments.append(assignment)
            self._skip()
        if not words and not assignments:
            raise _DeclinedError
        if words and _declined(words[0]):
            raise _DeclinedError
        ends = [a.end for a in assignments] + [w.end for w in words] + [r.end for r in redirects]
        simple = Simple(tuple(assignments), tuple(words))
        return Statement(simple, tuple(redirects), False, start, max(ends))

    def _redirect(self, match: re.Match[str]) -> Redirect:
        start = self._at
        self._at = match.end()
        self._skip()
        target = self._word()
        operator = match[2] or match[3]
        return Redirect(operator, match[1] or None, target, None, start, target.end)

    def _word(self) -> Word:
        start = self._at
        parts: list[Part] = []
        while match := _PIECE.match(self._text, self._at):
            self._at = match.end()
            match match.lastgroup:
                case "bare":
                    parts.append(Literal(match[0]))
                case "single":
                    parts.append(Quoted(match[0][1:-1]))
                case "double":
                    parts.append(Double(_inside_double(match[0][1:-1])))
                case _:
                    parts.append(_parameter(match[0]))
        following = self._text[self._at : self._at + 1]
        if not parts or (following and following not in " \t;&|<>"):
            raise _DeclinedError
        if following in ("<", ">") and self._text[self._at - 1] in "}0123456789":
            raise _DeclinedError
        if following == "&" and not self._text.startswith("&&", self._at):
            raise _DeclinedError
        return Word(tuple(parts), start, self._at)


def _assignment(word: Word) -> Assignment | None:
    first = word.parts[0]
    if not isinstance(first, Literal):
        return None
    if _SUBSCRIPT.match(first.text):
        raise _DeclinedError
    match = _ASSIGNMENT.match(first.text)
    if match is None:
        if "=" in first.text and "\\" in first.text:
            # The slow parser takes it for an assignment, and bash for a program's name.
            raise _DeclinedError
        return None
    rest = first.text[match.end() :]
    parts = ((Literal(rest),) if rest else ()) + word.parts[1:]
    value = Word(parts, word.start + match.end(), word.end) if parts else None
    return Assignment(match[1], bool(match[2]), value, None, (), word.start, word.end)


def _declined(word: Word) -> bool:
    first = word.parts[0]
    return len(word.parts) == 1 and isinstance(first, Literal) and first.text in _DECLINED_WORDS
