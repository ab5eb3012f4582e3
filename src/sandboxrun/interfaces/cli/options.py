"""Options that several commands share, and how their values are read."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from sandboxrun.errors import UsageError

EngineOption = Annotated[
    str | None, typer.Option("--engine", help="Engine address, unix://… or tcp://….")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]

_SIZE = re.compile(r"(?P<number>\d{1,15}(?:\.\d{1,6})?)\s*(?P<unit>[kmgt]?)i?b?", re.IGNORECASE)
_UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}


def read_size(text: str) -> int:
    """Return bytes for ``512m``, ``1.5 GiB`` or ``1048576``; units are powers of 1024."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise UsageError(
            f"{text!r} is not a size.", advice="Write a number with k, m, g or t: 512m, 2g."
        )
    return int(float(match["number"]) * _UNITS[match["unit"].lower()])
