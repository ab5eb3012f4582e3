"""The rules that turn what is known of a run's end into a status.

Who ended it decides, in this order: a fault before anything ran; the exit record of the init,
written after everything else in the container was dead; the caller or the deadline; the engine's
word. An exit code alone decides nothing, with one convention kept: POSIX reserves 126 and 127 for
a shell that could not execute or find a command (XCU 2.8.2), so a *shell* that exits with them is
reported in those words.
"""

from __future__ import annotations

import errno
import signal
from dataclasses import dataclass
from typing import assert_never

from sandboxrun.engine.protocol import ContainerState
from sandboxrun.errors import (
    ImageUnusableError,
    PolicyError,
    QuotaExceededError,
    SandboxrunError,
    WorkspaceLostError,
)
from sandboxrun.init.records import ExitKind, ExitRecord
from sandboxrun.model.status import Status
from sandboxrun.settle.cause import Cause

_NOT_FOUND = 127
_NOT_EXECUTABLE = 126
_MISSING_ERRNOS = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG})


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """All that is known once a run is over. Unknown is None."""

    shell: bool
    """Whether bash interpreted the command, or argv was executed as it is."""
    cause: Cause | None = None
    """Who asked sandboxrun to end it."""
    stopped: tuple[Status, str] | None = None
    """How it was not allowed, and the sentence that says why."""
    fault: SandboxrunError | None = None
    """What went wrong outside the command."""
    unkept: SandboxrunError | None = None
    """Why not all of the command's output could be written down."""
    record: ExitRecord | None = None
    """The init's exit record."""
    state: ContainerState | None = None
    """The engine's view after the end; None if it knows no such container."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The status of a run and the numbers that belong to it."""

    status: Status
    exit_code: int | None = None
    signal: int | None = None
    fault: SandboxrunError | None = None
    said: str = ""
    """Why it was not allowed, in the words of who decided."""
    errno: int | None = None
    """Why the command could not be started, where the kernel said so."""


def settle(ending: Ending) -> Verdict:  # noqa: PLR0911 - one rule, one return
    """Return the verdict. Total: every ending has one."""
    if ending.cause is Cause.OUTPUT_LIMIT:
        return _output_limit(ending.record)
    if ending.record is not None:
        return _by_record(ending, ending.record)
    if ending.stopped is not None:
        status, said = ending.stopped
        return Verdict(status=status, said=said)
    if ending.cause is not None:
        return _by_cause(ending.cause)
    if ending.state is not None and ending.state.oom_killed:
        return Verdict(status=Status.OUT_OF_MEMORY)
    if isinstance(ending.fault, ImageUnusableError):
        return Verdict(status=Status.IMAGE_UNUSABLE, fault=ending.fault)
    if isinstance(ending.fault, QuotaExceededError):
        return Verdict(status=Status.QUOTA_EXCEEDED, fault=ending.fault)
    if isinstance(ending.fault, WorkspaceLostError):
        return Verdict(status=Status.WORKSPACE_LOST, fault=ending.fault)
    if isinstance(ending.fault, PolicyError):
        # Nobody can say what is allowed, so nothing is.
        said = f"Refused. {ending.fault.message} {ending.fault.advice}"
        return Verdict(status=Status.REFUSED, fault=ending.fault, said=said)
    return Verdict(status=Status.ENGINE_FAILED, fault=ending.fault)


def _by_record(ending: Ending, record: ExitRecord) -> Verdict:
    match record.kind:
        case ExitKind.EXITED:
            return _exited(record.code, ending)
        case ExitKind.SIGNALED:
            return _signaled(ending, record)
        case ExitKind.EXEC_FAILED:
            return _exec_failed(record, shell=ending.shell)
        case ExitKind.CWD_FAILED:
            return Verdict(status=Status.INVALID_CWD, errno=record.errno)
        case ExitKind.DEADLINE:
            return _by_cause(Cause.DEADLINE if ending.cause is None else ending.cause)
        case ExitKind.SETUP_FAILED:
            return Verdict(status=Status.ENGINE_FAILED, fault=ending.fault, errno=record.errno)
        case _:
            assert_never(record.kind)


def _by_cause(cause: Cause) -> Verdict:
    match cause:
        case Cause.CANCELLED:
            return Verdict(status=Status.CANCELLED)
        case Cause.DEADLINE:
            return Verdict(status=Status.TIMED_OUT)
        case Cause.OUTPUT_LIMIT:
            return Verdict(status=Status.OUTPUT_LIMIT)
        case _:
            assert_never(cause)


def _output_limit(record: ExitRecord | None) -> Verdict:
    # Also where the command was quicker than the kill: else a race would decide the status.
    exited = record is not None and record.kind is ExitKind.EXITED
    return Verdict(
        status=Status.OUTPUT_LIMIT, exit_code=record.code if record is not None and exited else None
    )


def _exited(code: int | None, ending: Ending) -> Verdict:
    if ending.unkept is not None:
        # Who asked for output and gets a part of it must not take that for all there was.
        return Verdict(status=Status.ENGINE_FAILED, exit_code=code, fault=ending.unkept)
    shell = ending.shell
    if code == 0:
        status = Status.SUCCEEDED
    elif shell and code == _NOT_FOUND:
        status = Status.COMMAND_NOT_FOUND
    elif shell and code == _NOT_EXECUTABLE:
        status = Status.NOT_EXECUTABLE
    else:
        status = Status.FAILED
    return Verdict(status=status, exit_code=code)


def _signaled(ending: Ending, record: ExitRecord) -> Verdict:
    killed = record.signal == signal.SIGKILL
    if killed and ending.cause is not None:
        return _by_cause(ending.cause)
    if killed and record.oom_kills is not None and record.oom_kills > 0:
        return Verdict(status=Status.OUT_OF_MEMORY, signal=record.signal)
    return Verdict(status=Status.SIGNALED, signal=record.signal)


def _exec_failed(record: ExitRecord, *, shell: bool) -> Verdict:
    if shell:
        fault = ImageUnusableError(
            "No bash was found on PATH: the image has none, or the PATH given for the command "
            "leads past it."
        )
        return Verdict(status=Status.IMAGE_UNUSABLE, fault=fault, errno=record.errno)
    if record.errno in _MISSING_ERRNOS:
        return Verdict(status=Status.COMMAND_NOT_FOUND, exit_code=_NOT_FOUND, errno=record.errno)
    return Verdict(status=Status.NOT_EXECUTABLE, exit_code=_NOT_EXECUTABLE, errno=record.errno)
