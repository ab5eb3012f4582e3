"""The one store: a SQLite database that several processes and many tasks share safely.

Blocking calls run in worker threads of the store's own limiters, so they neither stall the event
loop nor compete with anybody else's threads. One connection writes, a few read; a connection
serves one thread at a time.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import anyio
import anyio.to_thread

from sandboxrun.errors import StateError
from sandboxrun.state import connection as sqlite
from sandboxrun.state.connection import StoreBusyError, StoreCorruptError
from sandboxrun.state.directory import StateDirectory
from sandboxrun.state.migrations import MIGRATIONS
from sandboxrun.state.opening import (
    DATABASE,
    Condition,
    StoreOpened,
    create,
    examine,
    mark_checked,
    migrate,
    set_aside,
    suspect,
)
from sandboxrun.state.owner import Owner

T = TypeVar("T")

COMMIT_POLL_SECONDS: Final = 0.08
"""Between two looks for commits of others. The promise to whoever asks something is 200 ms."""
_READERS: Final = 3
_BUSY_SECONDS: Final = 10.0
"""How long an operation retries while other processes hold the write lock."""
_FIRST_RETRY_SECONDS: Final = 0.001
_LAST_RETRY_SECONDS: Final = 0.016
_OPENING_SECONDS: Final = 60.0
"""How long one opener waits for another, which may be checking a large database."""
_ALONE_SECONDS: Final = 5.0
"""How long a migration waits for the other users of the database to leave."""
_CLOSE_SECONDS: Final = 10.0
_FREED_PAGES: Final = 2000
_TIDY_COMMITS: Final = 300
"""About a tenth of what a commit would put up with before it checkpoints by itself."""


@dataclass(slots=True)
class Store:
    """An open store. Made by `open_store`."""

    directory: StateDirectory
    opened: StoreOpened
    owner: Owner
    """The calling process, as rows name it."""
    _path: Path
    _writer: sqlite3.Connection
    _watcher: sqlite3.Connection
    _idle: list[sqlite3.Connection] = field(default_factory=list)
    _commits: int = 0
    """Since the log was last moved into the database by this process."""
    _turn: anyio.Lock = field(default_factory=anyio.Lock)
    _writing: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(1))
    _watching: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(1))
    _reading: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(_READERS))

    async def write(self, work: Callable[[sqlite3.Connection], T], *, durable: bool = True) -> T:
        """Run ``work`` in one transaction, in a worker thread: all of it is committed, or none.

        ``durable``: the commit waits for the disk and survives power loss. Otherwise it survives
        kill -9 at once and power loss after the next durable commit of any process.

        Raises `StateError` when the disk refuses or the lock stays taken; `sqlite3.IntegrityError`
        passes. Cancellation before the transaction leaves nothing; once it has begun it runs to
        its end (milliseconds) and the cancellation is delivered afterwards.
        """
        async with self._turn:
            return await self._retried(partial(self._write, work, durable), self._writing)

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run ``work`` on one consistent view, in a worker thread; writers are not waited for.

        Raises `StateError`. Cancellation leaves nothing.
        """
        looking = partial(sqlite.read, self._path, work=work)
        return await self._retried(partial(self._with_reader, looking), self._reading)

    async def tidy(self) -> None:
        """Move what was committed from the log into the database, when much has gathered.

        Meant for off the critical path: otherwise a commit of somebody does it at some point.
        Neither readers nor writers wait. Raises `StateError`. Cancellation leaves it for later.
        """
        if self._commits >= _TIDY_COMMITS:
            self._commits = 0
            await self._retried(partial(self._with_reader, self._checkpoint), self._reading)

    def _checkpoint(self, connection: sqlite3.Connection) -> None:
        with sqlite.translated(self._path):
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    async def give_back_space(self) -> None:
        """Return the pages of removed rows to the file system, a few thousand at a time.

        Raises `StateError`. Cancellation leaves the rest for the next time.
        """
        while await self.write(_free_pages, durable=False):
            pass

    async def wait_for_commit(self, seen: int | None, wake: threading.Event) -> int:
        """Wait until anybody, this process included, has committed since ``seen`` was returned.

        Returns the number to pass as ``seen`` next time: at once when it is None, and early when
        ``wake`` is set. One thread looks at shared memory every `COMMIT_POLL_SECONDS`
        (sqlite.org/pragma.html#pragma_data_version); the event loop sleeps. Raises `StateError`.
        Cancellation ends the wait at once and leaves nothing.
        """
        found: int | StateError | None = None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_set_when_cancelled, wake)
            # Not given up with its thread: that ends as soon as ``wake`` is set.
            with anyio.CancelScope(shield=True):
                try:
                    found = await self._retried(partial(self._changed, seen, wake), self._watching)
                except StateError as fault:
                    # Raised from inside, the task group would wrap it.
                    found = fault
            tasks.cancel_scope.cancel()
        if isinstance(found, int):
            return found
        raise found if found is not None else StateError("The wait for a commit ended unfinished.")

    def _changed(self, seen: int | None, wake: threading.Event) -> int:
        with sqlite.translated(self._path):
            while True:
                version = int(self._watcher.execute("PRAGMA data_version").fetchone()[0])
                if version != seen or wake.wait(COMMIT_POLL_SECONDS):
                    return version

    def _write(self, work: Callable[[sqlite3.Connection], T], durable: bool) -> T:
        self._writer.execute("PRAGMA synchronous=" + ("FULL" if durable else "NORMAL"))
        self._commits += 1
        return sqlite.write(self._path, self._writer, work)

    def _with_reader(self, work: Callable[[sqlite3.Connection], T]) -> T:
        # Pop and append are atomic; the limiter bounds how many are out at once.
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = sqlite.connect(self._path)
        try:
            return work(connection)
        finally:
            self._idle.append(connection)

    async def _retried(self, attempt: Callable[[], T], limiter: anyio.CapacityLimiter) -> T:
        deadline = anyio.current_time() + _BUSY_SECONDS
        pause = _FIRST_RETRY_SECONDS
        while True:
            try:
                return await anyio.to_thread.run_sync(attempt, limiter=limiter)
            except StoreBusyError as busy:
                if anyio.current_time() >= deadline:
                    raise StateError(
                        f"The database {self._path} stayed locked for {_BUSY_SECONDS:g} s.",
                        advice="Another sandboxrun process holds it; see which with `fuser`.",
                    ) from busy
            except StoreCorruptError:
                await anyio.to_thread.run_sync(suspect, self.directory.path)
                raise
            await anyio.sleep(pause)
            pause = min(pause * 2, _LAST_RETRY_SECONDS)

    def _close(self) -> None:
        for connection in (*self._idle, self._watcher, self._writer):
            connection.close()


async def _set_when_cancelled(wake: threading.Event) -> None:
    try:
        await anyio.sleep_forever()
    finally:
        wake.set()


def _free_pages(tx: sqlite3.Connection) -> bool:
    tx.execute(f"PRAGMA incremental_vacuum({_FREED_PAGES})").fetchall()
    return int(tx.execute("PRAGMA freelist_count").fetchone()[0]) > 0


@asynccontextmanager
async def open_store(
    directory: StateDirectory, *, migrations: Sequence[str] = MIGRATIONS
) -> AsyncIterator[Store]:
    """Open the store of a state directory; the last process to leave tidies its log.

    A missing database is made. An older one is brought up to date after a backup. A damaged one
    is set aside under a dated name and a new one made: ``store.opened.rebuilt_from`` says so, and
    whoever opens must say so loudly.

    Raises `StateError`: newer version, another program's file, read-only or full disk, or another
    process that keeps using what has to be migrated. Cancellation leaves a usable database.
    """
    in_use, opened = await _prepare(directory, migrations)
    try:
        store = await anyio.to_thread.run_sync(_connected, directory, opened)
        try:
            yield store
        finally:
            with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
                await anyio.to_thread.run_sync(store._close, abandon_on_cancel=True)  # noqa: SLF001 - its maker closes it
    finally:
        os.close(in_use)


def _connected(directory: StateDirectory, opened: StoreOpened) -> Store:
    path = directory.path / DATABASE
    return Store(
        directory, opened, Owner.current(), path, sqlite.connect(path), sqlite.connect(path)
    )


async def _prepare(directory: StateDirectory, migrations: Sequence[str]) -> tuple[int, StoreOpened]:
    """Bring the database in order; return the descriptor of the lock that says it is in use."""
    async with directory.lock("opening", exclusive=True, wait_seconds=_OPENING_SECONDS):
        boot_id = (await anyio.to_thread.run_sync(Owner.current)).boot_id
        condition = await _examined(directory, len(migrations), boot_id)
        if condition.version == len(migrations):
            in_use = await anyio.to_thread.run_sync(
                partial(directory.try_lock, "in-use", exclusive=False)
            )
            if in_use is None:
                raise StateError(f"{directory.path} is being changed by something else.")
            return in_use, StoreOpened(condition.version, False, None, None, None)  # noqa: FBT003
        async with directory.lock("in-use", exclusive=True, wait_seconds=_ALONE_SECONDS) as alone:
            opened = await anyio.to_thread.run_sync(
                _put_in_order, directory, migrations, condition, boot_id
            )
            # Nobody else can take the lock in between: openers wait for "opening".
            in_use = os.dup(alone)
            fcntl.flock(in_use, fcntl.LOCK_SH)
        return in_use, opened


async def _examined(directory: StateDirectory, known: int, boot_id: str) -> Condition:
    deadline = anyio.current_time() + _BUSY_SECONDS
    while True:
        try:
            return await anyio.to_thread.run_sync(
                partial(examine, directory.path, known=known, boot_id=boot_id)
            )
        except StoreBusyError as busy:
            if anyio.current_time() >= deadline:
                raise StateError(f"The database in {directory.path} stayed locked.") from busy
        await anyio.sleep(_LAST_RETRY_SECONDS)


def _put_in_order(
    directory: StateDirectory, migrations: Sequence[str], condition: Condition, boot_id: str
) -> StoreOpened:
    if condition.version is not None:
        migrate(directory.path, directory.backups, migrations, condition.version)
        return StoreOpened(len(migrations), False, condition.version, None, None)  # noqa: FBT003
    rebuilt_from = set_aside(directory.path)
    create(directory.path, migrations)
    mark_checked(directory.path, boot_id)
    return StoreOpened(len(migrations), True, None, rebuilt_from, condition.damage)  # noqa: FBT003
