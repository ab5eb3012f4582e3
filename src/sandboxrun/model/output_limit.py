"""What becomes of a run that writes more than is kept."""

from __future__ import annotations

from enum import StrEnum

MAX_OUTPUT_BYTES = 64 * 1024 * 1024
"""Output of one run that is kept, both streams together, unless a policy says otherwise."""


class OnOutputLimit(StrEnum):
    """What happens when a run reaches its output limit."""

    END = "end"
    """The run is ended as ``output_limit``."""
    DISCARD = "discard"
    """It goes on; later bytes are counted, the last of them previewed, and none kept."""
