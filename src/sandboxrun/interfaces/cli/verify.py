"""``sandboxrun verify``: what a sandbox promises, tried out in real ones."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

import anyio
import typer

from sandboxrun.checks.catalogue import PROBES
from sandboxrun.checks.junit import junit
from sandboxrun.checks.probe import Claim, Probe, Severity, State
from sandboxrun.checks.result import Result, all_kept
from sandboxrun.checks.scenarios import SCENARIOS, Scenario
from sandboxrun.checks.waivers import read_waivers
from sandboxrun.config import Settings
from sandboxrun.errors import UsageError
from sandboxrun.interfaces.cli.options import EngineOption, JsonOption
from sandboxrun.interfaces.cli.tables import print_table
from sandboxrun.verifying import Verification, verify

_BROKEN = 1
_ALL: Final[tuple[Probe | Scenario, ...]] = (*PROBES, *SCENARIOS)
_STATES = (State.HELD, State.OPEN, State.NOT_APPLICABLE, State.UNTESTED)


def verify_command(
    image: Annotated[str | None, typer.Option(help="Image to run in.")] = None,
    policy: Annotated[
        str | None, typer.Option("--policy", help="Host policy whose limits are in force.")
    ] = None,
    runtime: Annotated[str | None, typer.Option(help="OCI runtime, e.g. runc.")] = None,
    engine: EngineOption = None,
    resource: Annotated[
        bool, typer.Option("--resource", help="Also take every resource up to its limit.")
    ] = False,
    only: Annotated[
        list[str] | None, typer.Option("--only", help="Only this probe or group. Repeatable.")
    ] = None,
    waivers: Annotated[
        Path | None, typer.Option("--waivers", help="File of promises you accept as open.")
    ] = None,
    junit_file: Annotated[
        Path | None, typer.Option("--junit", help="Also write JUnit XML to this file.")
    ] = None,
    list_only: Annotated[
        bool, typer.Option("--list", help="List the probes and run none.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Verify in real sandboxes what they promise to prevent.

    Every probe holds, is open, or is not applicable, which is neither. Exit status: 0 when every
    promised property held or is waived, 1 otherwise.
    """
    chosen = _chosen(only or [], resource=resource)
    if list_only:
        _list(chosen, as_json=as_json)
        return
    accepted = read_waivers(waivers, {each.id for each in _ALL}, datetime.now(UTC).date())
    settings = Settings.read(engine=engine, runtime=runtime, policy=policy, image=image)
    wanted = Verification(
        settings=settings,
        probes=tuple(each for each in chosen if isinstance(each, Probe)),
        scenarios=tuple(each for each in chosen if isinstance(each, Scenario)),
        waivers=accepted,
    )
    results = anyio.run(verify, wanted)
    if junit_file is not None:
        _write(junit_file, junit(results))
    if as_json:
        typer.echo(json.dumps([result.as_json() for result in results], indent=1))
    else:
        _show(results)
    if not all_kept(results):
        raise typer.Exit(_BROKEN)


def _chosen(only: Sequence[str], *, resource: bool) -> tuple[Probe | Scenario, ...]:
    unknown = set(only) - {each.id for each in _ALL} - {each.group.value for each in _ALL}
    if unknown:
        raise UsageError(
            f"No probe and no group is called {min(unknown)!r}.",
            advice="`sandboxrun verify --list` shows the probes.",
        )
    return tuple(
        each
        for each in _ALL
        if (resource or each.id in only or not (isinstance(each, Probe) and each.resource))
        and (not only or {each.id, each.group.value} & set(only))
    )


def _list(probes: Sequence[Claim], *, as_json: bool) -> None:
    if as_json:
        rows = [
            {"id": each.id, "group": each.group, "severity": each.severity, "promise": each.promise}
            for each in probes
        ]
        typer.echo(json.dumps(rows, indent=1))
        return
    print_table(
        ("PROBE", "SEVERITY", "PROMISE"),
        ((each.id, each.severity.value, each.promise) for each in probes),
    )


def _show(results: Sequence[Result]) -> None:
    """Print what did not hold, one by one; then all of them by severity."""
    notable = [result for result in results if result.state is not State.HELD]
    if notable:
        print_table(
            ("PROBE", "SEVERITY", "STATE", "FOUND"),
            ((each.id, each.severity.value, _state(each), each.told) for each in notable),
        )
    counts = Counter((result.severity, result.state) for result in results)
    print_table(
        ("SEVERITY", *(state.value.upper() for state in _STATES)),
        (
            (severity.value, *(str(counts[severity, state]) for state in _STATES))
            for severity in Severity
        ),
    )
    broken = sum(result.broken for result in results)
    typer.echo(
        f"{len(results)} probes: every promise that could be tried was kept."
        if not broken
        else f"{len(results)} probes: {broken} promises are not kept."
    )


def _state(result: Result) -> str:
    if result.broken:
        return f"{result.state.value.upper()}"
    return result.state.value


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}.") from error
