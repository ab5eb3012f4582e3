"""Artifacts: lifetime, budget, ranges, authority, and what crashes leave."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandboxrun.errors import ArtifactExpiredError, OutputError, UnknownArtifactError
from sandboxrun.model.artifact import ArtifactRow, Gone
from sandboxrun.model.event import Settled
from sandboxrun.model.status import Status
from sandboxrun.output.artifacts import ArtifactPolicy, Artifacts
from sandboxrun.output.seekable import FRAME_BYTES, SeekableWriter, read_range
from sandboxrun.output.spool import SpoolWriter
from sandboxrun.output.spools import SpoolPolicy, collect_spools, spool_path

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Rows:
    """An index in memory."""

    def __init__(self) -> None:
        self.rows: dict[str, ArtifactRow] = {}

    async def add(self, row: ArtifactRow) -> None:
        self.rows[row.artifact.id] = row

    async def get(self, artifact_id: str) -> ArtifactRow | None:
        return self.rows.get(artifact_id)

    async def present(self) -> list[ArtifactRow]:
        rows = [row for row in self.rows.values() if row.gone is None]
        return sorted(rows, key=lambda row: row.created_at)

    async def mark_gone(self, artifact_id: str, why: Gone, at: datetime) -> None:
        assert at.tzinfo is not None
        self.rows[artifact_id] = replace(self.rows[artifact_id], gone=why)


class Clock:
    def __init__(self) -> None:
        self.time = datetime(2030, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.time


def anybody(_row: ArtifactRow) -> bool:
    return True


class Place:
    """A directory of artifacts and what is needed to fill it."""

    def __init__(self, tmp_path: Path, **policy: float) -> None:
        self.directory = tmp_path / "artifacts"
        self.directory.mkdir()
        self.spools = tmp_path
        self.index = Rows()
        self.clock = Clock()
        chosen = replace(ArtifactPolicy(), **policy)
        self.artifacts = Artifacts(self.directory, self.index, chosen, now=self.clock)
        self.count = 0

    async def keep(self, data: bytes) -> str:
        self.count += 1
        path = self.spools / f"{self.count}.spool"
        with SpoolWriter(path) as writer:
            writer.append_output("stdout", data[: len(data) // 2])
            writer.append_output("stdout", data[len(data) // 2 :])
            writer.append(Settled(status=Status.SUCCEEDED))
        kept = await self.artifacts.keep(path, run_id="run-1", workspace="w", principal="p")
        assert kept.bytes == len(data)
        assert kept.sha256 == hashlib.sha256(data).hexdigest()
        return kept.id

    async def read(
        self, name: str, may_read: Callable[[ArtifactRow], bool] = anybody, **where: int
    ) -> bytes:
        async with aclosing(self.artifacts.read(name, may_read, **where)) as pieces:
            return b"".join([piece async for piece in pieces])


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


async def test_any_range_can_be_read(place: Place) -> None:
    data = os.urandom(FRAME_BYTES) + b"x" * FRAME_BYTES + os.urandom(1000)
    name = await place.keep(data)
    assert await place.read(name) == data
    edges = [0, 1, FRAME_BYTES - 1, FRAME_BYTES, FRAME_BYTES + 1, len(data) - 1, len(data), 10**9]
    for start in edges:
        for length in (0, 1, FRAME_BYTES, FRAME_BYTES + 1, 10**9):
            got = await place.read(name, start=start, length=length)
            assert got == data[start : start + length]


async def test_an_empty_output_is_an_artifact_too(place: Place) -> None:
    assert await place.read(await place.keep(b"")) == b""


async def test_files_are_private_and_standard_zstd_reads_them(place: Place) -> None:
    data = b"line\n" * 200_000
    name = await place.keep(data)
    (path,) = place.directory.iterdir()
    assert path.name == f"{name}.zst"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.stat().st_size < len(data) / 100
    unpacked = subprocess.run(["zstd", "-dc", str(path)], check=True, capture_output=True)  # noqa: ASYNC221 - the test has nothing else to do
    assert unpacked.stdout == data


async def test_expiry_is_told_by_the_reader_and_by_the_collector(place: Place) -> None:
    name = await place.keep(b"data")
    lifetime = timedelta(hours=24)
    place.clock.time += lifetime - timedelta(seconds=1)
    assert await place.artifacts.collect() == []
    assert await place.read(name) == b"data"
    place.clock.time += timedelta(seconds=1)
    with pytest.raises(ArtifactExpiredError, match="until 2030-01-02"):
        await place.read(name)
    assert len(list(place.directory.iterdir())) == 1
    assert await place.artifacts.collect() == [(name, Gone.EXPIRED)]
    assert list(place.directory.iterdir()) == []
    with pytest.raises(ArtifactExpiredError):
        await place.read(name)
    place.clock.time -= timedelta(days=30)
    with pytest.raises(ArtifactExpiredError):
        await place.read(name)
    assert ArtifactExpiredError.code == "artifact_expired"


async def test_guessing_and_other_peoples_ids_look_the_same(place: Place) -> None:
    name = await place.keep(b"data")
    messages = set()
    for guess, may in ((name, lambda row: row.principal == "q"), ("artifact-" + "0" * 40, anybody)):
        with pytest.raises(UnknownArtifactError) as refused:
            await place.read(guess, may)
        messages.add(refused.value.message)
    for guess in ("../1.spool", "", name[:-1], name + "0", name.upper()):
        with pytest.raises(UnknownArtifactError):
            await place.read(guess)
    assert len(messages) == 1
    assert len(set(name)) > 8


async def test_the_oldest_make_room_and_that_is_recorded(tmp_path: Path) -> None:
    place = Place(tmp_path, budget_bytes=35_000)
    names = []
    for _ in range(5):
        names.append(await place.keep(os.urandom(10_000)))
        place.clock.time += timedelta(seconds=1)
    assert [place.index.rows[name].gone for name in names] == [Gone.EVICTED] * 2 + [None] * 3
    assert sum(path.stat().st_size for path in place.directory.iterdir()) <= 35_000
    with pytest.raises(ArtifactExpiredError, match="made room"):
        await place.read(names[0])
    with pytest.raises(OutputError, match="artifacts may have"):
        await place.keep(os.urandom(40_000))
    assert [place.index.rows[name].gone for name in names[2:]] == [None] * 3
    assert len(list(place.directory.iterdir())) == 3


async def test_what_a_crash_left_is_collected_when_it_is_old(place: Place) -> None:
    name = await place.keep(b"data")
    left = place.directory / ("artifact-" + "0" * 40 + ".zst")
    part = place.directory / ("artifact-" + "1" * 40 + ".part")
    for path in (left, part):
        path.write_bytes(b"")
        os.utime(path, (place.clock.time.timestamp(),) * 2)
    await place.artifacts.collect()
    assert left.exists()
    long_ago = place.clock.time.timestamp() - 7200
    for path in (left, part):
        os.utime(path, (long_ago, long_ago))
    await place.artifacts.collect()
    assert [path.name for path in place.directory.iterdir()] == [f"{name}.zst"]


async def test_damage_is_a_fault_and_never_wrong_bytes(place: Place) -> None:
    data = os.urandom(3 * FRAME_BYTES)
    name = await place.keep(data)
    (path,) = place.directory.iterdir()
    whole = path.read_bytes()
    for at in range(0, len(whole), len(whole) // 40):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        try:
            assert await place.read(name) == data
        except OutputError:
            continue
        assert at > len(whole) - 40
    path.write_bytes(whole[:-1])
    with pytest.raises(OutputError):
        await place.read(name)


@given(st.lists(st.binary(max_size=2000), max_size=5), st.integers(0, 9000), st.integers(0, 9000))
@settings(max_examples=50, deadline=None)
def test_seekable_ranges_equal_slices(pieces: list[bytes], start: int, length: int) -> None:
    fd = os.memfd_create("artifact")
    with os.fdopen(fd, "wb") as file:
        writer = SeekableWriter(file)
        for piece in pieces:
            writer.write(piece)
        writer.finish()
        file.flush()
        got = b"".join(read_range(fd, start, length))
    assert got == b"".join(pieces)[start : start + length]


def test_spools_are_kept_within_bounds_oldest_first(tmp_path: Path) -> None:
    for age in range(6):
        path = spool_path(tmp_path, f"run-{age}")
        with SpoolWriter(path) as writer:
            writer.append_output("stdout", b"x" * 1000)
        os.utime(path, (1000 - age, 1000 - age))
    living = SpoolWriter(spool_path(tmp_path, "run-9"))
    os.utime(living.path, (1, 1))
    policy = SpoolPolicy(lifetime_seconds=3.5, budget_bytes=4 * 1200)

    def collect(now: float) -> list[str]:
        return collect_spools(tmp_path, policy, now=now, may_go=lambda name: name != "run-5")

    assert collect(1000.0) == ["run-4", "run-3"]
    assert collect(1000.0) == []
    assert collect(1003.0) == ["run-2", "run-1"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "run-0.spool",
        "run-5.spool",
        "run-9.spool",
    ]
    living.close()
