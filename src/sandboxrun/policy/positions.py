"""Where in a TOML text a value is written, by the path a validation error names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import tree_sitter_toml
from tree_sitter import Language, Node, Parser

_TABLES = ("table", "table_array_element")
_KEYS = ("bare_key", "quoted_key", "dotted_key")


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a text, both counted from 1; the column counts characters."""

    line: int
    column: int


def position_of(text: str, path: Sequence[str | int]) -> Position:
    """Return where the value at ``path`` is written, or the nearest thing that encloses it.

    ``text`` must be valid TOML; of anything else the answer is the start or a guess.
    """
    source = text.encode("utf-8", "surrogatepass")
    root = Parser(Language(tree_sitter_toml.language())).parse(source).root_node
    found: list[tuple[int, Node]] = [(0, root)]
    _walk_document(root, tuple(path), found)
    _, node = max(found, key=lambda each: each[0])
    row, byte = node.start_point
    line = source.split(b"\n")[row]
    return Position(row + 1, len(line[:byte].decode("utf-8", "replace")) + 1)


_Found = list[tuple[int, Node]]
"""How many parts of the path a node accounts for, and the node."""


def _walk_document(root: Node, path: tuple[str | int, ...], found: _Found) -> None:
    counts: Counter[tuple[str | int, ...]] = Counter()
    for child in root.named_children:
        if child.type == "pair":
            _pair(child, (), path, found)
        elif child.type in _TABLES:
            header = _table_path(child, counts)
            _note(child, header, path, found)
            for pair in child.named_children:
                if pair.type == "pair":
                    _pair(pair, header, path, found)


def _table_path(table: Node, counts: Counter[tuple[str | int, ...]]) -> tuple[str | int, ...]:
    """Return the path of a table's header, with the index of every array of tables in it."""
    names = _names(next(child for child in table.named_children if child.type in _KEYS))
    full: tuple[str | int, ...] = ()
    for depth, name in enumerate(names):
        full = (*full, name)
        if table.type == "table_array_element" and depth == len(names) - 1:
            counts[full] += 1
        if counts[full]:
            full = (*full, counts[full] - 1)
    return full


def _pair(
    pair: Node, above: tuple[str | int, ...], path: tuple[str | int, ...], found: _Found
) -> None:
    key, *values = [child for child in pair.named_children if child.type != "comment"]
    here = (*above, *_names(key))
    _note(key, here, path, found)
    for value in values:
        _value(value, here, path, found)


def _value(
    value: Node, here: tuple[str | int, ...], path: tuple[str | int, ...], found: _Found
) -> None:
    if path[: len(here)] != here:
        return
    if value.type == "inline_table":
        for pair in value.named_children:
            if pair.type == "pair":
                _pair(pair, here, path, found)
    elif value.type == "array":
        items = [child for child in value.named_children if child.type != "comment"]
        for index, item in enumerate(items):
            _note(item, (*here, index), path, found)
            _value(item, (*here, index), path, found)


def _note(
    node: Node, here: tuple[str | int, ...], path: tuple[str | int, ...], found: _Found
) -> None:
    if path[: len(here)] == here:
        found.append((len(here), node))


def _names(key: Node) -> tuple[str, ...]:
    if key.type == "dotted_key":
        return tuple(name for child in key.named_children for name in _names(child))
    text = (key.text or b"").decode("utf-8", "replace")
    return (text[1:-1] if key.type == "quoted_key" else text,)
