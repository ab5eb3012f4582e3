"""A script's text to statements, with what is doubtful about the reading."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from sandboxrun.screening.grammar.canary import canary_doubt, tree_starts
from sandboxrun.screening.grammar.decode import UnknownNodeError, read_file
from sandboxrun.screening.grammar.gate import encoded, structure_of, too_deep
from sandboxrun.screening.grammar.plain import read_plain
from sandboxrun.screening.grammar.shfmt import ParserStoppedError, parse_json
from sandboxrun.screening.grammar.tree import Statement
from sandboxrun.screening.grammar.visit import count_nodes
from sandboxrun.screening.limits import PARSER_SECONDS, STRUCTURE_BYTES, TREE_NODES


class Parsed(NamedTuple):
    """A script as far as it could be read."""

    statements: tuple[Statement, ...] | None
    """None where it could not be read at all."""
    doubt: str | None
    """Code of the finding that the reading itself makes, or None where both parsers agree."""


def parse_script(text: str, binary: Path, deadline: float) -> Parsed:
    """Parse ``text``, using no more time than is left until ``deadline`` (monotonic seconds)."""
    if not text.strip():
        return Parsed((), None)
    plain = read_plain(text)
    if plain is not None:
        return Parsed(plain, canary_doubt(text.encode(), tree_starts(plain), deadline))
    structure = structure_of(text)
    if len(structure) > STRUCTURE_BYTES:
        return Parsed(None, "limit.size")
    if too_deep(structure):
        return Parsed(None, "limit.depth")
    return _parse_slowly(text, binary, deadline)


_TIME_AFTER_REDIRECTION = re.compile(rb"([<>]&?[ \t]*[\w/.-]+[ \t]+)time(?=[ \t])")


def _parse_slowly(text: str, binary: Path, deadline: float) -> Parsed:
    script = encoded(text)
    try:
        root = _tree_of(script, binary, deadline)
        doubt = None
        if root is None:
            # Here `time` is a program for bash and an error for the parser. `env` runs its words
            # as well and is as long; the doubt stays.
            script, changed = _TIME_AFTER_REDIRECTION.subn(rb"\1env ", script)
            root = _tree_of(script, binary, deadline) if changed else None
            doubt = "unparsed"
        statements = None if root is None else read_file(root)
    except ParserStoppedError:
        return Parsed(None, "limit.time")
    except (UnknownNodeError, RecursionError, ValueError):
        return Parsed(None, "unparsed")
    if root is None or statements is None:
        return Parsed(None, "unparsed")
    if count_nodes(statements, TREE_NODES) >= TREE_NODES:
        return Parsed(None, "limit.size")
    if doubt is not None:
        return Parsed(statements, doubt)
    if len(script) > STRUCTURE_BYTES:
        return Parsed(statements, _compare_shortened(script, root, statements, deadline))
    if b"<<" in script and b"\\" in script:
        script = _without_escapes(script, root)
    return Parsed(statements, canary_doubt(script, tree_starts(statements), deadline))


def _tree_of(script: bytes, binary: Path, deadline: float) -> dict[str, Any] | None:
    seconds = min(PARSER_SECONDS, deadline - time.monotonic())
    if seconds <= 0:
        raise ParserStoppedError
    answer = parse_json(script, binary, seconds)
    return None if answer is None else json.loads(answer)


def _compare_shortened(
    script: bytes, root: dict[str, Any], statements: tuple[Statement, ...], deadline: float
) -> str | None:
    """Compare on the script without the inside of its long constants.

    The slow parser says where those are; that each is what it says is checked on the bytes.
    """
    cuts = sorted(_constants(script, root))
    pieces, at = [], 0
    for start, end in cuts:
        pieces.append(script[at:start])
        at = end
    pieces.append(script[at:])

    def moved(offset: int) -> int:
        return offset - sum(min(end, offset) - start for start, end in cuts if start < offset)

    expected = frozenset(moved(offset) for offset in tree_starts(statements))
    return canary_doubt(b"".join(pieces), expected, deadline)


_ESCAPE = re.compile(rb"\\[`$\\]")


def _without_escapes(script: bytes, root: dict[str, Any]) -> bytes:
    """Hide escaped characters in the text of here-documents, which the second parser misreads."""
    hidden = bytearray(script)
    for node in _nodes(root):
        for part in (node.get("Hdoc") or {}).get("Parts", ()):
            if part["Type"] == "Lit":
                start, end = part["Pos"]["Offset"], part["End"]["Offset"]
                hidden[start:end] = _ESCAPE.sub(b"xx", hidden[start:end])
    return bytes(hidden)


def _nodes(root: dict[str, Any]) -> Iterator[dict[str, Any]]:
    pending: list[Any] = [root]
    while pending:
        node = pending.pop()
        if isinstance(node, list):
            pending.extend(node)
        elif isinstance(node, dict):
            yield node
            pending.extend(node.values())


_LONG = 512


def _constants(script: bytes, root: dict[str, Any]) -> list[tuple[int, int]]:
    """Return the byte spans inside long single quotes and quoted here-documents."""
    found: list[tuple[int, int]] = []
    for node in _nodes(root):
        if node.get("Type") == "SglQuoted" and not node.get("Dollar"):
            start, end = node["Pos"]["Offset"] + 1, node["End"]["Offset"] - 1
            if end - start > _LONG and b"'" not in script[start:end]:
                found.append((start, end))
        elif (body := node.get("Hdoc")) and _is_quoted(node["Word"]):
            found.extend(_heredoc_span(script, body))
    return found


def _is_quoted(word: dict[str, Any]) -> bool:
    return any(part["Type"] != "Lit" or "\\" in part["Value"] for part in word.get("Parts", ()))


def _heredoc_span(script: bytes, body: dict[str, Any]) -> list[tuple[int, int]]:
    start, end = body["Pos"]["Offset"], body["End"]["Offset"]
    # Keep the last line: the cut then ends at a line's end whatever the body holds.
    last = script.rfind(b"\n", start, end - 1) + 1
    return [(start, last)] if last - start > _LONG else []
