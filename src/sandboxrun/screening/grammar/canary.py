"""The second parser: where tree-sitter sees commands, and whether our tree agrees.

tree-sitter-bash hides executed commands without reporting an error, so it is never read for
facts. It is a canary: two independent parsers that see the same commands are unlikely to be
wrong together. It is also C that text can crash, so it runs in processes of its own.
"""

from __future__ import annotations

import time
from functools import lru_cache
from typing import Final

from sandboxrun.screening.grammar.canary_processes import (
    CanaryCrashedError,
    CanaryLateError,
    CanaryProcesses,
)
from sandboxrun.screening.grammar.canary_worker import NAMES, SEEN, SPANS
from sandboxrun.screening.grammar.tree import Simple, Statement
from sandboxrun.screening.grammar.visit import commands_of
from sandboxrun.screening.limits import CANARY_SECONDS, PARSER_SECONDS, STRUCTURE_BYTES

_MOST_PIPES: Final = 400
"""tree-sitter needs quadratic time for a long pipeline, in steps that cannot be interrupted."""
_PLAIN: Final = bytes(byte if byte < 0x80 else ord(".") for byte in range(256))  # noqa: PLR2004
"""tree-sitter-bash gives code points to functions of the C library that only take bytes: after
``{`` a rare one crashes it. To bash, bytes beyond ASCII are parts of words and never of names."""


class CanaryTooLargeError(Exception):
    """The script is beyond what this parser is given."""


@lru_cache(maxsize=1)
def _processes() -> CanaryProcesses:
    return CanaryProcesses()


def canary_doubt(script: bytes, expected: frozenset[int], deadline: float) -> str | None:
    """Compare the offsets at which tree-sitter sees commands with ``expected`` ones.

    Return the code of the finding that the comparison makes, or None where both agree. Takes no
    longer than until about ``deadline`` (monotonic seconds). Raises `InstallError`.
    """
    try:
        word, offsets = _ask(NAMES, script, deadline)
    except CanaryTooLargeError:
        return "limit.size"
    except CanaryLateError:
        return "limit.time"
    except CanaryCrashedError:
        return "parser.crashed"
    agreed = word == SEEN and frozenset(offsets) == expected
    return None if agreed else "parser.disagree"


def canary_commands(script: bytes, deadline: float) -> list[str]:
    """Return the text of what tree-sitter takes for commands, whatever its errors.

    Empty where it cannot read the script until about ``deadline``. Raises `InstallError`.
    """
    try:
        _, offsets = _ask(SPANS, script, deadline)
    except (CanaryTooLargeError, CanaryLateError, CanaryCrashedError):
        return []
    places = zip(offsets[::2], offsets[1::2], strict=True)
    return [script[start:end].decode("utf-8", "surrogateescape") for start, end in places]


def _ask(kind: int, script: bytes, deadline: float) -> tuple[int, tuple[int, ...]]:
    if script.count(b"|") > _MOST_PIPES or len(script) > STRUCTURE_BYTES:
        raise CanaryTooLargeError
    wait = min(PARSER_SECONDS, deadline - time.monotonic())
    if wait <= 0:
        raise CanaryLateError
    plain = script.translate(_PLAIN)
    return _processes().ask(kind, plain, seconds=CANARY_SECONDS, wait_seconds=wait)


def tree_starts(statements: tuple[Statement, ...]) -> frozenset[int]:
    """Return the offsets at which our tree has a command's first word."""
    return frozenset(
        command.words[0].start
        for command in commands_of(statements)
        if isinstance(command, Simple) and command.words
    )
