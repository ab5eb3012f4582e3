"""A runner on each engine and event loop, whose pipeline can be stopped at any await point."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from anyio.from_thread import start_blocking_portal
from interrupting import Cancelling, Interrupter

from real_engine import engine_url
from sandboxrun import Runner, Settings
from sandboxrun import runner as runner_module
from sandboxrun.engine.protocol import EngineKind

CASES = [
    pytest.param((EngineKind.DOCKER, "asyncio", 1), id="docker-asyncio", marks=pytest.mark.docker),
    pytest.param((EngineKind.DOCKER, "trio", 3), id="docker-trio", marks=pytest.mark.docker),
    pytest.param((EngineKind.PODMAN, "asyncio", 3), id="podman-asyncio", marks=pytest.mark.podman),
    pytest.param(
        (EngineKind.DOCKER, "trio", 1),
        id="docker-trio-all",
        marks=[pytest.mark.docker, pytest.mark.slow],
    ),
    pytest.param(
        (EngineKind.PODMAN, "asyncio", 1),
        id="podman-all",
        marks=[pytest.mark.podman, pytest.mark.slow],
    ),
]


@pytest.fixture(scope="module", params=CASES)
def cancelling(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cancelling]:
    kind, backend, stride = request.param
    settings = Settings(
        state_dir=tmp_path_factory.mktemp("state") / "s",
        engine=engine_url(kind),
        policy="rollout",
    )
    interrupter = Interrupter()
    with (
        pytest.MonkeyPatch.context() as patch,
        start_blocking_portal(backend) as portal,
        portal.wrap_async_context_manager(Runner.open(settings)) as runner,
    ):
        patch.setattr(runner_module, "execute", interrupter.execute)
        yield Cancelling(runner, portal, interrupter, settings, kind, stride)
