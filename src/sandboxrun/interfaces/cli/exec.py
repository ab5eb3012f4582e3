"""``sandboxrun exec``: one command in a container of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, Final

import typer
from pydantic import ValidationError
from typer.core import TyperCommand

from sandboxrun.config import Settings
from sandboxrun.errors import InvalidEnvironmentError, UsageError
from sandboxrun.interfaces.cli.exec_plan import Executor, InProcess, Plan
from sandboxrun.interfaces.cli.live import Mode
from sandboxrun.interfaces.cli.options import EngineOption, read_size
from sandboxrun.model.limits import Limits
from sandboxrun.model.output_limit import OnOutputLimit
from sandboxrun.model.preview import PreviewShape
from sandboxrun.model.request import Request
from sandboxrun.model.validation import usage_error

_ARGV = "sandboxrun.argv"
EXECUTOR: Final = "sandboxrun.executor"
"""Where the context holds an `Executor` other than `InProcess`."""
_OPTIONS: Final = MappingProxyType(
    {
        "cpus": "--cpus",
        "memory_bytes": "--memory",
        "pids": "--pids",
        "disk_bytes": "--disk",
        "timeout_seconds": "--timeout",
        "workspace": "--workspace",
        "cwd": "--cwd",
        "image": "--image",
        "argv": "The program's argv",
        "command": "COMMAND",
    }
)
"""What fields of limits and requests are called here."""


class ExecCommand(TyperCommand):
    """Keeps what stands behind ``--``: it tells the exec form from a shell command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - click's own type is vendored by typer
        """Cut the exec form off before click drops the ``--``."""
        if "--" in args:
            cut = args.index("--")
            ctx.meta[_ARGV] = tuple(args[cut + 1 :])
            args = args[:cut]
        return super().parse_args(ctx, args)


def exec_command(
    ctx: typer.Context,
    command: Annotated[
        str | None,
        typer.Argument(
            metavar="COMMAND", help="A shell command. Or: -- PROG ARG… to run without a shell."
        ),
    ] = None,
    workspace: Annotated[
        str | None, typer.Option("--workspace", "-w", help="Workspace; default: a throwaway one.")
    ] = None,
    cwd: Annotated[str | None, typer.Option(help="Working directory in the sandbox.")] = None,
    timeout: Annotated[
        float | None,
        typer.Option("--timeout", "-t", metavar="S", help="Limit of the command's own time."),
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option("--env", "-e", metavar="K=V", help="Visible in records. Repeatable."),
    ] = None,
    secret: Annotated[
        list[str] | None,
        typer.Option(
            "--secret",
            metavar="NAME",
            help="A variable of yours: passed on, never shown. Repeatable.",
        ),
    ] = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Mount the frozen state, read-only.")
    ] = False,
    image: Annotated[str | None, typer.Option(help="Image to run in.")] = None,
    cpus: Annotated[float | None, typer.Option(help="CPU seconds per second.")] = None,
    memory: Annotated[str | None, typer.Option(help="Memory, e.g. 512m or 2g.")] = None,
    pids: Annotated[int | None, typer.Option(help="Processes and threads.")] = None,
    disk: Annotated[str | None, typer.Option(help="Largest file, e.g. 4g.")] = None,
    expand: Annotated[
        bool, typer.Option("--expand", help="Ask about limits above the policy's maximum.")
    ] = False,
    runtime: Annotated[str | None, typer.Option(help="OCI runtime, e.g. runc.")] = None,
    network: Annotated[
        bool, typer.Option("--network", help="Ask for the network. Nobody can grant it yet.")
    ] = False,
    engine: EngineOption = None,
    principal: Annotated[str | None, typer.Option(help="Who asks.")] = None,
    conversation: Annotated[str | None, typer.Option(help="The dialogue it belongs to.")] = None,
    stdin: Annotated[
        bool, typer.Option("--stdin", help="Pass this process's standard input on.")
    ] = False,
    on_output_limit: Annotated[
        OnOutputLimit,
        typer.Option(
            metavar="end|discard", help="What happens to a run that writes more than is kept."
        ),
    ] = OnOutputLimit.END,
    keep_output: Annotated[
        bool, typer.Option("--keep-output", help="Make an artifact even of a short output.")
    ] = False,
    preview: Annotated[
        PreviewShape,
        typer.Option(
            metavar="tail|head+tail", help="Which part of a long output the outcome shows."
        ),
    ] = PreviewShape.TAIL,
    policy: Annotated[
        str | None, typer.Option(help="Host policy: default, strict, ci, rollout, or a file.")
    ] = None,
    approve: Annotated[
        bool, typer.Option("--approve", help="You say yes to what would be asked.")
    ] = False,
    wait_approval: Annotated[
        float | None,
        typer.Option(metavar="S", min=0, help="Wait so long for `sandboxrun approvals approve`."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the outcome, alone, on stdout.")
    ] = False,
    events: Annotated[bool, typer.Option("--events", help="Print events as JSON Lines.")] = False,
) -> None:
    """Run COMMAND in a fresh hardened container and exit with its status.

    The container has no network, hard limits and a scrubbed environment, and is gone afterwards.

    Exit status: the command's own; 2 usage, 75 quota, 77 refused, denied or consent required, 121
    lost, 122 output limit, 124 timed out, 125 engine, image or working directory, 126 not
    executable, 127 not found, 128+n signal, 130 cancelled, 137 out of memory.
    """
    argv: Sequence[str] | None = ctx.meta.get(_ARGV)
    if command is None and argv is None:
        raise UsageError(
            "No command was given.", advice="Try: sandboxrun exec 'echo hello'  or  exec -- ls -la"
        )
    if command is not None and argv is not None:
        raise UsageError("Give a shell command, or a program after --, and not both.")
    executor: Executor = ctx.meta.get(EXECUTOR, InProcess())
    settings = Settings.read(engine=engine, policy=policy)
    request = _request(
        command=command,
        argv=None if argv is None else tuple(argv),
        workspace=workspace,
        cwd=cwd,
        timeout_seconds=timeout,
        env=_environment(env if env is not None else []),
        secrets=_secrets(secret if secret is not None else [], executor.environment),
        on_output_limit=on_output_limit,
        keep_output=keep_output,
        preview=preview,
        read_only=read_only,
        image=image,
        limits=_limits(settings.limits, cpus=cpus, memory=memory, pids=pids, disk=disk),
        expand=expand,
        network=network,
        runtime=runtime,
        principal=principal,
        conversation=conversation,
        stdin=executor.read_stdin() if stdin else None,
    )
    mode = Mode.EVENTS if events else Mode.OUTCOME if as_json else Mode.STREAMS
    raise typer.Exit(
        executor.execute(Plan(settings, request, mode, as_json, approve, wait_approval))
    )


def _request(**fields: Any) -> Request:  # noqa: ANN401 - the request's own types
    try:
        return Request(**fields)
    except ValidationError as invalid:
        raise usage_error(invalid, names=_OPTIONS) from invalid


def _environment(pairs: Sequence[str]) -> dict[str, str]:
    environment: dict[str, str] = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator:
            raise InvalidEnvironmentError(f"--env {pair!r} has no '='.", advice="Write --env K=V.")
        environment[name] = value
    return environment


def _secrets(names: Sequence[str], ours: Mapping[str, str]) -> dict[str, str]:
    missing = [name for name in names if name not in ours]
    if missing:
        raise InvalidEnvironmentError(
            f"--secret {missing[0]}: no such variable is set.",
            advice="Export it first; its value is not given on the command line, where others see it.",
        )
    return {name: ours[name] for name in names}


def _limits(
    base: Limits, *, cpus: float | None, memory: str | None, pids: int | None, disk: str | None
) -> Limits | None:
    """Return what the options ask for on top of the settings; None when they ask for nothing.

    Only what somebody asked for is set: the rest is the policy's to say.
    """
    asked = {
        "cpus": cpus,
        "memory_bytes": None if memory is None else read_size(memory),
        "pids": pids,
        "disk_bytes": None if disk is None else read_size(disk),
    }
    given = {name: value for name, value in asked.items() if value is not None}
    if not given:
        return None
    try:
        return Limits.model_validate(base.model_dump(exclude_unset=True) | given)
    except ValidationError as invalid:
        raise usage_error(invalid, names=_OPTIONS) from invalid
