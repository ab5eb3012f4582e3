"""The store: transactions, several users, and what it does with a database it cannot use."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from blockbuster import blockbuster_ctx
from tests.state_samples import complete, new_run, opened

from sandboxrun.audit.log import open_audit
from sandboxrun.errors import StateError
from sandboxrun.state import store as store_module
from sandboxrun.state.connection import StoreCorruptError
from sandboxrun.state.directory import StateDirectory
from sandboxrun.state.migrations import MIGRATIONS
from sandboxrun.state.runs import Runs
from sandboxrun.state.store import Store, open_store

pytestmark = pytest.mark.anyio


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[StateDirectory]:
    with StateDirectory.open(tmp_path / "s") as state:
        yield state


def _count(tx: sqlite3.Connection) -> int:
    return int(tx.execute("SELECT count(*) FROM runs").fetchone()[0])


@contextmanager
def _write_lock(path: Path) -> Iterator[None]:
    """Hold the write lock as another process does."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


async def test_a_new_database_is_private_and_strict(directory: StateDirectory) -> None:
    async with open_store(directory) as store:
        assert store.opened.created
        assert store.opened.version == len(MIGRATIONS)
        await Runs(store).insert(new_run())
        for file in directory.path.glob("state.db*"):
            assert file.stat().st_mode & 0o777 == 0o600
        tables = await store.read(
            lambda tx: tx.execute(
                "SELECT name, strict FROM pragma_table_list WHERE schema = 'main'"
                " AND name NOT LIKE 'sqlite_%'"
            ).fetchall()
        )
    wanted = (
        "runs workspaces snapshots consents grants approvals quota_tickets artifacts event_cursors"
    )
    assert {name for name, _ in tables} >= {*wanted.split(), "audit", "leases", "requests"}
    assert all(strict for _, strict in tables)


async def test_every_connection_has_the_settings_it_must_have(directory: StateDirectory) -> None:
    def settings(tx: sqlite3.Connection) -> tuple[object, ...]:
        names = ("journal_mode", "synchronous", "foreign_keys", "trusted_schema")
        return tuple(tx.execute(f"PRAGMA {name}").fetchone()[0] for name in names)

    async with open_store(directory) as store:
        assert await store.write(settings) == ("wal", 2, 1, 0)
        assert await store.write(settings, durable=False) == ("wal", 1, 1, 0)
        assert await store.write(settings) == ("wal", 2, 1, 0)
        assert await store.read(settings) == ("wal", 2, 1, 0)


async def test_a_failed_transaction_leaves_nothing(directory: StateDirectory) -> None:
    class OddError(Exception):
        pass

    def work(tx: sqlite3.Connection) -> None:
        tx.execute("INSERT INTO leases VALUES ('a', 'b', 'c', 'd', 'e')")
        raise OddError

    async with open_store(directory) as store:
        with pytest.raises(OddError):
            await store.write(work)
        assert await store.read(lambda tx: tx.execute("SELECT * FROM leases").fetchall()) == []
        await Runs(store).insert(new_run())


async def test_a_reader_sees_one_moment(directory: StateDirectory) -> None:
    started, go_on = threading.Event(), threading.Event()

    def twice(tx: sqlite3.Connection) -> tuple[int, int]:
        before = _count(tx)
        started.set()
        assert go_on.wait(10)
        return before, _count(tx)

    counts: list[tuple[int, int]] = []
    async with open_store(directory) as store, anyio.create_task_group() as tasks:

        async def look() -> None:
            counts.append(await store.read(twice))

        tasks.start_soon(look)
        await anyio.to_thread.run_sync(started.wait)
        await Runs(store).insert(new_run())
        go_on.set()
    assert counts == [(0, 0)]


async def test_many_tasks_write_at_once(directory: StateDirectory) -> None:
    async with open_store(directory) as store:
        async with anyio.create_task_group() as tasks:
            for _ in range(60):
                tasks.start_soon(Runs(store).insert, new_run())
        assert await store.read(_count) == 60


async def test_nothing_blocks_the_event_loop(
    directory: StateDirectory, anyio_backend_name: str
) -> None:
    if anyio_backend_name != "asyncio":
        pytest.skip("blockbuster watches asyncio")
    with blockbuster_ctx():
        async with open_store(directory) as store:
            log = await open_audit(store)
            await complete(log)
            await log.make_durable()


async def test_a_taken_write_lock_is_waited_for(directory: StateDirectory) -> None:
    async with open_store(directory) as store, anyio.create_task_group() as tasks:
        with _write_lock(directory.path / "state.db"):
            written = anyio.Event()

            async def write() -> None:
                await Runs(store).insert(new_run())
                written.set()

            tasks.start_soon(write)
            # Longer than SQLite's own wait, so that the retry of the event loop is what helps.
            await anyio.sleep(0.15)
            assert not written.is_set()
            assert await store.read(_count) == 0
        with anyio.fail_after(5):
            await written.wait()


async def test_a_lock_that_stays_taken_is_a_fault(
    directory: StateDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "_BUSY_SECONDS", 0.1)
    async with open_store(directory) as store:
        with _write_lock(directory.path / "state.db"), pytest.raises(StateError, match="locked"):
            await Runs(store).insert(new_run())
        await Runs(store).insert(new_run())


async def test_cancelling_a_waiting_write_leaves_nothing(directory: StateDirectory) -> None:
    async with open_store(directory) as store:
        with _write_lock(directory.path / "state.db"):
            with anyio.move_on_after(0.1) as scope:
                await Runs(store).insert(new_run())
            assert scope.cancelled_caught
        await Runs(store).insert(new_run())
        assert await store.read(_count) == 1


async def test_cancelling_a_begun_write_lets_it_end(directory: StateDirectory) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slow(tx: sqlite3.Connection) -> None:
        begun.set()
        assert go_on.wait(10)
        tx.execute("INSERT INTO leases VALUES ('a', 'b', 'c', 'd', 'e')")

    async with open_store(directory) as store:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(store.write, slow)
            await anyio.to_thread.run_sync(begun.wait)
            tasks.cancel_scope.cancel()
            go_on.set()
        found = await store.read(lambda tx: tx.execute("SELECT name FROM leases").fetchall())
        assert found == [("a",)]


async def test_two_stores_of_one_directory_see_each_other(directory: StateDirectory) -> None:
    async with open_store(directory) as one, open_store(directory) as two:
        assert not two.opened.created
        before = await two.wait_for_commit(None, threading.Event())
        await Runs(one).insert(new_run())
        with anyio.fail_after(10):
            assert await two.wait_for_commit(before, threading.Event()) != before
        assert await two.read(_count) == 1


async def test_a_fault_while_waiting_for_a_commit_is_raised_plainly(
    directory: StateDirectory,
) -> None:
    """Not in an exception group, which nobody who handles `StateError` would catch."""
    async with open_store(directory) as store:
        path = directory.path / "state.db"
        with path.open("r+b") as file:
            file.write(b"not a database any more" * 200)
        # Without its own connection to the intact log, SQLite has to look at the file.
        for log in directory.path.glob("state.db-*"):
            log.unlink()
        store._watcher.close()
        store._watcher = sqlite3.connect(path, check_same_thread=False)
        with pytest.raises(StateError):
            await store.wait_for_commit(None, threading.Event())


async def test_waiting_for_a_commit_ends_early_when_told(directory: StateDirectory) -> None:
    async with open_store(directory) as store:
        seen = await store.wait_for_commit(None, threading.Event())
        wake = threading.Event()
        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(store.wait_for_commit, seen, wake)
                await anyio.wait_all_tasks_blocked()
                wake.set()


async def test_a_cancelled_wait_for_a_commit_leaves_no_thread(directory: StateDirectory) -> None:
    async with open_store(directory) as store:
        seen = await store.wait_for_commit(None, threading.Event())
        wake = threading.Event()
        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(store.wait_for_commit, seen, wake)
                await anyio.wait_all_tasks_blocked()
                tasks.cancel_scope.cancel()
        # Its thread is back, or this would wait for it.
        with anyio.fail_after(10):
            assert await store.wait_for_commit(None, threading.Event()) == seen


async def test_an_older_database_is_brought_up_to_date_after_a_backup(
    directory: StateDirectory,
) -> None:
    async with open_store(directory, migrations=MIGRATIONS[:1]) as store:
        await Runs(store).insert(new_run("run-old"))
    extra = "CREATE TABLE later (x TEXT) STRICT;"
    async with open_store(directory, migrations=(*MIGRATIONS, extra)) as store:
        assert store.opened.migrated_from == 1
        assert store.opened.version == len(MIGRATIONS) + 1
        assert (await Runs(store).get("run-old")).principal == "tester"
    backups = sorted(directory.backups.iterdir(), key=lambda path: path.name)
    versions = range(max(1, len(MIGRATIONS) - 4), len(MIGRATIONS) + 1)
    assert [path.name.split("-")[1] for path in backups] == [f"v{version}" for version in versions]
    for backup, version in zip(backups, versions, strict=True):
        assert backup.stat().st_mode & 0o777 == 0o600
        with closing(sqlite3.connect(backup)) as copy:
            assert copy.execute("PRAGMA user_version").fetchone() == (version,)
            assert copy.execute("SELECT run_id FROM runs").fetchall() == [("run-old",)]


async def test_a_migration_that_fails_changes_nothing(directory: StateDirectory) -> None:
    async with open_store(directory) as store:
        await Runs(store).insert(new_run("run-old"))
    broken = "CREATE TABLE half (x TEXT) STRICT; INSERT INTO nowhere VALUES (1);"
    with pytest.raises(StateError, match="nowhere"):
        async with open_store(directory, migrations=(*MIGRATIONS, broken)):
            pass
    async with open_store(directory) as store:
        assert store.opened.version == len(MIGRATIONS)
        assert await store.read(_count) == 1
        assert (
            await store.read(
                lambda tx: tx.execute("SELECT 1 FROM sqlite_schema WHERE name='half'").fetchall()
            )
            == []
        )


async def test_old_backups_go(directory: StateDirectory) -> None:
    steps: tuple[str, ...] = MIGRATIONS
    for number in range(8):
        async with open_store(directory, migrations=steps):
            pass
        steps = (*steps, f"CREATE TABLE t{number} (x TEXT) STRICT;")
    kept = sorted(int(path.name.split("-")[1][1:]) for path in directory.backups.iterdir())
    newest = len(MIGRATIONS) + 6
    assert kept == list(range(newest - 4, newest + 1))


async def test_a_migration_waits_for_no_one_for_ever(
    directory: StateDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "_ALONE_SECONDS", 0.1)
    async with open_store(directory) as store:
        with pytest.raises(StateError, match="another process"):
            async with open_store(directory, migrations=(*MIGRATIONS, "SELECT 1;")):
                pass
        await Runs(store).insert(new_run())


async def test_a_newer_database_is_refused_naming_both_versions(directory: StateDirectory) -> None:
    async with open_store(directory, migrations=(*MIGRATIONS, "CREATE TABLE x (y);")) as store:
        await Runs(store).insert(new_run())
    before = (directory.path / "state.db").read_bytes()
    newer, known = len(MIGRATIONS) + 1, len(MIGRATIONS)
    with pytest.raises(StateError, match=f"version {newer}.* up to {known}") as refused:
        async with open_store(directory):
            pass
    assert "Update sandboxrun" in refused.value.advice
    assert (directory.path / "state.db").read_bytes() == before


async def test_the_database_of_another_program_is_refused(directory: StateDirectory) -> None:
    with closing(sqlite3.connect(directory.path / "state.db")) as other:
        other.execute("PRAGMA application_id=1234")
        other.execute("CREATE TABLE theirs (x)")
    with pytest.raises(StateError, match="another program"):
        async with open_store(directory):
            pass


def _scribble(path: Path) -> None:
    """Damage the middle of the file, leaving its first page alone."""
    data = bytearray(path.read_bytes())
    data[4096:] = bytes(len(data) - 4096)
    path.write_bytes(data)


async def _filled(directory: StateDirectory) -> None:
    async with open_store(directory) as store:
        for _ in range(5):
            await Runs(store).insert(new_run())


@pytest.mark.parametrize("damage", ["middle", "header", "cut", "text", "emptied"])
async def test_a_damaged_database_is_set_aside_and_a_new_one_made(
    directory: StateDirectory, damage: str
) -> None:
    await _filled(directory)
    path = directory.path / "state.db"
    match damage:
        case "middle":
            _scribble(path)
        case "header":
            path.write_bytes(b"\xff" * 100 + path.read_bytes()[100:])
        case "cut":
            path.write_bytes(path.read_bytes()[: 4096 * 3 + 17])
        case "emptied":
            path.write_bytes(b"")
        case _:
            path.write_text(
                "this is not a database at all, but it is long enough to be looked at" * 99
            )
    spoilt = path.read_bytes()
    async with open_store(directory) as store:
        assert store.opened.created
        assert store.opened.damage is not None
        assert store.opened.rebuilt_from is not None
        assert store.opened.rebuilt_from.read_bytes() == spoilt
        await Runs(store).insert(new_run())
    async with open_store(directory) as store:
        assert store.opened.damage is None
        assert await store.read(_count) == 1


async def test_a_log_without_its_database_is_not_taken_over(directory: StateDirectory) -> None:
    await _filled(directory)
    (directory.path / "state.db").unlink()
    (directory.path / "state.db-wal").write_bytes(b"stale" * 1000)
    async with open_store(directory) as store:
        assert store.opened.created
        assert await store.read(_count) == 0
    assert [path.suffix for path in directory.path.glob("damaged-*")] == [".db-wal"]


async def test_a_damaged_database_still_in_use_is_left_alone(
    directory: StateDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "_ALONE_SECONDS", 0.1)
    async with open_store(directory) as store:
        await Runs(store).insert(new_run())
        await store.write(lambda tx: tx.execute("PRAGMA application_id").fetchall())
        path = directory.path / "state.db"
        with closing(sqlite3.connect(path)) as other:
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        with path.open("r+b") as file:
            file.seek(4096)
            file.write(bytes(path.stat().st_size - 4096))
        with pytest.raises(StateError, match="another process"):
            async with open_store(directory):
                pass
        assert path.exists()


async def test_damage_seen_on_the_way_has_the_next_open_look_at_everything(
    directory: StateDirectory,
) -> None:
    async with open_store(directory) as store:
        assert (directory.path / "checked").exists() or store.opened.created
    async with open_store(directory) as store:
        assert (directory.path / "checked").exists()

        def damaged(_: sqlite3.Connection) -> None:
            raise StoreCorruptError("torn")

        with pytest.raises(StoreCorruptError):
            await store.read(damaged)
    assert not (directory.path / "checked").exists()


async def test_something_else_in_the_place_of_the_database_is_refused(
    directory: StateDirectory,
) -> None:
    (directory.path / "state.db").symlink_to("/etc/passwd")
    with pytest.raises(StateError, match="not a regular file"):
        async with open_store(directory):
            pass


async def test_openers_at_once_make_one_database(tmp_path: Path) -> None:
    script = (
        "import anyio, sys, pathlib\n"
        "from tests.state_samples import opened, complete\n"
        "async def main():\n"
        "    async with opened(pathlib.Path(sys.argv[1])) as (store, log):\n"
        "        await complete(log)\n"
        "        print(store.opened.created)\n"
        "anyio.run(main)\n"
    )
    children = [
        subprocess.Popen(  # noqa: ASYNC220 - all of them at once
            [sys.executable, "-c", script, str(tmp_path / "s")], stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    said = await anyio.to_thread.run_sync(lambda: [child.communicate()[0] for child in children])
    assert sorted(said) == ["False\n", "False\n", "False\n", "True\n"]
    async with opened(tmp_path / "s") as (store, _):
        assert await store.read(_count) == 4


async def test_the_store_is_closed_when_its_user_fails(directory: StateDirectory) -> None:
    kept: list[Store] = []

    async def use() -> None:
        async with open_store(directory) as store:
            kept.append(store)
            raise KeyError

    with pytest.raises(KeyError):
        await use()
    with pytest.raises(sqlite3.ProgrammingError):
        await kept[0].write(_count)
    assert directory.lock_holders("in-use") == ()
