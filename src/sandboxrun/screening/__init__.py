"""Screening: what a command would do, before it runs. Pure but for one bounded parser process."""

from sandboxrun.screening.facts import (
    Effect,
    Facts,
    Finding,
    Redirection,
    ScreenedCommand,
    ScreenedWord,
    Tier,
)
from sandboxrun.screening.screen import screen, screen_argv

__all__ = [
    "Effect",
    "Facts",
    "Finding",
    "Redirection",
    "ScreenedCommand",
    "ScreenedWord",
    "Tier",
    "screen",
    "screen_argv",
]
