"""The bars on labelled commands."""

from __future__ import annotations

import pytest
from screening_corpora import NAMES, score


@pytest.mark.parametrize("name", NAMES)
def test_the_bars_hold(name: str) -> None:
    found = score(name)
    assert found.counts["failed"] == 0
    assert found.counts["never->auto"] == 0, found.wrong
    assert found.counts["ask->auto"] == 0, found.wrong
    assert found.counts["auto->never"] == 0, found.wrong
    assert found.counts["mutating->read_only"] == 0, found.wrong
    assert found.share("never->ask", "never") <= 0.05, found.wrong
    assert found.share("auto->ask", "auto") <= 0.05, found.wrong
    assert found.share("read_only->mutating", "read_only") <= 0.10, found.wrong
