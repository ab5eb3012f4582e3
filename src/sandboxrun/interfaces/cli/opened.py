"""The store, as commands open it that start nothing."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio.to_thread

from sandboxrun.config import Settings
from sandboxrun.interfaces.cli.tables import printable
from sandboxrun.state.directory import StateDirectory
from sandboxrun.state.store import Store, open_store


@asynccontextmanager
async def opened_store(settings: Settings) -> AsyncIterator[Store]:
    """Open the state directory and its store, and say loudly when a damaged one was replaced.

    Raises `StateError`. Leaving closes both.
    """
    directory = await anyio.to_thread.run_sync(StateDirectory.open, settings.state_dir)
    with directory:
        async with open_store(directory) as store:
            if store.opened.damage is not None:
                sys.stderr.write(
                    f"sandboxrun: {printable(store.opened.damage)} It was set aside as "
                    f"{store.opened.rebuilt_from}; a new one was made.\n"
                )
            yield store
