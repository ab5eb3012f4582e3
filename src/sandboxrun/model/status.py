"""How a run ended."""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType
from typing import Final

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
    OUTPUT_LIMIT = "output_limit"
    """It wrote more than is kept, and was ended for it."""
    REFUSED = "refused"
    """Screening or a policy forbids it; nobody is asked and nothing was started."""
    CONSENT_REQUIRED = "consent_required"
    """Nobody accepted the policies in force for this workspace; nothing was started."""
    APPROVAL_DENIED = "approval_denied"
    """Somebody had to say yes and said no, or could not be asked; nothing was started."""
    APPROVAL_EXPIRED = "approval_expired"
    """Nobody answered in time; nothing was started."""
    QUOTA_EXCEEDED = "quota_exceeded"
    """It does not fit into a quota, now or ever; nothing was started."""
    WORKSPACE_LOST = "workspace_lost"
    """The workspace's volume was removed or replaced from outside; nothing was started."""
    IMAGE_UNUSABLE = "image_unusable"
    """The image is missing or cannot run commands; nothing was started."""
    INVALID_CWD = "invalid_cwd"
    """The working directory is not a directory of the sandbox; nothing was started."""
    ENGINE_FAILED = "engine_failed"
    """The engine or the init failed; what the command did is unknown beyond what was captured."""
    LOST = "lost"
    """The process that owned the run died before it was settled."""


_FAULT: Final = 125
_SIGNAL_BASE: Final = 128
_NO_PERMISSION: Final = 77
"""EX_NOPERM of sysexits.h."""
_TRY_LATER: Final = 75
"""EX_TEMPFAIL of sysexits.h."""
_EXIT_STATUS: Final = MappingProxyType(
    {
        Status.SUCCEEDED: 0,
        Status.FAILED: None,
        Status.COMMAND_NOT_FOUND: 127,
        Status.NOT_EXECUTABLE: 126,
        Status.SIGNALED: None,
        Status.TIMED_OUT: 124,
        Status.CANCELLED: 130,
        Status.OUT_OF_MEMORY: 137,
        Status.OUTPUT_LIMIT: 122,
        Status.REFUSED: _NO_PERMISSION,
        Status.CONSENT_REQUIRED: _NO_PERMISSION,
        Status.APPROVAL_DENIED: _NO_PERMISSION,
        Status.APPROVAL_EXPIRED: _NO_PERMISSION,
        Status.QUOTA_EXCEEDED: _TRY_LATER,
        Status.WORKSPACE_LOST: 121,
        Status.IMAGE_UNUSABLE: _FAULT,
        Status.INVALID_CWD: _FAULT,
        Status.ENGINE_FAILED: _FAULT,
        Status.LOST: 121,
    }
)
"""None: the command's own."""


def exit_status(status: Status, exit_code: int | None, signal: str | None) -> int:
    """Return the exit status of `sandboxrun exec` for an outcome (0 to 255)."""
    fixed = _EXIT_STATUS[status]
    if fixed is not None:
        return fixed
    number = signal_number(signal)
    if status is Status.SIGNALED and number is not None:
        return _SIGNAL_BASE + number
    return _FAULT if exit_code is None else exit_code
