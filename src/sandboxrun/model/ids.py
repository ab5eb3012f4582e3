"""Names that are never reused."""

from __future__ import annotations

import secrets
import time

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


def _base32(number: int, digits: int) -> str:
    text = ""
    for _ in range(digits):
        number, digit = divmod(number, 32)
        text = _ALPHABET[digit] + text
    return text


def new_id(prefix: str) -> str:
    """Return ``prefix-`` and 26 characters that sort by creation time and cannot be guessed."""
    milliseconds = time.time_ns() // 1_000_000
    return f"{prefix}-{_base32(milliseconds, 10)}{_base32(secrets.randbits(80), 16)}"
