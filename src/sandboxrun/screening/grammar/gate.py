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


def text_codes(text: str) -> list[tuple[str, int, int]]:
    """Return findings about single characters: code, start and end in characters."""
    found = []
    if not text.isascii():
        if invisible := _INVISIBLE.search(text):
            found.append(("text.invisible", *invisible.span()))
        if private := PRIVATE.search(text):
            found.append(("text.private", *private.span()))
    if control := _CONTROL.search(text):
        found.append(("text.control", *control.span()))
    return found


_HEREDOC: Final = re.compile(r"<<-?[ \t]*(?:'([^'\n]+)'|\"([^\"\n$`\\]+)\"|\\(\w+))[^\n]*\n")
_CONSTANT: Final = re.compile(r"'[^']*'|\"[^\"$`\\]*\"|[\w./:=@%+,-]{64,}")


def structure_bytes(text: str) -> int:
    """Return about how many characters lie outside constant text.

    Constant text is a quoted here-document, a quoted constant or a very long bare word. Only a
    gate: what it lets through is still bounded by the parsers' deadlines.
    """
    if len(text) <= STRUCTURE_BYTES:
        return len(text)
    kept = []
    at = 0
    while opening := _HEREDOC.search(text, at):
        delimiter = next(group for group in opening.groups() if group is not None)
        kept.append(text[at : opening.end()])
        closing = re.compile(rf"^\t*{re.escape(delimiter)}$", re.MULTILINE).search(
            text, opening.end()
        )
        if closing is None:
            return len(text)
        at = closing.start()
        if len(kept) > _MOST_HEREDOCS:
            return len(text)
    kept.append(text[at:])
    return len(_CONSTANT.sub("''", "".join(kept)))


_MOST_HEREDOCS: Final = 256
_BRACKETS: Final = re.compile(r"[({\[]|[)}\]]|\b(?:if|while|until|for|case|do)\b")


def too_deep(text: str) -> bool:
    """Tell whether the text could nest deeper than `NESTING`, counting brackets in quotes too."""
    if len(text) <= NESTING:
        return False
    depth = 0
    for match in _BRACKETS.finditer(_CONSTANT.sub("''", text)):
        if match[0] in ")}]":
            depth = max(0, depth - 1)
        elif match[0] in "({[":
            depth += 1
            if depth > NESTING:
                return True
    return False
