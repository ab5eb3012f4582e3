"""Taking a terminal's control sequences out of text.

Grammar after ECMA-48 and what xterm accepts: CSI, the string sequences (OSC, DCS, SOS, PM, APC;
ended by BEL or ST) and the two- and three-byte escapes. A sequence longer than its bound is none:
only its ESC is taken out, so that a lone ESC in binary output cannot swallow what follows.
"""

from __future__ import annotations

import re
from typing import Final

ESC: Final = b"\x1b"
_CSI: Final = rb"\[[ -?]{0,64}"
_STRING: Final = rb"[\]PX^_][^\x07\x1b]{0,4096}"
_SHORT: Final = rb"[ -/]{1,8}"
_SEQUENCE: Final = re.compile(
    rb"\x1b(?:" + _CSI + rb"[@-~]|" + _STRING + rb"(?:\x07|\x1b\\)|" + _SHORT + rb"[0-~]"
    rb"|[0-OQ-WYZ\\`-~])?"
)
_BEGUN: Final = re.compile(rb"\x1b(?:" + _CSI + rb"|" + _STRING + rb"\x1b?|" + _SHORT + rb")?\Z")


class AnsiStripper:
    """Removes control sequences from a stream. Any way of cutting it gives the same bytes."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """Return the text that is sure. An unfinished sequence (up to 4 KiB) waits."""
        if self._held:
            data = self._held + data
            self._held = b""
        if ESC not in data:
            return data
        begun = _begun(data)
        self._held = data[begun:]
        return _SEQUENCE.sub(b"", data[:begun])

    def finish(self) -> bytes:
        """Return what waited, as text; nothing more comes."""
        held, self._held = self._held, b""
        return _SEQUENCE.sub(b"", held)


def _begun(data: bytes) -> int:
    last = data.rfind(ESC)
    # The last ESC may be the first byte of the ST that ends a string sequence.
    for start in (data.rfind(ESC, 0, last) if last > 0 else -1, last):
        if start >= 0 and _BEGUN.match(data, start):
            return start
    return len(data)
