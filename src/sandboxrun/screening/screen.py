"""The entry: a command in, facts out."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

from sandboxrun.screening.collect import Collector
from sandboxrun.screening.facts import Facts
from sandboxrun.screening.grammar.gate import encoded, readable, text_codes
from sandboxrun.screening.grammar.shfmt import parser_path
from sandboxrun.screening.limits import (
    COMMAND_BYTES,
    LARGE_BYTES,
    LARGE_SCREEN_SECONDS,
    SCREEN_SECONDS,
)
from sandboxrun.screening.reading.expand import Arg
from sandboxrun.screening.reading.scope import Origin, Scope
from sandboxrun.screening.walk import Walk


def screen(command: str | bytes) -> Facts:
    """Return the facts of a shell command, without running anything of it.

    Blocks for at most about `SCREEN_SECONDS`; a plain command takes a fraction of a millisecond,
    one that needs the parser process some milliseconds. Call it from a worker thread where an
    event loop must not wait. Raises `InstallError` when the parser is not installed.
    """
    raw = _bytes(command)
    collector = Collector()
    if len(raw) > COMMAND_BYTES:
        collector.find("limit.size", 0, len(raw))
        collector.read_only = False
        return collector.facts()
    text = raw.decode("utf-8", "surrogateescape")
    for code, start, end in text_codes(text):
        before = len(encoded(text[:start]))
        collector.find(code, before, before + len(encoded(text[start:end])))
        collector.read_only = False
    script = readable(text)
    scope = Scope(positional=None)

    def read(walk: Walk) -> None:
        walk.script(script, scope, Origin(0, len(raw), exact=True), None)
        walk.finish(scope)

    return _facts(collector, encoded(script), read)


def screen_argv(argv: Sequence[str | bytes]) -> Facts:
    """Return the facts of a command that runs without a shell: one simple command.

    Spans count in the bytes of the arguments joined with single blanks.
    """
    collector = Collector()
    args = []
    at = 0
    for argument in map(_bytes, argv):
        text = argument.decode("utf-8", "surrogateescape")
        for code, _, _ in text_codes(text):
            collector.find(code, at, at + len(argument))
        args.append(Arg(readable(text), at, at + len(argument)))
        at += len(argument) + 1
    source = " ".join(arg.text for arg in args).encode()
    scope = Scope()

    def read(walk: Walk) -> None:
        if args:
            walk.judge(tuple(args), scope, None)
        walk.finish(scope)

    return _facts(collector, source, read)


def _bytes(text: str | bytes) -> bytes:
    return text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text


_MISTAKES: Final = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    TypeError,
    ValueError,
)
"""What a mistake in a rule raises. Text that finds one must not end the process it is read in."""


def _facts(collector: Collector, source: bytes, read: Callable[[Walk], None]) -> Facts:
    """Return what ``read`` finds. What goes wrong with it is a finding, and what was found stays."""
    seconds = LARGE_SCREEN_SECONDS if len(source) > LARGE_BYTES else SCREEN_SECONDS
    try:
        read(Walk(collector, source, _parser(), time.monotonic() + seconds))
    except RecursionError:
        # Every known way here is bounded; what is not known must not pass for harmless.
        collector.find("limit.depth", 0, len(source))
        collector.read_only = False
    except _MISTAKES:
        collector.find("rule.failed", 0, len(source))
        collector.read_only = False
    return collector.facts()


@lru_cache(maxsize=1)
def _parser() -> Path:
    return parser_path()
