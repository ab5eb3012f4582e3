"""Why a command did nothing, for the person on stderr and for the program on stdout."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import typer

from sandboxrun.errors import SandboxrunError, UsageError
from sandboxrun.interfaces.cli.entry import CANCELLED_STATUS

DEFECT_STATUS: Final = 70
"""EX_SOFTWARE of sysexits.h."""
_HELP: Final = "See `{command} --help`."


@dataclass(frozen=True, slots=True)
class Failure:
    """The error object that ``--json`` prints, and what a person reads."""

    code: str
    message: str
    advice: str
    exit_status: int
    silent: bool = False
    """Nobody has to be told: it is what they wanted."""

    def report(self, arguments: Sequence[str]) -> int:
        """Print it as the command line ``arguments`` ask, and return the exit status."""
        document, told = self.lines(arguments)
        if document is not None:
            sys.stdout.write(f"{document}\n")
        if told:
            sys.stderr.write(f"sandboxrun: {told}\n")
        return self.exit_status

    def lines(self, arguments: Sequence[str]) -> tuple[str | None, str | None]:
        """Return what belongs on stdout and on stderr of the command line ``arguments``."""
        told = f"{self.message}\n{self.advice}".strip()
        document = json.dumps({"error": self.document()}) if wants_json(arguments) else None
        return document, None if self.silent else told

    def document(self) -> dict[str, object]:
        """Return it as JSON."""
        return {
            "code": self.code,
            "message": self.message,
            "advice": self.advice,
            "exit_status": self.exit_status,
        }


def wants_json(arguments: Sequence[str]) -> bool:
    """Tell whether ``--json`` is among the options, also where they could not be understood."""
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in options


def of_fault(fault: SandboxrunError, *, command: str) -> Failure:
    """Return the failure of a fault of ``command``, whose help is the advice where none is given."""
    plain = fault.advice == UsageError.default_advice
    advice = _HELP.format(command=command) if plain else fault.advice
    return Failure(fault.code, fault.message, advice, fault.exit_status)


def of_usage(error: typer.TyperException) -> Failure:
    """Return the failure of options that could not be understood."""
    context = getattr(error, "ctx", None)
    command = "sandboxrun" if context is None else context.command_path
    # Without text it is help that was asked for by giving nothing, and that is printed already.
    said = " ".join(error.format_message().split())
    advice = _HELP.format(command=command) if said else ""
    message = said if not said or said.endswith((".", ")")) else f"{said}."
    return Failure("usage", message, advice, error.exit_code)


def of_interruption() -> Failure:
    """Return the failure of a command that was ended by a signal before it had a result."""
    return Failure(
        "cancelled",
        "A signal ended the command before it had a result.",
        "Everything it had begun was undone.",
        CANCELLED_STATUS,
        silent=True,
    )


def of_defect(error: Exception) -> Failure:
    """Return the failure of a defect of ours. To be called while it is handled."""
    return Failure(
        "defect",
        f"A defect of sandboxrun ended this command ({type(error).__name__}).",
        f"What follows helps to mend it.\n{traceback.format_exc()}",
        DEFECT_STATUS,
    )
