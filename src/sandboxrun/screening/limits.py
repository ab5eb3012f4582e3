"""Bounds of one screening. A bound that is hit never lowers a tier."""

from __future__ import annotations

from typing import Final

COMMAND_BYTES: Final = 4 * 1024 * 1024
"""Longest command looked at; a longer one is a finding."""
STRUCTURE_BYTES: Final = 64 * 1024
"""Bytes outside constant text that the parsers are given."""
PARSER_SECONDS: Final = 1.0
"""Time for one call of the slow parser; it is killed at the end of it."""
CANARY_SECONDS: Final = 0.06
"""Time for one call of the second parser on a longer script."""
PARSER_OUTPUT_BYTES: Final = 6 * 1024 * 1024
"""Largest tree accepted from the slow parser."""
WALK_SECONDS: Final = 0.25
"""CPU time for reading one command's trees. What is left unread then is a finding."""
SCREEN_SECONDS: Final = 1.5
"""Time on the clock for one screening, so that a busy machine raises no questions."""
LOOSE_SECONDS: Final = 0.1
"""Time that a command which cannot be read at least has for being looked through."""
LARGE_BYTES: Final = 16 * 1024
LARGE_SCREEN_SECONDS: Final = 0.3
"""The same for a command of more than `LARGE_BYTES`."""
TREE_NODES: Final = 60_000
"""Nodes of one tree."""
NESTING: Final = 50
"""Depth of brackets in one script."""
CODE_DEPTH: Final = 12
"""Depth of scripts within scripts (`bash -c`, `eval`, traps)."""
CALL_DEPTH: Final = 12
"""Depth of function calls followed."""
COMMANDS: Final = 2_000
"""Simple commands judged in one screening."""
ALTERNATIVES: Final = 16
"""Values followed for one variable or word."""
FIELDS: Final = 512
"""Fields followed for one word."""
VALUE_CHARACTERS: Final = 64 * 1024
"""Longest value followed; a longer one becomes unknown."""
PLAIN_CHARACTERS: Final = 16 * 1024
"""Longest command that the fast path reads."""
