"""The program of the second parser's process: scripts in, byte offsets out.

It runs on its own, as ``python -I -S canary_worker.py DIRECTORY…``, imports nothing of this
package, and ends with its standard input. What a script does to the parser's memory stays here.

A request is its kind (1 byte), the seconds it may take (a 4-byte float), its length (4 bytes) and
the script; an answer is a word (1 byte), a count (4 bytes) and so many 4-byte offsets. Numbers are
big-endian.
"""

from __future__ import annotations

import resource
import signal
import struct
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, BinaryIO, Final

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

REQUEST: Final = struct.Struct(">BfI")
ANSWER: Final = struct.Struct(">BI")
READY: Final = 0
SEEN: Final = 1
"""The offsets are what was asked for."""
ERRORS: Final = 2
"""The parser takes the script for malformed."""
STOPPED: Final = 3
"""Time was up."""
NAMES: Final = 0
"""Asks where each command's name starts."""
SPANS: Final = 1
"""Asks where each command starts and ends, whatever the parser's errors."""

_COMMANDS: Final = frozenset({"command", "declaration_command", "unset_command"})
_TIMERS: Final = (b"time", b"coproc")
_UNTIMED_BYTES: Final = 2048
_MOST_SPANS: Final = 60
_SECONDS: Final = 5.0
"""After so long on one script the kernel ends the process, whoever still waits for it."""
_MEMORY_BYTES: Final = 1 << 30


class _StoppedError(Exception):
    """Time was up."""


def _parse(parser: Parser, script: bytes, seconds: float) -> Node:
    if len(script) < _UNTIMED_BYTES:
        return parser.parse(script).root_node
    deadline = time.monotonic() + seconds
    try:
        tree = parser.parse(
            lambda offset, _: script[offset:],
            progress_callback=lambda *_: time.monotonic() > deadline,
        )
    except ValueError as stopped:
        raise _StoppedError from stopped
    return tree.root_node


def _nodes(root: Node) -> Iterator[Node]:
    pending = [root]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(node.named_children)


def _names(root: Node, script: bytes) -> Iterator[int]:
    for node in _nodes(root):
        if node.type in _COMMANDS:
            yield from _name_start(node)
        elif node.type == "test_command" and _is_bracket(script, node.start_byte):
            yield node.start_byte


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


def _spans(root: Node) -> Iterator[int]:
    found = 0
    for node in _nodes(root):
        if node.type in _COMMANDS and found < _MOST_SPANS:
            found += 1
            yield from (node.start_byte, node.end_byte)


def _answer(parser: Parser, kind: int, script: bytes, seconds: float) -> tuple[int, list[int]]:
    try:
        root = _parse(parser, script, seconds)
    except _StoppedError:
        return STOPPED, []
    if kind == SPANS:
        return SEEN, list(_spans(root))
    return (ERRORS, []) if root.has_error else (SEEN, list(_names(root, script)))


def _send(out: BinaryIO, word: int, offsets: list[int]) -> None:
    out.write(ANSWER.pack(word, len(offsets)) + struct.pack(f">{len(offsets)}I", *offsets))
    out.flush()


def serve(new_parser: Callable[[], Parser], requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer every request until there are no more."""
    _answer(new_parser(), NAMES, b"true", 1.0)
    _send(answers, READY, [])
    while len(head := requests.read(REQUEST.size)) == REQUEST.size:
        kind, seconds, length = REQUEST.unpack(head)
        script = requests.read(length)
        signal.setitimer(signal.ITIMER_REAL, _SECONDS)
        # A parser of its own for each script: one that was stopped would go on with the old one.
        _send(answers, *_answer(new_parser(), kind, script, seconds))
        signal.setitimer(signal.ITIMER_REAL, 0)


def main() -> None:
    """Serve standard input with the parser of the directories named, and little to lose."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    sys.path.extend(sys.argv[1:])
    # Only now: whoever imports this module wants the words of its protocol, and not the parser.
    import tree_sitter_bash  # noqa: PLC0415
    from tree_sitter import Language, Parser  # noqa: PLC0415

    language = Language(tree_sitter_bash.language())
    serve(lambda: Parser(language), sys.stdin.buffer, sys.stdout.buffer)


if __name__ == "__main__":
    main()
