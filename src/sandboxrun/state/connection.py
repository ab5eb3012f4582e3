"""SQLite connections as this project uses them, and what its errors mean.

Everything here blocks and runs in worker threads only.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

from sandboxrun.errors import StateError

T = TypeVar("T")

BUSY_MILLISECONDS: Final = 20
"""How long a statement waits in its thread before the event loop decides on a retry."""
_CHECKPOINT_PAGES: Final = 4000
"""Backstop: a commit that finds this many pages in the log checkpoints by itself."""
_PRIMARY: Final = 0xFF
"""The low byte of an extended result code is the primary one (sqlite.org/rescode.html)."""


class StoreBusyError(Exception):
    """Another process holds the write lock. Never leaves the store."""


class StoreCorruptError(StateError):
    """The database file is damaged."""

    code = "state_corrupt"
    default_advice = (
        "Nothing was deleted. The next start sets the file aside and makes a new one; "
        "Look at the disk and its kernel messages."
    )


def connect(path: Path) -> sqlite3.Connection:
    """Open one connection with the settings every one of them must have."""
    with translated(path):
        connection = sqlite3.connect(
            path, timeout=BUSY_MILLISECONDS / 1000, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute("PRAGMA foreign_keys=ON")
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute(f"PRAGMA wal_autocheckpoint={_CHECKPOINT_PAGES}")
            # A schema that others may have edited must not run code of theirs.
            connection.execute("PRAGMA trusted_schema=OFF")
        except BaseException:
            connection.close()
            raise
    return connection


def write(path: Path, connection: sqlite3.Connection, work: Callable[[sqlite3.Connection], T]) -> T:
    """Run ``work`` in one write transaction: all of it is committed, or none.

    Raises `StoreBusyError` when the lock is taken, `StateError` for what the disk refuses.
    """
    with translated(path):
        connection.execute("BEGIN IMMEDIATE")
        try:
            result = work(connection)
            connection.execute("COMMIT")
        except BaseException:
            # A full disk or an I/O error may have rolled back already.
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
    return result


def read(path: Path, connection: sqlite3.Connection, work: Callable[[sqlite3.Connection], T]) -> T:
    """Run ``work`` on one consistent view of the database."""
    with translated(path):
        connection.execute("BEGIN")
        try:
            return work(connection)
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into faults; constraint violations and our own bugs pass."""
    try:
        yield
    except (sqlite3.IntegrityError, sqlite3.ProgrammingError):
        raise
    except sqlite3.Error as error:
        raise _fault(path, error) from error


def _fault(path: Path, error: sqlite3.Error) -> Exception:
    code = getattr(error, "sqlite_errorcode", None)
    match None if code is None else code & _PRIMARY:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED | sqlite3.SQLITE_PROTOCOL:
            return StoreBusyError(str(error))
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return StoreCorruptError(f"The database {path} is damaged: {error}.")
        case sqlite3.SQLITE_FULL:
            return StateError(
                f"No space is left for the database {path}; nothing of this step was recorded.",
                advice="Free some space (`sandboxrun gc` removes old runs), then try again.",
            )
        case sqlite3.SQLITE_READONLY:
            return StateError(
                f"The database {path} cannot be written: {error}.",
                advice="Check the owner and mode of the file, and that its file system is writable.",
            )
        case sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM | sqlite3.SQLITE_AUTH:
            return StateError(f"The database {path} cannot be opened: {error}.")
        case _:
            return StateError(f"The database {path} failed: {error}.")
