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

SLOTS = 4


def case(
    name: str, kind: EngineKind, backend: str, stride: int, slots: int, *more: pytest.MarkDecorator
) -> object:
    marks = (getattr(pytest.mark, kind.value), *more)
    return pytest.param((kind, backend, stride, slots), id=name, marks=marks)


CASES = [
    case("docker-asyncio", EngineKind.DOCKER, "asyncio", 1, 0),
    case("docker-asyncio-warm", EngineKind.DOCKER, "asyncio", 1, SLOTS),
    case("docker-trio-warm", EngineKind.DOCKER, "trio", 3, SLOTS),
    case("podman-asyncio", EngineKind.PODMAN, "asyncio", 4, 0),
    case("podman-asyncio-warm", EngineKind.PODMAN, "asyncio", 4, SLOTS),
    case("docker-trio-all", EngineKind.DOCKER, "trio", 1, 0, pytest.mark.slow),
    case("podman-all", EngineKind.PODMAN, "asyncio", 1, SLOTS, pytest.mark.slow),
]


@pytest.fixture(scope="module", params=CASES)
def cancelling(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cancelling]:
    kind, backend, stride, slots = request.param
    settings = Settings(
        state_dir=tmp_path_factory.mktemp("state") / "s",
        engine=engine_url(kind),
        policy="rollout",
        slots=slots,
    )
    interrupter = Interrupter()
    with (
        pytest.MonkeyPatch.context() as patch,
        start_blocking_portal(backend) as portal,
        portal.wrap_async_context_manager(Runner.open(settings)) as runner,
    ):
        patch.setattr(runner_module, "execute", interrupter.execute)
        yield Cancelling(runner, portal, interrupter, settings, kind, stride, slots > 0)
