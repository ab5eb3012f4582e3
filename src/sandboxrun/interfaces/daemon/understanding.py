"""Which command lines the daemon carries out: those whose result would be the same without it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import typer

from sandboxrun.config import Settings
from sandboxrun.errors import SandboxrunError
from sandboxrun.interfaces.cli.exec import EXECUTOR, ExecCommand, exec_command
from sandboxrun.interfaces.cli.exec_plan import Plan
from sandboxrun.output.host_secrets import host_secrets
from sandboxrun.policy.load import SHIPPED

_PREFIXES = ("SANDBOXRUN_", "DOCKER_", "XDG_")
_NAMES = frozenset(
    {"HOME", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "USER", "LOGNAME", "LNAME", "USERNAME"}
)
_OWN = frozenset({"SANDBOXRUN_DAEMON", "SANDBOXRUN_SLOTS"})
"""About the daemon itself."""


class Declined(Exception):  # noqa: N818 - not a fault: the command line carries it out itself
    """Something would be different here."""


def settled_by(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what of an environment decides about settings."""
    return {
        name: value
        for name, value in environment.items()
        if (name.startswith(_PREFIXES) or name in _NAMES) and name not in _OWN
    }


@dataclass(slots=True)
class _Collector:
    """Takes the plan instead of carrying it out."""

    environment: Mapping[str, str]
    plan: Plan | None = None

    def read_stdin(self) -> bytes:
        raise Declined("reading the standard input is the command line's")

    def execute(self, plan: Plan) -> int:
        self.plan = plan
        return 0


@dataclass(frozen=True, slots=True)
class Understanding:
    """What the daemon was started with."""

    settings: Settings
    environment: Mapping[str, str]

    def plan(self, arguments: list[bytes], cwd: bytes, environment: list[bytes]) -> Plan:
        """Return what a command line asks for. Blocks for a moment.

        Raises `Declined` wherever it would be carried out differently, or is not understood: the
        command line then says itself what is wrong.
        """
        theirs = dict(_pair(each) for each in environment)
        if settled_by(theirs) != settled_by(self.environment):
            raise Declined("other settings")
        ours = {secret.value for secret in host_secrets(self.environment)}
        if not {secret.value for secret in host_secrets(theirs)} <= ours:
            raise Declined("secrets that are not known here would be shown")
        plan = self._parsed([os.fsdecode(each) for each in arguments[1:]], theirs)
        if cwd != os.fsencode(Path.cwd()) and _is_relative(plan.settings, theirs):
            raise Declined("paths that mean something else here")
        if _comparable(plan.settings) != _comparable(self.settings):
            raise Declined("other settings")
        return plan

    def _parsed(self, arguments: list[str], environment: Mapping[str, str]) -> Plan:
        collector = _Collector(environment)
        command = typer.main.get_command(_application())
        try:
            with command.make_context("exec", arguments) as context:
                context.meta[EXECUTOR] = collector
                command.invoke(context)
        except typer.Exit:
            pass
        except (SandboxrunError, typer.TyperException, typer.Abort) as error:
            raise Declined(str(error)) from error
        if collector.plan is None:
            raise Declined("nothing to carry out")
        return collector.plan


def _application() -> typer.Typer:
    application = typer.Typer(add_completion=False)
    application.command("exec", cls=ExecCommand)(exec_command)
    return application


def _is_relative(settings: Settings, environment: Mapping[str, str]) -> bool:
    """Whether something of the settings depends on the directory they are read in."""
    policy = settings.policy not in SHIPPED and not Path(settings.policy).is_absolute()
    named = environment.get("SANDBOXRUN_CONFIG")
    return policy or (named is not None and not Path(named).is_absolute())


def _pair(entry: bytes) -> tuple[str, str]:
    name, _, value = entry.partition(b"=")
    return os.fsdecode(name), os.fsdecode(value)


def _comparable(settings: Settings) -> dict[str, object]:
    return settings.model_dump(exclude={"slots", "slot_idle_seconds"})
