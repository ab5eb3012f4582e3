"""Fixtures of real runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from anyio.from_thread import start_blocking_portal
from run_bench import Bench

from real_engine import engine_url
from sandboxrun import Runner, Settings
from sandboxrun.engine.protocol import EngineKind


@pytest.fixture(scope="module")
def bench(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bench]:
    """Yield a bench on Docker with crun, or with what the module is parametrised with."""
    kind, runtime = getattr(request, "param", (EngineKind.DOCKER, None))
    settings = Settings(
        state_dir=tmp_path_factory.mktemp("state") / "s",
        engine=engine_url(kind),
        policy="rollout",
        runtime=runtime,
    )
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(Runner.open(settings)) as runner,
    ):
        yield Bench(runner, portal, settings)
