"""``sandboxrun gc``: old runs and records are removed, the chain keeps its proof."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from sandboxrun.audit.log import open_audit
from sandboxrun.audit.retention import Collected, collect
from sandboxrun.config import Settings
from sandboxrun.errors import StateError, UsageError
from sandboxrun.interfaces.cli.opened import opened_store
from sandboxrun.interfaces.cli.options import JsonOption
from sandboxrun.interfaces.cli.signals import run
from sandboxrun.opening import upkeep_of
from sandboxrun.state.clock import rfc3339
from sandboxrun.state.leases import lease
from sandboxrun.state.leftovers import sweep

_RUN_DAYS = 30.0
_AUDIT_DAYS = 365.0


def gc_command(
    runs_days: Annotated[
        float, typer.Option("--runs-days", min=0, help="Keep runs that ended within these days.")
    ] = _RUN_DAYS,
    audit_days: Annotated[
        float, typer.Option("--audit-days", min=0, help="Keep audit records of these days.")
    ] = _AUDIT_DAYS,
    as_json: JsonOption = False,
) -> None:
    """Remove old runs, their output, and audit records. What remains of the audit verifies."""
    if audit_days < runs_days:
        raise UsageError(
            "Records cannot go before the runs they are about.",
            advice="Give --audit-days at least the value of --runs-days.",
        )
    now = datetime.now(UTC)
    collected = run(
        _collected,
        Settings.read(),
        rfc3339(now - timedelta(days=runs_days)),
        rfc3339(now - timedelta(days=audit_days)),
    )
    if collected is None:
        raise StateError(
            "Another process is removing old runs at the moment.",
            advice="There is nothing to do; try again later if you like.",
        )
    if as_json:
        typer.echo(json.dumps({"runs": collected.runs, "audit_records": collected.records}))
    else:
        typer.echo(f"Removed {len(collected.runs)} runs and {collected.records} audit records.")


async def _collected(settings: Settings, runs_before: str, records_before: str) -> Collected | None:
    async with opened_store(settings) as store, lease(store, "gc") as held:
        if held is None:
            return None
        log = await open_audit(store)
        collected = await collect(log, runs_before=runs_before, records_before=records_before)
        await sweep(store, gone=collected.runs)
        await upkeep_of(store, settings).once()
        return collected
