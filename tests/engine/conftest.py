"""Fixtures: one subject for each engine and each event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio.to_thread
import pytest
from subjects import Subject, play
from tiny_image import ensure_tiny_image

from real_engine import engine_url
from sandboxrun.engine.docker import connect
from sandboxrun.engine.fake import FakeEngine
from sandboxrun.engine.fake_store import FAKE_IMAGE
from sandboxrun.engine.protocol import EngineKind

_REAL = [
    pytest.param("crun-asyncio", marks=[pytest.mark.engine, pytest.mark.docker]),
    pytest.param("crun-trio", marks=[pytest.mark.engine, pytest.mark.docker]),
    pytest.param("runc-asyncio", marks=[pytest.mark.engine, pytest.mark.docker]),
    pytest.param("podman-asyncio", marks=[pytest.mark.engine, pytest.mark.podman]),
]
_FAKE = [pytest.param("fake-asyncio"), pytest.param("fake-trio")]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "which" in metafunc.fixturenames:
        real_only = metafunc.definition.get_closest_marker("engine") is not None
        metafunc.parametrize("which", _REAL if real_only else [*_FAKE, *_REAL])


@pytest.fixture
async def subject(which: str, anyio_backend: str) -> AsyncIterator[Subject]:
    """Yield the engine under test. ``anyio_backend`` of the test's module follows ``which``."""
    engine_name, backend = which.split("-")
    assert anyio_backend == backend
    if engine_name == "fake":
        async with FakeEngine(play) as fake:
            yield Subject(fake, FAKE_IMAGE, await fake.describe(), None)
        return
    kind = EngineKind.PODMAN if engine_name == "podman" else EngineKind.DOCKER
    engine = await connect(await anyio.to_thread.run_sync(engine_url, kind))
    info = await engine.describe()
    runtime = None if kind is EngineKind.PODMAN else engine_name
    if runtime is not None and runtime not in info.runtimes:
        pytest.skip(f"{info.url} has no {runtime}")
    found = Subject(engine, await ensure_tiny_image(engine), info, runtime)
    try:
        yield found
    finally:
        await found.clean()
        await engine.aclose()
