r"""Text for a human's terminal: what could steer the terminal is shown, not sent.

Escaped: C0 controls except newline and tab, DEL, the C1 controls, line and paragraph separators,
and the bidirectional and other invisible formatting characters that make text look like other
text. Bytes that are not UTF-8 are shown as ``\xNN``, so 8-bit CSI, OSC and DCS do not get through
either. With ESC shown as ``\x1b`` no sequence is left, whatever its kind (CSI, OSC 0/8/52, DCS,
APC): none needs to be understood.

A carriage return is passed only as part of ``\r\n``. Alone it would let a line overwrite what
stands before it; it is shown as ``\r``.
"""

from __future__ import annotations

import codecs
import re
from typing import Final

_UNSAFE: Final = re.compile(
    "[\x00-\x08\x0b-\x0c\x0e-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]|\r(?!\n)"
)
_BYTE: Final = 0x100
_BASIC_PLANE: Final = 0x10000


def escape(text: str) -> str:
    """Return ``text`` with everything that could steer a terminal shown instead."""
    return _UNSAFE.sub(_shown, text)


class TerminalEscaper:
    """Escapes a stream of bytes. Any way of cutting it into pieces gives the same text."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        self._held = ""

    def feed(self, data: bytes) -> str:
        r"""Return what can be shown now. A last ``\r`` or unfinished character waits."""
        return self._pass(self._decoder.decode(data))

    def finish(self) -> str:
        """Return what waited; nothing more comes."""
        return self._pass(self._decoder.decode(b"", final=True)) + escape(self._held)

    def _pass(self, text: str) -> str:
        text = self._held + text
        self._held = "\r" if text.endswith("\r") else ""
        return escape(text[: len(text) - len(self._held)])


def _shown(found: re.Match[str]) -> str:
    character = found[0]
    if character == "\r":
        return r"\r"
    code = ord(character)
    if code < _BYTE:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < _BASIC_PLANE else f"\\U{code:08x}"
