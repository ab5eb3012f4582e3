"""The rows that name artifacts: written once, marked once, gone with their run."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.state_samples import new_run

from sandboxrun.model.artifact import Artifact, ArtifactRow, Gone
from sandboxrun.output.artifacts import ArtifactIndex
from sandboxrun.state.artifacts import ArtifactRows
from sandboxrun.state.directory import StateDirectory
from sandboxrun.state.runs import Runs
from sandboxrun.state.store import Store, open_store

pytestmark = pytest.mark.anyio
CREATED = datetime(2030, 1, 1, 12, tzinfo=UTC)


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    with StateDirectory.open(tmp_path / "state") as directory:
        async with open_store(directory) as opened:
            await Runs(opened).insert(new_run("run-1"))
            yield opened


def row(number: int) -> ArtifactRow:
    artifact = Artifact(
        id=f"artifact-{number}",
        bytes=100,
        sha256="0" * 64,
        expires_at=CREATED + timedelta(days=1),
    )
    created = CREATED + timedelta(seconds=-number)
    return ArtifactRow(artifact, "run-1", "w" if number else None, "p", created, 50)


async def test_rows_come_back_as_they_were_oldest_first(store: Store) -> None:
    rows: ArtifactIndex = ArtifactRows(store)
    for number in range(3):
        await rows.add(row(number))
    assert await rows.present() == [row(2), row(1), row(0)]
    assert await rows.get("artifact-1") == row(1)
    assert await rows.get("artifact-9") is None


async def test_the_first_reason_stays(store: Store) -> None:
    rows = ArtifactRows(store)
    await rows.add(row(1))
    await rows.mark_gone("artifact-1", Gone.EVICTED, CREATED)
    await rows.mark_gone("artifact-1", Gone.EXPIRED, CREATED)
    assert await rows.get("artifact-1") == replace(row(1), gone=Gone.EVICTED)
    assert await rows.present() == []
