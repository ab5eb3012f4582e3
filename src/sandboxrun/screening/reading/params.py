"""What ``${name…}`` makes of a known value."""

from __future__ import annotations

import re
from fnmatch import translate
from typing import Final

from sandboxrun.screening.reading.marks import UNKNOWN, is_static, plain, taint

_NUMBER: Final = re.compile(r"\s*-?\d{1,9}\s*")


def _unknown(*texts: str) -> str:
    return UNKNOWN + taint(*texts)


def _pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(translate(plain(pattern)))


def remove(value: str, operator: str, pattern: str) -> str:
    """Return ``value`` without the prefix (``#``, ``##``) or suffix (``%``, ``%%``)."""
    if not is_static(value) or not is_static(plain(pattern)):
        return _unknown(value)
    matcher = _pattern(pattern)
    places = range(len(value) + 1)
    from_start = operator[0] == "#"
    longest = len(operator) > 1
    # A prefix grows to the right, a suffix to the left.
    order = places if from_start != longest else reversed(places)
    for place in order:
        part = value[:place] if from_start else value[place:]
        if matcher.match(part):
            return value[place:] if from_start else value[:place]
    return value


def replace(value: str, operator: str, pattern: str, replacement: str) -> str:
    """Return ``value`` with the first match (``/``) or every match (``//``) replaced."""
    if not (is_static(value) and is_static(plain(pattern)) and is_static(plain(replacement))):
        return _unknown(value, replacement)
    pattern, replacement = plain(pattern), plain(replacement)
    if not re.search(r"[*?\[\\#%]", pattern):
        return value.replace(pattern, replacement, -1 if operator == "//" else 1)
    if pattern[:1] == "#":
        rest = remove(value, "#", pattern[1:])
        return replacement + rest if rest != value else value
    if pattern[:1] == "%":
        rest = remove(value, "%", pattern[1:])
        return rest + replacement if rest != value else value
    found = re.compile(translate(pattern)[:-2]).search(value)
    if found is None:
        return value
    return _unknown(value) if operator == "//" else _spliced(value, found, replacement)


def _spliced(value: str, found: re.Match[str], replacement: str) -> str:
    return value[: found.start()] + replacement + value[found.end() :]


def substring(value: str, offset: str, length: str | None) -> str:
    """Return the slice; bounds that are not plain numbers make it unknown."""
    if not (is_static(value) and _NUMBER.fullmatch(offset)):
        return _unknown(value)
    start = int(offset)
    start = max(0, len(value) + start) if start < 0 else start
    if length is None:
        return value[start:]
    if not _NUMBER.fullmatch(length):
        return _unknown(value)
    count = int(length)
    return value[start:count] if count < 0 else value[start : start + count]


def change_case(value: str, operator: str) -> str:
    """Return the value in the case that ``^ ^^ , ,,`` or ``@U @u @L`` ask for."""
    if not is_static(value):
        return _unknown(value)
    match operator:
        case "^^" | "@U":
            return value.upper()
        case ",," | "@L":
            return value.lower()
        case "^" | "@u":
            return value[:1].upper() + value[1:]
        case ",":
            return value[:1].lower() + value[1:]
        case _:
            return value
