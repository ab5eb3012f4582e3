"""The ledger: what every run of every process holds, reserved in one transaction.

A ticket belongs to the process that asked for it. What a dead process held is given back only
once its containers are gone, so that the engine never runs more than the books say.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import anyio
import anyio.to_thread
import structlog

from sandboxrun.errors import EngineError, QuotaExceededError, StateError
from sandboxrun.model.quotas import Quotas, WhenFull
from sandboxrun.quota import rows
from sandboxrun.quota.admission import Shortage, shortages, usage_of
from sandboxrun.quota.bounds import bounds_of
from sandboxrun.quota.claim import Bounds, Claim, Resource
from sandboxrun.state.owner import Owner
from sandboxrun.state.store import Store

POLL_SECONDS: Final = 0.05
"""How late it is noticed that another process has granted a ticket of ours; while any waits."""
TICK_SECONDS: Final = 1.0
"""Between two looks for dead owners, for time that no longer counts, and for what is to be given
back and could not be."""
RELEASE_SECONDS: Final = 10.0
"""How long giving back may take now; later it is tried again."""

EndContainers: TypeAlias = Callable[[str], Awaitable[object]]
"""Removes the containers of an owner who is dead. Raises engine faults."""
_LESS: Final = "Ask for less (--cpus, --memory, --pids, --disk, --timeout), or raise the quota."


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How a ticket stands."""

    held: bool
    lacking: tuple[Shortage, ...] = ()

    @property
    def is_lasting(self) -> bool:
        """Whether waiting is of no use."""
        return any(each.is_lasting for each in self.lacking)

    def sentence(self) -> str:
        """Say why it is not granted."""
        if not self.lacking:
            return "Other runs that wait for the same come first."
        # What can never be is said first.
        return min(self.lacking, key=lambda each: not each.is_lasting).sentence()


@dataclass(slots=True)
class Reservation:
    """What one run holds. Made by `Ledger.reserve`."""

    spent_seconds: float = 0.0
    """How long the command took; set by its holder before it leaves."""


@dataclass(slots=True)
class Ledger:
    """The quotas of one process on the store of all. `serve` must be running while runs wait."""

    store: Store
    quotas: Quotas
    end_containers: EndContainers
    _waiters: dict[str, anyio.Event] = field(default_factory=dict)
    _owed: dict[str, tuple[Claim, int]] = field(default_factory=dict)
    """What could not be given back yet, by run."""
    _busy: anyio.Event = field(default_factory=anyio.Event)

    @asynccontextmanager
    async def reserve(
        self, claim: Claim, *, waiting: Callable[[str], None] | None = None
    ) -> AsyncIterator[Reservation]:
        """Hold what ``claim`` asks for during the block, waiting for it where quotas say so.

        ``waiting`` is called once with a sentence if there is a wait. Raises `QuotaExceededError`
        with the numbers, and `StateError`. Cancelling leaves the line or gives back; a process
        that dies is passed over, and what it held is given back after its containers.
        """
        reservation = Reservation()
        try:
            await self._acquire(claim, waiting)
            yield reservation
        finally:
            with anyio.CancelScope(shield=True):
                await self._release(claim, reservation)

    async def serve(self) -> None:
        """Keep the line moving while runs of this process wait. Run as one task.

        A fault is logged and looked past. Cancelling leaves the tickets as rows.
        """
        log = structlog.get_logger()
        ticked = anyio.current_time()
        while True:
            if not self._waiters and not self._owed:
                self._busy = anyio.Event()
                await self._busy.wait()
            try:
                self._wake(await self.store.read(lambda tx: rows.held_of(tx, self.store.owner)))
                if anyio.current_time() >= ticked + TICK_SECONDS:
                    ticked = anyio.current_time()
                    await self._tick()
            except (StateError, EngineError) as fault:
                log.warning("quotas_not_served", error=fault.message)
            await anyio.sleep(POLL_SECONDS)

    async def reclaim(self) -> int:
        """Give back what dead processes held, once their containers are gone; return how many.

        Raises `StateError` and engine faults. Cancelling leaves the rest for the next time.
        """
        found = await self.store.read(rows.rows)
        dead = await anyio.to_thread.run_sync(_dead, frozenset(each.owner for each in found))
        for owner in dead:
            await self.end_containers(str(owner))
        gone = [each.ticket.claim.run_id for each in found if each.owner in dead]
        if gone:
            await self._drop(*gone)
        return len(gone)

    async def _acquire(self, claim: Claim, waiting: Callable[[str], None] | None) -> None:
        bounds = bounds_of(self.quotas)
        event = self._waiters[claim.run_id] = anyio.Event()
        try:
            standing = await self._ask(claim, bounds)
            if standing.is_lasting:
                raise QuotaExceededError(standing.sentence(), advice=_LESS)
            if not standing.held and await self._reclaimed():
                standing = await self._standing(claim.run_id)
            if not standing.held:
                await self._wait(claim.run_id, standing, event, waiting)
        finally:
            del self._waiters[claim.run_id]

    async def _wait(
        self,
        run_id: str,
        standing: Standing,
        event: anyio.Event,
        waiting: Callable[[str], None] | None,
    ) -> None:
        if self.quotas.when_full is WhenFull.REFUSE:
            raise QuotaExceededError(standing.sentence())
        if waiting is not None:
            waiting(standing.sentence())
        self._busy.set()
        with anyio.move_on_after(self.quotas.wait_seconds):
            await event.wait()
            return
        standing = await self._standing(run_id)
        if not standing.held:
            waited = f"It waited {self.quotas.wait_seconds:g} s for its turn."
            raise QuotaExceededError(f"{standing.sentence()} {waited}")

    async def _reclaimed(self) -> bool:
        try:
            return await self.reclaim() > 0
        except EngineError:
            # Whether the dead's containers are gone is not known: what they held stays held.
            return False

    async def _ask(self, claim: Claim, bounds: Bounds) -> Standing:
        """Stand in line and grant what can be granted; return how this one stands."""

        def ask(tx: sqlite3.Connection) -> tuple[tuple[str, ...], Standing]:
            rows.add(tx, claim, bounds, self.store.owner)
            granted = rows.grant(tx, since=self._since())
            own = claim.run_id in granted
            return granted, Standing(held=True) if own else self._look(tx, claim.run_id)

        granted, standing = await self.store.write(ask, durable=False)
        self._wake(granted)
        return standing

    async def _standing(self, run_id: str) -> Standing:
        return await self.store.read(lambda tx: self._look(tx, run_id))

    def _look(self, tx: sqlite3.Connection, run_id: str) -> Standing:
        found = rows.rows(tx)
        own = next((each.ticket for each in found if each.ticket.claim.run_id == run_id), None)
        if own is None:
            raise StateError(f"The ticket of {run_id} is gone from the ledger of quotas.")
        if own.held:
            return Standing(held=True)
        usage = usage_of(each.ticket.claim for each in found if each.ticket.held)
        usage.update(rows.spent_by(tx, [own], since=self._since()))
        return Standing(held=False, lacking=shortages(own, usage))

    async def _release(self, claim: Claim, reservation: Reservation) -> None:
        self._owed[claim.run_id] = (claim, round(reservation.spent_seconds * 1000))
        with anyio.move_on_after(RELEASE_SECONDS):
            try:
                await self._give_back(claim.run_id)
            except StateError as fault:
                structlog.get_logger().warning("quota_not_given_back", error=fault.message)
        if self._owed:
            self._busy.set()

    async def _give_back(self, run_id: str) -> None:
        claim, milliseconds = self._owed[run_id]
        counts = any(Resource.SECONDS in each for each in bounds_of(self.quotas).values())

        def give_back(tx: sqlite3.Connection) -> tuple[str, ...]:
            rows.drop(tx, (run_id,))
            if counts and milliseconds > 0:
                rows.spend(tx, claim, milliseconds, since=self._since())
            return rows.grant(tx, since=self._since())

        self._wake(await self.store.write(give_back, durable=False))
        self._owed.pop(run_id, None)

    async def _drop(self, *run_ids: str) -> None:
        def drop(tx: sqlite3.Connection) -> tuple[str, ...]:
            rows.drop(tx, run_ids)
            return rows.grant(tx, since=self._since())

        self._wake(await self.store.write(drop, durable=False))

    async def _tick(self) -> None:
        for run_id in tuple(self._owed):
            await self._give_back(run_id)
        await self.reclaim()
        await self._drop()

    def _wake(self, granted: tuple[str, ...] | frozenset[str]) -> None:
        for run_id in granted:
            if run_id in self._waiters:
                self._waiters[run_id].set()

    def _since(self) -> float:
        return time.time() - self.quotas.window_seconds


def _dead(owners: frozenset[Owner]) -> frozenset[Owner]:
    return frozenset(each for each in owners if not each.is_alive())
