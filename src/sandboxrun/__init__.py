"""A bash tool for AI agents: every command in its own throwaway, hardened container.

import sandboxrun
outcome = sandboxrun.run("echo hi")

The names below are imported when they are first used: the command line has to listen for ^C
before it imports anything that takes time, and `typing` does.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sandboxrun.config import Settings
    from sandboxrun.errors import SandboxrunError
    from sandboxrun.model.limits import Limits
    from sandboxrun.model.ordering import Ordering
    from sandboxrun.model.outcome import Outcome
    from sandboxrun.model.request import Request
    from sandboxrun.model.status import Status
    from sandboxrun.runner import Run, Runner, run

__all__ = [
    "Limits",
    "Ordering",
    "Outcome",
    "Request",
    "Run",
    "Runner",
    "SandboxrunError",
    "Settings",
    "Status",
    "run",
]

_PLACES = {
    "Limits": "sandboxrun.model.limits",
    "Ordering": "sandboxrun.model.ordering",
    "Outcome": "sandboxrun.model.outcome",
    "Request": "sandboxrun.model.request",
    "Run": "sandboxrun.runner",
    "Runner": "sandboxrun.runner",
    "SandboxrunError": "sandboxrun.errors",
    "Settings": "sandboxrun.config",
    "Status": "sandboxrun.model.status",
    "run": "sandboxrun.runner",
}


def __getattr__(name: str) -> object:
    from importlib import import_module  # noqa: PLC0415 - see above

    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_PLACES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
