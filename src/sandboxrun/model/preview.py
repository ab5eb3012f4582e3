"""The part of the output that is shown first."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict


class PreviewShape(StrEnum):
    """Which part is shown when not everything fits."""

    TAIL = "tail"
    """The end."""
    HEAD_AND_TAIL = "head+tail"
    """The beginning and the end, half of the budget each."""


class Preview(BaseModel):
    """The end of the output, cut to whole lines, with exact totals of what there was."""

    model_config = ConfigDict(frozen=True)

    text: str = ""
    truncated: bool = False
    notice: str | None = None
    """What was cut and where the rest is, or null when nothing was."""
    total_bytes: int = 0
    total_lines: int = 0
    shown_bytes: int = 0
    shown_lines: int = 0
