"""Every promise is kept, on every engine and runtime."""

from __future__ import annotations

import anyio
import pytest

from sandboxrun import Settings
from sandboxrun.checks.catalogue import PROBES
from sandboxrun.checks.probe import State
from sandboxrun.verifying import Verification, verify

pytestmark = pytest.mark.engine


def test_every_promise_is_kept(settings: Settings) -> None:
    probes = tuple(probe for probe in PROBES if not probe.resource)
    results = anyio.run(verify, Verification(settings=settings, probes=probes))
    assert [f"{each.id}: {each.told}" for each in results if each.broken] == []
    assert len(results) == len(probes)
    assert sum(each.state is State.HELD for each in results) > len(probes) // 2
