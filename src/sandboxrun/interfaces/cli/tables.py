"""What people read of rows: a table, with nothing in it that could drive their terminal."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

_UNFOLDED = 10_000


def printable(text: str) -> str:
    r"""Return ``text`` with every control, format and surrogate character as ``\xNN`` or ``\uNNNN``."""
    return "".join(_shown(character) for character in text)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str | None]]) -> None:
    """Print rows under their columns; None is shown as a dash."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text("-" if cell is None else printable(cell)) for cell in row))
    # A pipe gets whole rows: what reads it looks for names, and has no width.
    width = None if sys.stdout.isatty() else _UNFOLDED
    Console(width=width, highlight=False, markup=False, emoji=False).print(table)


def _shown(character: str) -> str:
    if not unicodedata.category(character).startswith("C"):
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}"  # noqa: PLR2004 - one byte
