"""A bash tool for AI agents: every command in its own throwaway, hardened container.

import sandboxrun
outcome = sandboxrun.run("echo hi")
"""

from __future__ import annotations

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
