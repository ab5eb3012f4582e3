"""Every promise is kept, on every engine and runtime."""

from __future__ import annotations

import anyio
import pytest

from sandboxrun import Settings
from sandboxrun.checks.catalogue import PROBES
from sandboxrun.checks.probe import State
from sandboxrun.checks.scenarios import SCENARIOS
from sandboxrun.verifying import Verification, verify

pytestmark = pytest.mark.engine


@pytest.mark.parametrize("slots", [0, 8], ids=["cold", "warm"])
def test_every_promise_is_kept(settings: Settings, slots: int) -> None:
    settings = settings.model_copy(update={"slots": slots})
    probes = tuple(probe for probe in PROBES if not probe.resource)
    results = anyio.run(verify, Verification(settings=settings, probes=probes, scenarios=SCENARIOS))
    assert [f"{each.id}: {each.told}" for each in results if each.broken] == []
    assert len(results) == len(probes) + len(SCENARIOS)
    assert sum(each.state is State.HELD for each in results) > len(probes) // 2
