"""Values as text with marks.

A value is a string in which private-use characters stand for what is not a plain character:
an active glob, an unknown rest, text from the network. Everything that reads values asks here.
"""

from __future__ import annotations

import re
from typing import Final

STAR: Final = "\ue001"
ONE: Final = "\ue002"
OPEN: Final = "\ue003"
CLOSE: Final = "\ue004"
BRACE: Final = "\ue005"
COMMA: Final = "\ue006"
BRACE_END: Final = "\ue007"
SPLIT: Final = "\ue008"
"""A place where an unquoted value is split into words."""
BREAK: Final = "\ue009"
"""A place where ``"$@"`` begins another word."""
EMPTY: Final = "\ue00a"
"""Quotes were here: the word exists even when nothing else is in it."""
UNKNOWN: Final = "\ue00b"
"""Text known only when the command runs."""
SPLAT: Final = "\ue00c"
"""The same, unquoted: any number of words."""
NETWORK: Final = "\ue00d"
"""Text that comes from the network."""
DECODED: Final = "\ue00e"
"""Text that a decoder made."""
OPAQUE: Final = "\ue00f"
"""A number or a name without separators, such as ``$$`` or the end of mktemp's path."""
HOME: Final = "\ue010"
"""The home directory, as a component below the root."""
PROCESS: Final = "\ue100"
"""The first of the numbers that stand for process substitutions."""
PROCESS_END: Final = "\uf000"

SHELL: Final = "\ue011"
"""What a shell prints that takes its orders from a stream."""

HOME_PATH: Final = "/" + HOME
GLOBS: Final = STAR + ONE + OPEN + CLOSE
_UNRESOLVED: Final = re.compile(f"[{UNKNOWN}{SPLAT}{NETWORK}{DECODED}]")
_DYNAMIC: Final = re.compile(
    f"[{UNKNOWN}{SPLAT}{NETWORK}{DECODED}{SHELL}{OPAQUE}{GLOBS}\ue100-\uf8ff]"
)
_GLOB: Final = re.compile(f"[{GLOBS}]")
_ANY: Final = re.compile("[\ue000-\uf8ff]")
_TO_GLOB: Final = str.maketrans(
    {STAR: "*", ONE: "?", OPEN: "[", CLOSE: "]", BRACE: "{", COMMA: ",", BRACE_END: "}"}
)
_ACTIVE: Final = str.maketrans({"*": STAR, "?": ONE, "[": OPEN, "]": CLOSE})


def is_static(text: str) -> bool:
    """Tell whether the value is one known string (home counts as known)."""
    return text.isascii() or not _DYNAMIC.search(text)


def is_unresolved(text: str) -> bool:
    """Tell whether some of the value could be anything."""
    return not text.isascii() and _UNRESOLVED.search(text) is not None


def has_glob(text: str) -> bool:
    """Tell whether an active glob is in the value."""
    return not text.isascii() and _GLOB.search(text) is not None


def activate(text: str) -> str:
    """Return an unquoted value: its glob characters match file names."""
    return text.translate(_ACTIVE)


def plain(text: str) -> str:
    """Return the value as text again: globs and braces as characters, other marks kept."""
    if text.isascii() or not _ANY.search(text):
        return text
    return text.translate(_TO_GLOB)


def shown(text: str) -> str | None:
    """Return the value for people, or None where nothing of it is known."""
    if text.isascii():
        return text
    text = plain(text).replace(HOME_PATH, "~").replace(OPAQUE, "…")
    if _ANY.fullmatch(text):
        return None
    return _ANY.sub("…", text)


def taint(*texts: str | None) -> str:
    """Return the marks of where text comes from that any of ``texts`` carries."""
    joined = "".join(text for text in texts if text)
    return "".join(mark for mark in (NETWORK, DECODED, SHELL) if mark in joined)
