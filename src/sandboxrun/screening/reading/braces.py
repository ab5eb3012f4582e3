"""Brace expansion on values with marks."""

from __future__ import annotations

import re
from itertools import chain, pairwise
from typing import Final

from sandboxrun.screening.limits import FIELDS
from sandboxrun.screening.reading.marks import BRACE, BRACE_END, COMMA

_TO_TEXT: Final = str.maketrans({BRACE: "{", COMMA: ",", BRACE_END: "}"})
_SEQUENCE: Final = re.compile(r"(-?\d{1,9}|[A-Za-z])\.\.(-?\d{1,9}|[A-Za-z])(?:\.\.(-?\d{1,9}))?")


class TooManyFieldsError(Exception):
    """The braces make more words than are followed."""


def expand_braces(text: str) -> list[str]:
    """Return the words that ``text`` becomes. Raises `TooManyFieldsError`."""
    if BRACE not in text:
        return [text.translate(_TO_TEXT) if COMMA in text or BRACE_END in text else text]
    return [word.translate(_TO_TEXT) for word in _expand(text, 0)]


def _expand(text: str, depth: int) -> list[str]:
    start = text.find(BRACE)
    if start < 0 or depth > _DEEPEST:
        return [text]
    end, commas = _matching(text, start)
    if end < 0:
        return [text[: start + 1] + rest for rest in _expand(text[start + 1 :], depth + 1)]
    inner = text[start + 1 : end]
    middles = _middles(inner, [c - start - 1 for c in commas], depth)
    if middles is None:
        middles = [BRACE + word + BRACE_END for word in _expand(inner, depth + 1)]
    rests = _expand(text[end + 1 :], depth + 1)
    if len(middles) * len(rests) > FIELDS:
        raise TooManyFieldsError
    return [text[:start] + middle + rest for middle in middles for rest in rests]


_DEEPEST: Final = 60


def _matching(text: str, start: int) -> tuple[int, list[int]]:
    """Return where the brace at ``start`` closes (-1: nowhere) and its own commas."""
    depth = 0
    commas: list[int] = []
    for at in range(start, len(text)):
        character = text[at]
        if character == BRACE:
            depth += 1
        elif character == BRACE_END:
            depth -= 1
            if depth == 0:
                return at, commas
        elif character == COMMA and depth == 1:
            commas.append(at)
    return -1, commas


def _middles(inner: str, commas: list[int], depth: int) -> list[str] | None:
    if commas:
        cuts = [-1, *commas, len(inner)]
        items = [inner[a + 1 : b] for a, b in pairwise(cuts)]
        return list(chain.from_iterable(_expand(item, depth + 1) for item in items))
    sequence = _SEQUENCE.fullmatch(inner)
    if sequence is None:
        return None
    return _sequence(sequence[1], sequence[2], sequence[3])


def _sequence(first: str, last: str, step: str | None) -> list[str] | None:
    letters = first.isalpha()
    if letters != last.isalpha():
        return None
    low, high = (ord(first), ord(last)) if letters else (int(first), int(last))
    stride = max(1, abs(int(step))) if step is not None else 1
    if abs(high - low) // stride >= FIELDS:
        raise TooManyFieldsError
    numbers = range(low, high + 1, stride) if low <= high else range(low, high - 1, -stride)
    if letters:
        return [chr(number) for number in numbers]
    width = max(len(first), len(last)) if _padded(first) or _padded(last) else 0
    return [str(number).zfill(width) for number in numbers]


def _padded(number: str) -> bool:
    return number.lstrip("-").startswith("0") and len(number.lstrip("-")) > 1
