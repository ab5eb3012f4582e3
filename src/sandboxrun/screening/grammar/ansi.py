"""Backslash escapes of ``$'…'``, ``echo -e`` and ``printf``."""

from __future__ import annotations

import re
from typing import Final

_ESCAPE: Final = re.compile(
    r"\\(?:([0-7]{1,3})|x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|c(.)|(.))",
    re.DOTALL,
)
_SINGLE: Final = {
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "E": "\x1b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\\": "\\",
    "'": "'",
    '"': '"',
    "?": "?",
}
_LAST_CODE_POINT: Final = 0x10FFFF


def _character(code: int) -> str:
    return chr(code) if code <= _LAST_CODE_POINT else "\ufffd"


def _resolve(match: re.Match[str]) -> str:
    octal, hexadecimal, short, long, control, single = match.groups()
    if octal is not None:
        return chr(int(octal, 8) & 0xFF)
    for digits in (hexadecimal, short, long):
        if digits is not None:
            return _character(int(digits, 16))
    if control is not None:
        return chr(ord(control) & 0x1F)
    return _SINGLE.get(single, "\\" + single)


def unescape(text: str) -> str:
    """Resolve the escapes of ``$'…'`` in ``text``. Bash ends such a string at a NUL; so do we."""
    return _ESCAPE.sub(_resolve, text).partition("\0")[0]


_ZERO_OCTAL: Final = re.compile(r"\\0([0-7]{1,3})")


def unescape_echo(text: str) -> str:
    r"""Resolve the escapes of ``echo -e`` and ``printf %b``, where octal is ``\0nnn``."""
    return unescape(_ZERO_OCTAL.sub(r"\\\1", text))
