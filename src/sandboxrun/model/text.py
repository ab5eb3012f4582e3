"""Bytes that people read: shown as text, escaped where they are not UTF-8."""

from __future__ import annotations

import os
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer


def _as_bytes(value: object) -> object:
    return os.fsencode(value) if isinstance(value, str) else value


def escaped(data: bytes) -> str:
    r"""Return ``data`` as text, with ``\xNN`` for every byte that is not part of valid UTF-8."""
    return data.decode("utf-8", "backslashreplace")


RawBytes = Annotated[
    bytes, BeforeValidator(_as_bytes), PlainSerializer(escaped, return_type=str, when_used="json")
]
"""Bytes that may be given as text (surrogate escapes become the bytes they stand for)."""
