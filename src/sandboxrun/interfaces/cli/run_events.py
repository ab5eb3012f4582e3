"""``sandboxrun runs events``: a run's log from any place, live or afterwards, from any process."""

from __future__ import annotations

import sys
from contextlib import aclosing
from typing import Annotated

import anyio
import anyio.to_thread
import typer

from sandboxrun.config import Settings
from sandboxrun.errors import OutputError
from sandboxrun.interfaces.cli.opened import opened_store
from sandboxrun.interfaces.cli.signals import run
from sandboxrun.model.event import Event, event_json
from sandboxrun.output.events import batches
from sandboxrun.output.spools import spool_path
from sandboxrun.state.runs import Runs


def events_command(
    run_id: Annotated[str, typer.Argument(metavar="RUN", help="A run's id.")],
    after: Annotated[int, typer.Option(min=0, help="Begin behind this event.")] = 0,
) -> None:
    """Print a run's events as JSON Lines, and follow it until it is settled."""
    run(_printed, Settings.read(), run_id, after)


async def _printed(settings: Settings, run_id: str, after: int) -> None:
    async with opened_store(settings) as store:
        row = await Runs(store).get(run_id)
        path = spool_path(store.directory.spool, row.run_id)
        if not path.exists():
            raise OutputError(
                f"The events of {run_id} are gone: they made room, or were too old.",
                advice="`sandboxrun runs show` still tells how it ended.",
            )
        async with aclosing(batches(path, after=after)) as stream:
            async for batch in stream:
                await anyio.to_thread.run_sync(_print, batch)


def _print(batch: list[Event]) -> None:
    sys.stdout.write("".join(event_json(event) + "\n" for event in batch))
    sys.stdout.flush()
