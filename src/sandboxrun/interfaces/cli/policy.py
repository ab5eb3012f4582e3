"""``sandboxrun policy``: check policy files, and explain what they decide."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from sandboxrun.approval.consents import workspace_identity
from sandboxrun.approval.workspace_policies import WorkspacePolicies
from sandboxrun.config import Settings
from sandboxrun.errors import PolicyError, UsageError
from sandboxrun.interfaces.cli.opened import opened_store
from sandboxrun.interfaces.cli.options import JsonOption
from sandboxrun.interfaces.cli.signals import run
from sandboxrun.interfaces.cli.tables import printable
from sandboxrun.policy import (
    Authority,
    Case,
    CommandText,
    Decision,
    Document,
    PolicyDigests,
    Requested,
    decide,
    implied_consent,
    load_policy,
)
from sandboxrun.policy.examples import wrong_examples
from sandboxrun.policy.explain import explain
from sandboxrun.policy.load import checked_policy, read_policy
from sandboxrun.screening import screen, screen_argv
from sandboxrun.screening.facts import Facts

app = typer.Typer(
    name="policy",
    help="Check and explain policies, and give workspaces their own.",
    no_args_is_help=True,
)

_SHOWN_ROWS = 10
PolicyOption = Annotated[
    str | None,
    typer.Option("--policy", help="Host policy: a name or a file; default: the settings' own."),
]
WorkspacePolicyOption = Annotated[
    str | None, typer.Option("--workspace-policy", help="Policy of the workspace, which narrows.")
]


class CommandLine(TyperCommand):
    """Keeps everything behind ``--`` as it is."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - click's own type is vendored by typer
        """Hand what stands behind the ``--`` to the command untouched."""
        if "--" in args:
            cut = args.index("--")
            ctx.meta["sandboxrun.words"] = tuple(args[cut + 1 :])
            args = args[:cut]
        return super().parse_args(ctx, args)


@app.command("check")
def check_command(
    file: Annotated[str, typer.Argument(help="A policy file, or the name of a shipped policy.")],
    as_json: JsonOption = False,
) -> None:
    """Check a policy: its form, the examples of its rules, and its table of examples.

    Exit status: 0 when all of it is right, 2 when not.
    """
    document = load_policy(file, screen)
    wrong = list(wrong_examples(document, screen))
    if wrong:
        lines = [
            f"  {printable(row.command)}\n    must be {row.expected}, is {row.decision.verdict}: "
            f"{row.decision.reason}"
            for row in wrong[:_SHOWN_ROWS]
        ]
        more = f"\n  and {len(wrong) - _SHOWN_ROWS} more" if len(wrong) > _SHOWN_ROWS else ""
        told = "\n".join(lines)
        raise PolicyError(
            f"{file}: {len(wrong)} of its examples are decided otherwise:\n{told}{more}",
            advice="Change the rules or the examples until they agree.",
        )
    rows = sum(map(len, (document.examples.auto, document.examples.ask, document.examples.refused)))
    if as_json:
        told_as = {"name": document.name, "digest": document.digest()}
        typer.echo(json.dumps(told_as | {"rules": len(document.rules), "examples": rows}))
        return
    typer.echo(
        f"{document.name}: {len(document.rules)} rules hold their examples, {rows} rows of the "
        f"table are right. Digest {document.digest()}."
    )


@app.command("explain", cls=CommandLine)
def explain_command(
    ctx: typer.Context,
    command: Annotated[
        str | None,
        typer.Argument(help="A shell command. Or: -- CMD, or -- PROG ARG… for the exec form."),
    ] = None,
    policy: PolicyOption = None,
    workspace_policy: WorkspacePolicyOption = None,
    image: Annotated[str | None, typer.Option(help="Image it would run in.")] = None,
    runtime: Annotated[str | None, typer.Option(help="OCI runtime it would ask for.")] = None,
    network: Annotated[bool, typer.Option("--network", help="It would ask for network.")] = False,
    env: Annotated[
        list[str] | None, typer.Option("--env", "-e", help="Name of a variable it would set.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Say what would be decided about a command, by which rule and why. Nothing is run."""
    settings = Settings.read()
    text, facts = _command(command, ctx.meta.get("sandboxrun.words"))
    host_name = settings.policy if policy is None else policy
    host = load_policy(host_name, screen)
    narrower = None if workspace_policy is None else load_policy(workspace_policy, screen)
    requested = Requested(
        form=text.form,
        image=settings.image if image is None else image,
        runtime=runtime,
        network=network,
        env_names=tuple(each.partition("=")[0] for each in env or ()),
    )
    decision = _decided(Case(command=text, facts=facts, requested=requested), host, narrower)
    if as_json:
        typer.echo(decision.model_dump_json(indent=2))
        return
    policies = [f"the host policy {host.name!r} ({printable(host_name)})"]
    if narrower is not None:
        policies.append(
            f"the workspace policy {narrower.name!r} ({printable(str(workspace_policy))})"
        )
    typer.echo(explain(decision, text, facts, policies=policies))


@app.command("attach")
def attach_command(
    workspace: Annotated[str, typer.Argument(metavar="WORKSPACE", help="Its name.")],
    file: Annotated[str, typer.Argument(help="A policy file, or the name of a shipped policy.")],
) -> None:
    """Give a workspace a policy of its own, which narrows the host's.

    It has to be consented to before the next run: `sandboxrun consent give WORKSPACE`.
    """
    settings = Settings.read()
    source, text = read_policy(file)
    checked_policy(text, screen, source=source)

    async def work() -> str:
        async with opened_store(settings) as store:
            identity = await workspace_identity(store, workspace)
            policies = WorkspacePolicies(store)
            return (await policies.attach(identity, text, by=settings.principal)).name

    name = run(work)
    typer.echo(
        f"{printable(workspace)} now has the policy {name!r}. `sandboxrun consent give "
        f"{printable(workspace)}` accepts it; until then nothing runs there."
    )


@app.command("detach")
def detach_command(
    workspace: Annotated[str, typer.Argument(metavar="WORKSPACE", help="Its name.")],
) -> None:
    """Leave a workspace with the host's policy only. That has to be consented to, too."""
    settings = Settings.read()

    async def work() -> bool:
        async with opened_store(settings) as store:
            identity = await workspace_identity(store, workspace)
            return await WorkspacePolicies(store).detach(identity)

    had = run(work)
    typer.echo("Only the host's policy is left." if had else "It had no policy of its own.")


def _command(command: str | None, words: tuple[str, ...] | None) -> tuple[CommandText, Facts]:
    if (command is None) == (not words):
        raise UsageError("Give one command, before or after `--`.")
    if words is not None and len(words) > 1:
        parts = tuple(word.encode("utf-8", "surrogateescape") for word in words)
        return CommandText("argv", parts, "/workspace"), screen_argv(parts)
    script = words[0] if words else str(command)
    raw = script.encode("utf-8", "surrogateescape")
    return CommandText("shell", (raw,), "/workspace"), screen(raw)


def _decided(case: Case, host: Document, narrower: Document | None) -> Decision:
    digests = PolicyDigests.of(host, narrower)
    consent = implied_consent("you", None, digests, at="")
    authority = Authority(principal="you", workspace=None, consent=consent)
    return decide(case, host, narrower, authority)
