"""What is kept of runs' output is kept within its bounds."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread

from sandboxrun.model.artifact import Gone
from sandboxrun.output.artifacts import Artifacts
from sandboxrun.output.spools import SpoolPolicy, collect_spools

UPKEEP_SECONDS: Final = 300.0
"""How often a runner looks after the bounds. New artifacts make their own room."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """What was removed."""

    artifacts: list[tuple[str, Gone]]
    spools: list[str]
    """Ids of their runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upkeep:
    """Artifacts and spools of one state directory."""

    artifacts: Artifacts
    spools: Path
    policy: SpoolPolicy
    unsettled: Callable[[], Awaitable[AbstractSet[str]]]
    """Returns the ids of runs whose logs have to stay."""

    async def once(self) -> Removed:
        """Remove what is too old or too much, oldest first.

        Raises `OutputError` and the faults of the index and of ``unsettled``. Cancelling leaves
        the rest for the next time.
        """
        artifacts = await self.artifacts.collect()
        unsettled = await self.unsettled()
        spools = await anyio.to_thread.run_sync(
            lambda: collect_spools(
                self.spools,
                self.policy,
                now=time.time(),
                may_go=lambda run_id: run_id not in unsettled,
            )
        )
        return Removed(artifacts=artifacts, spools=spools)

    async def for_ever(self) -> None:
        """Do it now and every `UPKEEP_SECONDS` until cancelled. Faults and cancelling: as `once`."""
        while True:
            await self.once()
            await anyio.sleep(UPKEEP_SECONDS)
