"""How a run ended."""

from __future__ import annotations

from enum import StrEnum
from typing import assert_never

from sandboxrun.model.signals import signal_number


class Status(StrEnum):
    """Who or what ended the run. Never derived from an exit code alone."""

    SUCCEEDED = "succeeded"
    """The command exited with 0."""
    FAILED = "failed"
    """The command exited with another code."""
    COMMAND_NOT_FOUND = "command_not_found"
    """The program (exec form) or the shell's command was not found (127)."""
    NOT_EXECUTABLE = "not_executable"
    """It was found but could not be executed (126)."""
    SIGNALED = "signaled"
    """A signal ended it that sandboxrun did not send."""
    TIMED_OUT = "timed_out"
    """It was killed at its deadline."""
    CANCELLED = "cancelled"
    """The caller ended it."""
    OUT_OF_MEMORY = "out_of_memory"
    """The kernel ended it at the memory limit."""
    IMAGE_UNUSABLE = "image_unusable"
    """The image is missing or cannot run commands; nothing was started."""
    INVALID_CWD = "invalid_cwd"
    """The working directory is not a directory of the sandbox; nothing was started."""
    ENGINE_FAILED = "engine_failed"
    """The engine or the init failed; what the command did is unknown beyond what was captured."""
    LOST = "lost"
    """The process that owned the run died before it was settled."""


def exit_status(status: Status, exit_code: int | None, signal: str | None) -> int:  # noqa: PLR0911 - one return a word
    """Return the exit status of `sandboxrun exec` for an outcome (0 to 255)."""
    match status:
        case Status.SUCCEEDED:
            return 0
        case Status.FAILED:
            return 125 if exit_code is None else exit_code
        case Status.COMMAND_NOT_FOUND:
            return 127
        case Status.NOT_EXECUTABLE:
            return 126
        case Status.SIGNALED:
            number = signal_number(signal)
            return 125 if number is None else 128 + number
        case Status.TIMED_OUT:
            return 124
        case Status.CANCELLED:
            return 130
        case Status.OUT_OF_MEMORY:
            return 137
        case Status.IMAGE_UNUSABLE | Status.INVALID_CWD | Status.ENGINE_FAILED:
            return 125
        case Status.LOST:
            return 121
        case _:
            assert_never(status)
