"""A full disk, a read-only one, a directory of somebody else: clear faults, and nothing lost."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio.to_thread
import pytest
from tests.state_samples import complete, intent, new_run, opened, receipt

from sandboxrun.audit.reading import verify_store
from sandboxrun.errors import StateError
from sandboxrun.state.directory import StateDirectory
from sandboxrun.state.runs import Runs
from sandboxrun.state.store import open_store

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount and be somebody else"),
]

NOBODY = 65534


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of 2 MiB."""
    place = tmp_path / "small"
    place.mkdir()
    _mount("-t", "tmpfs", "-o", "size=2m,mode=0700", "tmpfs", str(place))
    yield place
    subprocess.run(["umount", str(place)], check=True)


def _fill(place: Path) -> None:
    with (place / "ballast").open("wb", buffering=0) as file:
        for size in (65536, 4096, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue


async def test_on_a_full_disk_nothing_starts_and_nothing_is_lost(small: Path) -> None:
    async with opened(small / "s") as (store, log):
        done = [await complete(log) for _ in range(5)]
        running = new_run()
        await Runs(store).insert(running)
        await log.intent(intent(running.run_id, store.owner))
        await anyio.to_thread.run_sync(_fill, small)
        # The log of the database has some room of its own; then it is over.
        refused = None
        for _ in range(2000):
            run = new_run()
            try:
                await Runs(store).insert(run, durable=False)
                await log.intent(intent(run.run_id, store.owner))
            except StateError as fault:
                refused = fault
                break
            done.append(run.run_id)
        assert refused is not None
        assert "No space is left" in refused.message
        assert "gc" in refused.advice
        with pytest.raises(StateError, match="No space"):
            await log.settle(receipt(running.run_id, "x" * 10_000), outcome_json="x" * 10_000)
        assert (await Runs(store).get(running.run_id)).status is None
        assert {row.run_id for row in await Runs(store).list(limit=10_000)} >= set(done)
        assert (await verify_store(store)).intact
        # With room again it goes on where it was.
        (small / "ballast").unlink()
        assert await log.settle(receipt(running.run_id, "x"), outcome_json="x")
        await complete(log)
        await log.make_durable()
        verdict = await verify_store(store)
        assert verdict.intact
        assert not verdict.breaks


async def test_a_full_disk_is_said_when_opening(small: Path) -> None:
    _fill(small)
    with pytest.raises(StateError) as refused:
        async with opened(small / "s"):
            pass
    assert "space" in refused.value.message
    (small / "ballast").unlink()
    async with opened(small / "s") as (_, log):
        await complete(log)


async def test_a_disk_that_is_full_after_the_directory_was_made(small: Path) -> None:
    with StateDirectory.open(small / "s"):
        pass
    _fill(small)
    with pytest.raises(StateError) as refused:
        async with opened(small / "s"):
            pass
    assert "space" in refused.value.message
    (small / "ballast").unlink()
    async with opened(small / "s") as (_, log):
        await complete(log)
        verdict = await verify_store(log.store)
        assert verdict.intact
        assert not verdict.breaks


async def test_a_read_only_file_system_is_said(small: Path) -> None:
    async with opened(small / "s") as (_, log):
        run_id = await complete(log)
    _mount("-o", "remount,ro", str(small))
    try:
        with pytest.raises(StateError, match="read-only") as refused:
            async with opened(small / "s"):
                pass
        assert "SANDBOXRUN_STATE_DIR" in refused.value.advice
        with pytest.raises(StateError, match="read-only"):
            StateDirectory.open(small / "another")
    finally:
        _mount("-o", "remount,rw", str(small))
    async with opened(small / "s") as (store, _):
        assert (await Runs(store).get(run_id)).status == "succeeded"
        assert (await verify_store(store)).intact


@pytest.fixture
def reachable() -> Iterator[Path]:
    """Make a directory that other users can get to."""
    with TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        yield Path(place)


@contextmanager
def _nobody() -> Iterator[None]:
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_directory_one_may_not_write_is_said(reachable: Path) -> None:
    (reachable / "s").mkdir(mode=0o500)
    os.chown(reachable / "s", NOBODY, NOBODY)
    with _nobody(), pytest.raises(StateError, match="cannot be read and written by uid") as refused:
        StateDirectory.open(reachable / "s")
    assert "ls -ld" in refused.value.advice


def test_a_directory_of_root_is_not_for_others(reachable: Path) -> None:
    (reachable / "s").mkdir(mode=0o755)
    with _nobody(), pytest.raises(StateError, match="belongs to uid 0"):
        StateDirectory.open(reachable / "s")


def test_a_place_one_may_not_make_a_directory_in_is_said(reachable: Path) -> None:
    with _nobody(), pytest.raises(StateError, match="cannot be read and written"):
        StateDirectory.open(reachable / "s")


async def test_a_database_of_somebody_else_is_said(small: Path) -> None:
    async with opened(small / "s") as (_, log):
        await complete(log)
    (small / "s" / "audit" / "key.pem").chmod(0o644)
    with pytest.raises(StateError, match="read or written by others") as refused:
        async with opened(small / "s"):
            pass
    assert "chmod 600" in refused.value.advice
    (small / "s" / "audit" / "key.pem").chmod(0o600)
    (small / "s" / "audit" / "key.pem").write_text("not a key")
    with pytest.raises(StateError, match="not an Ed25519 key"):
        async with opened(small / "s"):
            pass


async def test_openers_do_not_wait_for_a_store_that_cannot_be(small: Path) -> None:
    """A fault while opening gives every lock back."""
    (small / "s").mkdir(mode=0o700)
    with StateDirectory.open(small / "s") as directory:
        (directory.path / "state.db").mkdir()
        for _ in range(2):
            with pytest.raises(StateError, match="not a regular file"):
                async with open_store(directory):
                    pass
        assert directory.lock_holders("opening") == ()
        assert directory.lock_holders("in-use") == ()
