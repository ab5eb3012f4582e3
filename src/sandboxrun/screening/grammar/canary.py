"""The second parser: where tree-sitter sees commands, and whether our tree agrees.

tree-sitter-bash hides executed commands without reporting an error, so it is never read for
facts. It is a canary: two independent parsers that see the same commands are unlikely to be
wrong together.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from sandboxrun.screening.grammar.tree import Simple, Statement
from sandboxrun.screening.grammar.visit import commands_of
from sandboxrun.screening.limits import CANARY_SECONDS, STRUCTURE_BYTES

_LANGUAGE: Final = Language(tree_sitter_bash.language())
_COMMANDS: Final = frozenset({"command", "declaration_command", "unset_command"})
_UNTIMED_BYTES: Final = 2048
_TIMERS: Final = (b"time", b"coproc")


_MOST_PIPES: Final = 400
"""tree-sitter needs quadratic time for a long pipeline, in steps that cannot be interrupted."""


class CanaryStoppedError(Exception):
    """The script is beyond what this parser reads in bounded time."""


def canary_starts(script: bytes) -> frozenset[int] | None:
    """Return the offsets at which tree-sitter sees a command's name, or None on its errors.

    Raises `CanaryStoppedError` when it needs too long.
    """
    if script.count(b"|") > _MOST_PIPES or len(script) > STRUCTURE_BYTES:
        raise CanaryStoppedError
    if not _is_text(script):
        # Its scanner was seen to crash the process on bytes that no script holds.
        raise CanaryStoppedError
    parser = Parser(_LANGUAGE)
    if len(script) < _UNTIMED_BYTES:
        root = parser.parse(script).root_node
    else:
        root = _parse_timed(parser, script)
    if root.has_error:
        return None
    return frozenset(_starts(root, script))


def _is_text(script: bytes) -> bool:
    try:
        text = script.decode()
    except UnicodeDecodeError:
        return False
    return all(character.isprintable() or character in "\n\t\r" for character in text)


def _parse_timed(parser: Parser, script: bytes) -> Node:
    deadline = time.monotonic() + CANARY_SECONDS
    try:
        tree = parser.parse(
            lambda offset, _: script[offset : offset + STRUCTURE_BYTES],
            progress_callback=lambda *_: time.monotonic() > deadline,
        )
    except ValueError as stopped:
        raise CanaryStoppedError from stopped
    return tree.root_node


def canary_commands(script: bytes) -> list[str]:
    """Return the text of what tree-sitter takes for commands, whatever its errors."""
    try:
        if script.count(b"|") > _MOST_PIPES or len(script) > STRUCTURE_BYTES:
            return []
        root = _parse_timed(Parser(_LANGUAGE), script)
    except CanaryStoppedError:
        return []
    found: list[str] = []
    pending = [root]
    while pending and len(found) < _MOST_COMMANDS:
        node = pending.pop()
        if node.type in _COMMANDS and node.text is not None:
            found.append(node.text.decode(errors="replace"))
        pending.extend(node.named_children)
    return found


_MOST_COMMANDS: Final = 60


def _starts(root: Node, script: bytes) -> Iterator[int]:
    pending = [root]
    while pending:
        node = pending.pop()
        if node.type in _COMMANDS:
            yield from _name_start(node)
        elif node.type == "test_command" and _is_bracket(script, node.start_byte):
            yield node.start_byte
        pending.extend(node.named_children)


def _is_bracket(script: bytes, at: int) -> bool:
    """Tell whether the command ``[`` stands here, and not the keyword ``[[``."""
    return script.startswith(b"[", at) and not script.startswith(b"[[", at)


def _name_start(node: Node) -> Iterator[int]:
    """Yield where the command's name starts. `time` and `coproc` are words to tree-sitter."""
    name = node.child_by_field_name("name")
    if name is None:
        yield node.start_byte
    elif name.text in _TIMERS:
        arguments = [a for a in node.children_by_field_name("argument") if a.text != b"-p"]
        if arguments:
            yield arguments[0].start_byte
    elif name.text != b"let":
        yield name.start_byte


def tree_starts(statements: tuple[Statement, ...]) -> frozenset[int]:
    """Return the offsets at which our tree has a command's first word."""
    return frozenset(
        command.words[0].start
        for command in commands_of(statements)
        if isinstance(command, Simple) and command.words
    )
