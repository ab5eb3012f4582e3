"""Claims and ledgers as tests need them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from sandboxrun.model.ids import new_id
from sandboxrun.model.limits import MIB
from sandboxrun.model.quotas import Quotas
from sandboxrun.quota.claim import Amounts, Claim, Resource
from sandboxrun.quota.ledger import Ledger
from sandboxrun.state.directory import StateDirectory
from sandboxrun.state.owner import Owner
from sandboxrun.state.store import open_store

DEAD = Owner(pid=1, start_ticks=1, boot_id="0" * 8 + "-0000" * 3 + "-" + "0" * 12, pid_namespace=1)
"""A process of another boot."""


def amounts(runs: int = 1, memory: int = 64, *, seconds: float = 0, writers: int = 0) -> Amounts:
    return {
        Resource.RUNS: runs,
        Resource.MEMORY: memory * MIB,
        Resource.SECONDS: round(seconds * 1000),
        Resource.WRITERS: writers,
    }


def claim(
    conversation: str | None = None,
    workspace: str | None = None,
    principal: str = "p",
    wanted: Amounts | None = None,
) -> Claim:
    return Claim(
        run_id=new_id("run"),
        principal=principal,
        conversation=conversation,
        workspace=workspace,
        amounts=amounts() if wanted is None else wanted,
    )


class Containers:
    """Stands for the engine: remembers whose containers had to go, and may refuse."""

    def __init__(self) -> None:
        self.ended: list[str] = []
        self.fault: Exception | None = None

    async def end(self, owner: str) -> None:
        await anyio.lowlevel.checkpoint()
        if self.fault is not None:
            raise self.fault
        self.ended.append(owner)


@asynccontextmanager
async def ledger_in(
    path: Path, quotas: Quotas, *, owner: Owner | None = None, containers: Containers | None = None
) -> AsyncIterator[Ledger]:
    """Open a ledger and serve it; with ``owner`` it acts for another process."""
    ends = Containers() if containers is None else containers
    with StateDirectory.open(path) as directory:
        async with open_store(directory) as store, anyio.create_task_group() as group:
            if owner is not None:
                store.owner = owner
            ledger = Ledger(store, quotas, ends.end)
            group.start_soon(ledger.serve)
            yield ledger
            group.cancel_scope.cancel()
