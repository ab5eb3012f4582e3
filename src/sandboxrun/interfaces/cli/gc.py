"""``sandboxrun gc``: old runs and records are removed, the chain keeps its proof."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from sandboxrun.audit.log import open_audit
from sandboxrun.audit.retention import Collected, collect
from sandboxrun.config import Settings
from sandboxrun.engine.connect import choose_engine
from sandboxrun.engine.docker import connect
from sandboxrun.errors import EngineError, StateError, UsageError
from sandboxrun.foreign import (
    Foreign,
    RemovedForeign,
    foreign_installations,
    remove_foreign,
)
from sandboxrun.interfaces.cli.engine import search_of
from sandboxrun.interfaces.cli.opened import opened_store
from sandboxrun.interfaces.cli.options import EngineOption, JsonOption
from sandboxrun.interfaces.cli.signals import run
from sandboxrun.interfaces.cli.tables import printable
from sandboxrun.opening import upkeep_of
from sandboxrun.state.clock import rfc3339
from sandboxrun.state.leases import lease
from sandboxrun.state.leftovers import sweep

_RUN_DAYS = 30.0
_AUDIT_DAYS = 365.0


@dataclass(frozen=True, slots=True)
class _Done:
    """What was removed, and what others left on the engine."""

    collected: Collected
    foreign: tuple[Foreign, ...]
    """Installations that nothing shows to live."""
    removed: dict[str, RemovedForeign]


def gc_command(
    runs_days: Annotated[
        float, typer.Option("--runs-days", min=0, help="Keep runs that ended within these days.")
    ] = _RUN_DAYS,
    audit_days: Annotated[
        float, typer.Option("--audit-days", min=0, help="Keep audit records of these days.")
    ] = _AUDIT_DAYS,
    foreign: Annotated[
        list[str] | None,
        typer.Option(
            "--foreign",
            metavar="INSTALLATION",
            help="Remove what another installation left on the engine. Repeatable.",
        ),
    ] = None,
    engine: EngineOption = None,
    as_json: JsonOption = False,
) -> None:
    """Remove old runs, their output, and audit records. What remains of the audit verifies.

    What other installations left on the engine is listed where nothing shows that they live: a
    state directory that is deleted leaves its volumes behind. `--foreign` removes it; those of an
    installation that lives are never removed.
    """
    if audit_days < runs_days:
        raise UsageError(
            "Records cannot go before the runs they are about.",
            advice="Give --audit-days at least the value of --runs-days.",
        )
    now = datetime.now(UTC)
    done = run(
        _collected,
        Settings.read(engine=engine),
        rfc3339(now - timedelta(days=runs_days)),
        rfc3339(now - timedelta(days=audit_days)),
        () if foreign is None else tuple(foreign),
    )
    if done is None:
        raise StateError(
            "Another process is removing old runs at the moment.",
            advice="There is nothing to do; try again later if you like.",
        )
    if as_json:
        typer.echo(json.dumps(_document(done)))
    else:
        typer.echo("\n".join(_lines(done)))


async def _collected(
    settings: Settings, runs_before: str, records_before: str, foreign: tuple[str, ...]
) -> _Done | None:
    async with opened_store(settings) as store, lease(store, "gc") as held:
        if held is None:
            return None
        log = await open_audit(store)
        collected = await collect(log, runs_before=runs_before, records_before=records_before)
        await sweep(store, gone=collected.runs)
        await upkeep_of(store, settings).once()
        others, removed = await _of_others(settings, store.directory.installation_id, foreign)
        return _Done(collected, others, removed)


async def _of_others(
    settings: Settings, ours: str, wanted: tuple[str, ...]
) -> tuple[tuple[Foreign, ...], dict[str, RemovedForeign]]:
    """Look for what others left, without starting an engine for that."""
    choice = await choose_engine(search_of(settings))
    if choice.managed is not None and not choice.managed.is_running() and not wanted:
        return (), {}
    try:
        engine = await connect(choice.url)
    except EngineError:
        if wanted:
            raise
        return (), {}
    try:
        found = {each.installation: each for each in await foreign_installations(engine, ours)}
        removed = {}
        for name in wanted:
            removed[name] = await remove_foreign(engine, _removable(found, name))
            del found[name]
    finally:
        await engine.aclose()
    return tuple(each for each in found.values() if each.alive is None), removed


def _removable(found: Mapping[str, Foreign], name: str) -> Foreign:
    foreign = found.get(name)
    if foreign is None:
        raise UsageError(
            f"The engine has nothing of another installation {name!r}.",
            advice="`sandboxrun gc` lists those there are.",
        )
    if foreign.alive is not None:
        raise UsageError(
            f"The installation {name} lives. {foreign.alive}",
            advice="Use that installation's own commands (SANDBOXRUN_STATE_DIR) instead.",
        )
    return foreign


def _document(done: _Done) -> dict[str, object]:
    return {
        "runs": done.collected.runs,
        "audit_records": done.collected.records,
        "foreign": [
            {
                "installation": each.installation,
                "state": each.place,
                "gone": each.gone,
                "containers": each.containers,
                "volumes": each.volumes,
            }
            for each in done.foreign
        ],
        "removed_foreign": {name: asdict(each) for name, each in done.removed.items()},
    }


def _lines(done: _Done) -> Iterator[str]:
    collected = done.collected
    yield f"Removed {len(collected.runs)} runs and {collected.records} audit records."
    for name, each in done.removed.items():
        left = f"; left: {', '.join(each.left)}" if each.left else ""
        yield f"Removed {_counted(each.containers, each.volumes)} of {name}{left}."
    if not done.foreign:
        return
    yield "\nOther installations left these on the engine; nothing shows that they live:"
    for foreign in done.foreign:
        where = "its state directory is not known"
        if foreign.place is not None:
            place = printable(foreign.place)
            where = f"its state directory {place} is {'gone' if foreign.gone else 'elsewhere'}"
        counts = _counted(len(foreign.containers), len(foreign.volumes))
        yield f"  {printable(foreign.installation)}  {counts}; {where}"
    yield "`sandboxrun gc --foreign INSTALLATION` removes those of one, with all its workspaces."


def _counted(containers: int, volumes: int) -> str:
    some = ((containers, "container"), (volumes, "volume"))
    return " and ".join(f"{count} {name}{'' if count == 1 else 's'}" for count, name in some)
