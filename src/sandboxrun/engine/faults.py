"""The one map from what the engine and its client report to our faults."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Final

from sandboxrun.errors import (
    EngineConflictError,
    EngineError,
    EngineNotFoundError,
    EngineTimeoutError,
    EngineUnavailableError,
)

_MAX_TEXT: Final = 1000
_NOBODY: Final = (FileNotFoundError, ConnectionRefusedError, NotADirectoryError)


def shown(text: str) -> str:
    """Return an engine's text in one bounded, printable line."""
    line = " ".join(text.split())
    printable = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)
    return printable if len(printable) <= _MAX_TEXT else printable[:_MAX_TEXT] + "…"


def message_of(body: bytes) -> str:
    """Return the message of an error answer: JSON with a ``message``, or the text itself."""
    text = body.decode("utf-8", "backslashreplace")
    try:
        document = json.loads(text)
    except ValueError:
        return shown(text)
    if isinstance(document, dict):
        for key in ("message", "error", "cause"):
            if isinstance(document.get(key), str):
                return shown(document[key])
    return shown(text)


def status_fault(what: str, status: int, body: bytes) -> EngineError:
    """Return the fault for an HTTP error status of the engine."""
    text = f"{what}: {message_of(body) or 'no reason given'} (status {status})"
    if status == HTTPStatus.NOT_FOUND:
        return EngineNotFoundError(text)
    if status == HTTPStatus.CONFLICT:
        return EngineConflictError(text)
    return EngineError(text)


def timeout_fault(what: str, seconds: float) -> EngineTimeoutError:
    """Return the fault for an engine that did not answer in time."""
    return EngineTimeoutError(f"{what}: the engine did not answer within {seconds:g} seconds.")


def connection_fault(what: str, url: str, error: OSError) -> EngineError:
    """Return the fault for a connection that could not be made or broke."""
    if isinstance(error, PermissionError):
        return EngineUnavailableError(
            f"This user may not use the engine at {url}.",
            advice="Add the user to the group that owns the socket (docker group), or choose "
            "another engine with --engine.",
        )
    if isinstance(error, _NOBODY):
        return EngineUnavailableError(f"No engine answers at {url}: {shown(str(error))}.")
    return EngineError(f"{what}: the connection to {url} broke: {shown(str(error))}.")
