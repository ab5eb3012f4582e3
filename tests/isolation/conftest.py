"""Sandboxes to verify, on every engine and runtime there is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Engine:
    """One engine with one runtime."""

    settings: Settings


@pytest.fixture(params=ENGINES, scope="module")
def engine(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Engine]:
    kind, runtime = request.param
    state: Path = tmp_path_factory.mktemp("state") / "s"
    yield Engine(Settings(state_dir=state, engine=engine_url(kind), runtime=runtime))
