"""The rules of the ledger, for any claims, bounds and order of events."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp

import anyio
from anyio.from_thread import start_blocking_portal
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.quota_samples import DEAD, Containers, amounts, claim, ledger_in

from sandboxrun.errors import QuotaExceededError
from sandboxrun.model.quotas import Quota, Quotas, WhenFull
from sandboxrun.quota import rows
from sandboxrun.quota.admission import admit, round_for, shortages, usage_of
from sandboxrun.quota.bounds import bounds_of
from sandboxrun.quota.claim import Bounds, Claim, Resource, Scope, Ticket
from sandboxrun.quota.ledger import Ledger

NAMES = st.sampled_from(["a", "b", "c"])
SOME = st.integers(0, 4)
claims = st.builds(
    claim,
    conversation=st.none() | NAMES,
    workspace=st.none() | NAMES,
    principal=st.sampled_from(["p", "q"]),
    wanted=st.builds(
        amounts, runs=st.just(1), memory=SOME, seconds=SOME, writers=st.integers(0, 1)
    ),
)
bound = st.dictionaries(st.sampled_from(list(Resource)), st.integers(1, 4 << 20), max_size=3)
bounds = st.dictionaries(st.sampled_from(list(Scope)), bound, max_size=4)


def tickets_of(asked: list[Claim], limits: Bounds) -> list[Ticket]:
    """Return claims numbered as the ledger does when they all arrive while nothing is granted."""
    made: list[Ticket] = []
    for number, each in enumerate(asked):
        made.append(Ticket(number, round_for(each, made, 0), each, limits, held=False))
    return made


@given(st.lists(claims, max_size=12), bounds)
def test_what_is_granted_fits_and_nobody_who_fits_waits_for_nothing(
    asked: list[Claim], limits: Bounds
) -> None:
    tickets = tickets_of(asked, limits)
    granted = admit(tickets, {})
    usage = usage_of(each.claim for each in granted)
    for (subject, resource), used in usage.items():
        assert used <= limits.get(subject.scope, {}).get(resource, used)
    closed = {
        (lack.subject, lack.resource)
        for each in tickets
        if each not in granted
        for lack in shortages(each, usage)
    }
    for ticket in tickets:
        if ticket in granted or shortages(ticket, usage):
            continue
        # It fits and does not go: it would overtake somebody who lacks something it needs, too.
        needed = {
            (subject, resource)
            for subject in ticket.claim.subjects
            for resource, amount in ticket.claim.amounts.items()
            if amount
        }
        assert needed & closed


@given(st.lists(NAMES, min_size=1, max_size=30), st.integers(1, 3))
def test_a_round_has_one_run_of_each_conversation(asked: list[str], at_once: int) -> None:
    limits = {Scope.HOST: {Resource.RUNS: at_once}}
    tickets = tickets_of([claim(each) for each in asked], limits)
    served: list[str] = []
    while tickets:
        granted = admit(tickets, {})
        assert granted
        served += [str(each.claim.conversation) for each in granted]
        tickets = [each for each in tickets if each not in granted]
    counts: Counter[str] = Counter()
    left = Counter(asked)
    for each in served:
        counts[each] += 1
        left[each] -= 1
        # Nobody is a turn ahead of somebody who still waits.
        assert all(counts[each] - counts[other] <= 1 for other in left if left[other])
    assert Counter(served) == Counter(asked)


@given(st.lists(claims, min_size=1, max_size=10), bounds)
def test_nobody_waits_for_ever(asked: list[Claim], limits: Bounds) -> None:
    """Whatever could run alone runs at some point, if what is granted ends."""
    alone = [each for each in tickets_of(asked, limits) if not shortages(each, {})]
    while alone:
        granted = admit(alone, {})
        assert granted
        alone = [each for each in alone if each not in granted]


QUOTAS = Quotas(
    host=Quota(runs=4),
    conversation=Quota(runs=2),
    principal=Quota(memory_bytes=200 << 20),
    when_full=WhenFull.REFUSE,
)


@asynccontextmanager
async def two_ledgers(path: Path, containers: Containers) -> AsyncIterator[tuple[Ledger, Ledger]]:
    """Open one that refuses and one that waits, on the same store."""
    waiting = QUOTAS.model_copy(update={"when_full": WhenFull.WAIT})
    async with AsyncExitStack() as opened:
        refuses = await opened.enter_async_context(ledger_in(path, QUOTAS, containers=containers))
        waits = await opened.enter_async_context(ledger_in(path, waiting, containers=containers))
        yield refuses, waits


@dataclass
class Holding:
    claim: Claim
    ends: anyio.Event = field(default_factory=anyio.Event)
    granted: anyio.Event = field(default_factory=anyio.Event)
    settled: anyio.Event = field(default_factory=anyio.Event)
    told: anyio.Event = field(default_factory=anyio.Event)
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    refused: bool = False


class LedgerMachine(RuleBasedStateMachine):
    """Runs start, wait, end, are cancelled, and die with their process, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.path = Path(mkdtemp()) / "s"
        self.holdings: list[Holding] = []
        self.dead: list[Claim] = []

    @initialize()
    def open(self) -> None:
        self._portal_manager = start_blocking_portal()
        self.portal = self._portal_manager.__enter__()
        self._ledgers = self.portal.wrap_async_context_manager(two_ledgers(self.path, Containers()))
        self.refuses, self.waits = self._ledgers.__enter__()

    async def _hold(self, ledger: Ledger, holding: Holding) -> None:
        try:
            with holding.scope:
                async with ledger.reserve(holding.claim, waiting=lambda _: holding.told.set()):
                    holding.granted.set()
                    await holding.ends.wait()
        except QuotaExceededError:
            holding.refused = True
        finally:
            holding.settled.set()

    async def _begun(self, holding: Holding) -> None:
        """Wait until it is granted, refused, or says that it waits."""
        async with anyio.create_task_group() as group:

            async def either(event: anyio.Event) -> None:
                await event.wait()
                group.cancel_scope.cancel()

            for event in (holding.granted, holding.settled, holding.told):
                group.start_soon(either, event)

    @rule(wanted=claims, waits=st.booleans())
    def start(self, wanted: Claim, waits: bool) -> None:
        holding = self.portal.call(Holding, wanted)
        ledger = self.waits if waits else self.refuses
        self.portal.start_task_soon(self._hold, ledger, holding)
        self.portal.call(self._begun, holding)
        assert not (waits and holding.refused) or shortages(
            Ticket(0, 0, wanted, bounds_of(QUOTAS), held=False), {}
        )
        if not holding.settled.is_set():
            self.holdings.append(holding)

    @precondition(lambda self: self.holdings)
    @rule(data=st.data(), cancel=st.booleans())
    def end(self, data: st.DataObject, cancel: bool) -> None:
        holding = data.draw(st.sampled_from(self.holdings))
        self.holdings.remove(holding)
        if cancel or not holding.granted.is_set():
            self.portal.call(holding.scope.cancel)
        else:
            self.portal.call(holding.ends.set)
        self.portal.call(holding.settled.wait)

    @rule(wanted=claims)
    def die(self, wanted: Claim) -> None:
        """Somebody asks and is killed, granted or not."""
        before = self.refuses.store.owner
        self.refuses.store.owner = DEAD
        self.portal.call(self.refuses._ask, wanted, bounds_of(QUOTAS))
        self.refuses.store.owner = before

    @rule()
    def reclaim(self) -> None:
        self.portal.call(self.refuses.reclaim)
        found = self.portal.call(self.refuses.store.read, rows.rows)
        assert all(each.owner != DEAD for each in found)

    @invariant()
    def bounded(self) -> None:
        if not hasattr(self, "portal"):
            return
        found = self.portal.call(self.refuses.store.read, rows.rows)
        usage = usage_of(each.ticket.claim for each in found if each.ticket.held)
        for (subject, resource), used in usage.items():
            assert used <= bounds_of(QUOTAS)[subject.scope].get(resource, used)
        alive = {each.ticket.claim.run_id for each in found if each.owner != DEAD}
        assert alive == {each.claim.run_id for each in self.holdings}

    def teardown(self) -> None:
        if not hasattr(self, "portal"):
            return
        for holding in self.holdings:
            self.portal.call(holding.scope.cancel)
            self.portal.call(holding.settled.wait)
        self.portal.call(self.refuses.reclaim)
        assert self.portal.call(self.refuses.store.read, rows.rows) == ()
        self._ledgers.__exit__(None, None, None)
        self._portal_manager.__exit__(None, None, None)
        shutil.rmtree(self.path.parent)


def test_the_ledger_keeps_its_bounds_whatever_happens() -> None:
    run_state_machine_as_test(
        LedgerMachine,
        settings=settings(
            max_examples=25,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
