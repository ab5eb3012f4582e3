"""A known secret and the forms it may take in output.

The forms are the documented ones: plain, hexadecimal in both cases, base64 in its three
alignments and both alphabets, URL-encoded, and JSON-escaped. Compressed, encrypted, reversed or
otherwise transformed secrets are not recognised: redaction is hygiene, not a boundary.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote_from_bytes

MIN_PLAIN_BYTES: Final = 4
"""Shorter secrets are not looked for: they would hide ordinary text."""
MIN_ENCODED_BYTES: Final = 8
"""Shorter secrets are looked for in plain form only, for the same reason."""
MAX_SECRET_BYTES: Final = 2048
"""Longer secrets are looked for in pieces of this size."""
_GROUP: Final = 3
_SAFE_SETS: Final = ("", "/", "-._~", "!'()*")
"""What URL encoders leave alone besides letters and digits: strict, paths, RFC 3986, JavaScript."""


@dataclass(frozen=True, slots=True)
class Secret:
    """Bytes that shall not be shown, and the name that stands for them."""

    label: str
    """Shown instead; letters, digits and ``._-`` survive."""
    value: bytes

    @property
    def shown_label(self) -> str:
        """The label as it appears in output."""
        return re.sub(r"[^A-Za-z0-9._-]+", "-", self.label)[:64] or "secret"


def forms(value: bytes) -> frozenset[bytes]:
    """Return every form of ``value`` that is looked for; none if it is too short."""
    found: set[bytes] = set()
    for start in range(0, len(value), MAX_SECRET_BYTES):
        piece = value[start : start + MAX_SECRET_BYTES]
        if len(piece) >= MIN_PLAIN_BYTES:
            found.add(piece)
        if len(piece) >= MIN_ENCODED_BYTES:
            found.update(_encoded(piece))
    return frozenset(found)


def _encoded(value: bytes) -> Iterator[bytes]:
    yield value.hex().encode()
    yield value.hex().upper().encode()
    for shift in range(_GROUP):
        aligned = _base64_core(value, shift)
        yield aligned
        yield aligned.translate(bytes.maketrans(b"+/", b"-_"))
    for safe in _SAFE_SETS:
        quoted = quote_from_bytes(value, safe=safe)
        for form in (quoted, quoted.replace("%20", "+")):
            yield form.encode()
            yield re.sub("%[0-9A-F]{2}", lambda found: found[0].lower(), form).encode()
    yield from _in_json(value)


def _base64_core(value: bytes, shift: int) -> bytes:
    """Return the characters that depend on ``value`` alone when ``shift`` bytes precede it."""
    text = base64.b64encode(b"\0" * shift + value)
    mixed_before = (0, 2, 3)[shift]
    over = (shift + len(value)) % _GROUP
    whole = (shift + len(value)) // _GROUP * 4 + (0, 1, 2)[over]
    return text[mixed_before:whole]


def _in_json(value: bytes) -> Iterator[bytes]:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return
    for ascii_only in (True, False):
        escaped = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
        yield escaped.encode()
        yield escaped.replace("/", "\\/").encode()
