"""Sandboxes to verify, on every engine and runtime there is."""

from __future__ import annotations

import pytest
from verified import ENGINES, settings_of

from sandboxrun import Settings


@pytest.fixture(params=ENGINES, scope="module")
def settings(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Return settings of each engine in turn."""
    kind, runtime = request.param
    return settings_of(kind, runtime, tmp_path_factory.mktemp("state") / "s")
