"""The engines whose sandboxes are verified."""

from __future__ import annotations

from pathlib import Path

import pytest

from real_engine import engine_url
from sandboxrun import Settings
from sandboxrun.engine.protocol import EngineKind

ENGINES = [
    pytest.param((EngineKind.DOCKER, "crun"), marks=pytest.mark.docker, id="docker-crun"),
    pytest.param((EngineKind.DOCKER, "runc"), marks=pytest.mark.docker, id="docker-runc"),
    pytest.param((EngineKind.PODMAN, None), marks=pytest.mark.podman, id="podman-crun"),
]


def settings_of(kind: EngineKind, runtime: str | None, state: Path) -> Settings:
    """Return settings of one engine, with a state directory of its own."""
    return Settings(state_dir=state, engine=engine_url(kind), runtime=runtime)
