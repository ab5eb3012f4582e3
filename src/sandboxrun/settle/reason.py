"""The sentence beside the status: what happened, and what the reader may do next."""

from __future__ import annotations

import os
from typing import assert_never

from sandboxrun.model.limits import MIB, Limits
from sandboxrun.model.signals import signal_name
from sandboxrun.model.status import Status
from sandboxrun.model.text import escaped
from sandboxrun.settle.verdict import Verdict

LOST = (
    "The process that owned this run died before it was settled; the container was removed. What "
    "the command did until then is not known. Look before running it again."
)


def reason_for(  # noqa: C901, PLR0911, PLR0912 - one sentence a status
    verdict: Verdict, *, limits: Limits, timeout_seconds: float, oom_kills: int | None, cwd: bytes
) -> str:
    """Return the sentence for ``verdict``."""
    match verdict.status:
        case Status.SUCCEEDED:
            return "The command exited with 0." + _children(oom_kills, limits)
        case Status.FAILED:
            return f"The command exited with {verdict.exit_code}; its output says why." + _children(
                oom_kills, limits
            )
        case Status.COMMAND_NOT_FOUND:
            return (
                "The program was not found (127). Check its name and PATH, or use an image that "
                "has it."
            )
        case Status.NOT_EXECUTABLE:
            return (
                f"The program was found but could not be executed (126){_because(verdict.errno)}. "
                "Check its mode and its interpreter line."
            )
        case Status.SIGNALED:
            return (
                f"{signal_name(verdict.signal)} ended the command; sandboxrun did not send it."
                + _children(oom_kills, limits)
            )
        case Status.TIMED_OUT:
            return (
                f"The command was killed after its limit of {timeout_seconds:g} s. The output until "
                "then was kept. Allow it more time, or do less in one command."
            )
        case Status.CANCELLED:
            return "The caller cancelled the command. Everything it had started was killed."
        case Status.OUT_OF_MEMORY:
            return (
                f"The command was killed at its memory limit of {limits.memory_bytes // MIB} MiB. "
                "Use less memory, or ask for a higher limit."
            )
        case Status.OUTPUT_LIMIT:
            return (
                "The command was ended because it wrote more output than is kept. What it wrote "
                "until then was kept. Write to a file, filter, or ask for later output to be "
                "discarded (on_output_limit)."
            )
        case (
            Status.REFUSED
            | Status.CONSENT_REQUIRED
            | Status.APPROVAL_DENIED
            | Status.APPROVAL_EXPIRED
        ):
            return verdict.said
        case (
            Status.IMAGE_UNUSABLE
            | Status.ENGINE_FAILED
            | Status.WORKSPACE_LOST
            | Status.QUOTA_EXCEEDED
        ):
            return _fault(verdict)
        case Status.INVALID_CWD:
            return (
                f"The working directory {escaped(cwd)} is not a directory of the sandbox"
                f"{_because(verdict.errno)}; nothing was run. Create it first, or name another."
            )
        case Status.LOST:
            return LOST
        case _:
            assert_never(verdict.status)


def _because(number: int | None) -> str:
    return "" if number is None else f" ({os.strerror(number)})"


def _children(oom_kills: int | None, limits: Limits) -> str:
    if oom_kills is None or oom_kills == 0:
        return ""
    who = "One of its processes was" if oom_kills == 1 else f"{oom_kills} of its processes were"
    return f" {who} killed at the memory limit of {limits.memory_bytes // MIB} MiB."


def _fault(verdict: Verdict) -> str:
    if verdict.fault is not None and verdict.exit_code is not None:
        return (
            f"The command exited with {verdict.exit_code}, but not all of its output could be "
            f"written down: {verdict.fault.message} {verdict.fault.advice} What it did is done; "
            "look before running it again."
        )
    if verdict.fault is not None:
        return f"{verdict.fault.message} {verdict.fault.advice}"
    if verdict.errno is not None:
        return (
            f"The sandbox could not prepare the command{_because(verdict.errno)}; nothing was run."
        )
    return (
        "The container ended without an exit record: its init or the engine was killed. What the "
        "command did is not known beyond its output. Look before running it again."
    )
