"""What is decided about a script's text before any parser sees it."""

from __future__ import annotations

import re
from typing import Final

from sandboxrun.screening.limits import NESTING, STRUCTURE_BYTES

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_INVISIBLE: Final = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff]"
)
PRIVATE: Final = re.compile("[\ue000-\uf8ff]")
"""The code points this package uses as marks; a command's own are replaced."""


_BROKEN: Final = re.compile("[\ud800-\udfff]")


def encoded(text: str) -> bytes:
    """Return the bytes of a script; what was not UTF-8 is what it was."""
    return text.encode("utf-8", "surrogateescape")


def readable(text: str) -> str:
    """Return ``text`` for the parsers, byte for byte as long: spans stay where they are.

    Bytes that are not UTF-8 become a character that is only ever part of a word, and the code
    points used as marks become the one for what cannot be shown.
    """
    if text.isascii():
        return text
    return _BROKEN.sub("%", PRIVATE.sub("\ufffd", text))


def text_codes(text: str) -> list[tuple[str, int, int]]:
    """Return findings about single characters: code, start and end in characters."""
    found = []
    if not text.isascii():
        if broken := _BROKEN.search(text):
            found.append(("text.encoding", *broken.span()))
        if invisible := _INVISIBLE.search(text):
            found.append(("text.invisible", *invisible.span()))
        if private := PRIVATE.search(text):
            found.append(("text.private", *private.span()))
    if control := _CONTROL.search(text):
        found.append(("text.control", *control.span()))
    return found


_HEREDOC: Final = re.compile(r"<<-?[ \t]*(?:'([^'\n]+)'|\"([^\"\n$`\\]+)\"|\\(\w+))[^\n]*\n")
_CONSTANT: Final = re.compile(r"'[^']*'|\"[^\"$`\\]*\"|[\w./:=@%+,-]{64,}")


def structure_of(text: str) -> str:
    """Return a long ``text`` without its constants; a short one as it is.

    Constants are quoted here-documents, quotes in which nothing is expanded and very long bare
    words. Only for gates: what they let through is still bounded by the parsers' deadlines.
    """
    if len(text) <= STRUCTURE_BYTES:
        return text
    kept = []
    at = 0
    while opening := _HEREDOC.search(text, at):
        delimiter = next(group for group in opening.groups() if group is not None)
        kept.append(text[at : opening.end()])
        closing = re.compile(rf"^\t*{re.escape(delimiter)}$", re.MULTILINE).search(
            text, opening.end()
        )
        if closing is None or len(kept) > _MOST_HEREDOCS:
            return text
        at = closing.start()
    kept.append(text[at:])
    return _CONSTANT.sub("''", "".join(kept))


_MOST_HEREDOCS: Final = 256
_BRACKETS: Final = re.compile(r"[({\[)}\]]")


def too_deep(structure: str) -> bool:
    """Tell whether the text could nest deeper than `NESTING`, counting brackets in quotes too."""
    if len(structure) <= NESTING:
        return False
    depth = 0
    for match in _BRACKETS.finditer(_CONSTANT.sub("''", structure)):
        if match[0] in ")}]":
            depth = depth - 1 if depth else 0
        else:
            depth += 1
            if depth > NESTING:
                return True
    return False
