"""What happens before a database may be used: check it, bring it up to date, or set it aside.

Everything here blocks and runs in worker threads only.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from sandboxrun.errors import StateError
from sandboxrun.state.connection import StoreCorruptError, connect, translated
from sandboxrun.state.directory import usable
from sandboxrun.state.migrations import APPLICATION_ID

DATABASE: Final = "state.db"
_COMPANIONS: Final = ("-wal", "-shm")
_CHECKED: Final = "checked"
_NEW: Final = "new.db"
_ALWAYS_CHECKED_BYTES: Final = 1024 * 1024
"""Up to this size the check takes a few milliseconds and is made at every open."""
_KEPT_BACKUPS: Final = 5


@dataclass(frozen=True, slots=True)
class StoreOpened:
    """What opening the store found and did."""

    version: int
    """Schema version in use."""
    created: bool
    """There was no usable database; this one is new."""
    migrated_from: int | None
    """Schema version before, when it was brought up to date."""
    rebuilt_from: Path | None
    """Where a damaged database was set aside. Its rows are not in the new one."""
    damage: str | None
    """What was found damaged."""


@dataclass(frozen=True, slots=True)
class Condition:
    """The state of the database file before anything is done to it."""

    version: int | None
    """None: there is no file."""
    damage: str | None


def examine(directory: Path, *, known: int, boot_id: str) -> Condition:
    """Look at the database without changing it.

    A small one is checked completely, a large one once per boot and after an error that spoke of
    damage, so that opening costs the same whatever the number of past runs. Raises `StateError`
    for a database from a newer version or of another program.
    """
    path = directory / DATABASE
    with usable(path):
        if not os.path.lexists(path):
            return Condition(None, None)
        size = path.lstat().st_size
    if not path.is_file() or path.is_symlink():
        raise StateError(
            f"{path} is not a regular file.",
            advice="Something else put it there. Move it away and try again.",
        )
    try:
        with closing(connect(path)) as connection, translated(path):
            version = _version(path, connection, known)
            if size <= _ALWAYS_CHECKED_BYTES or _last_checked(directory) != boot_id:
                _check(path, connection)
                mark_checked(directory, boot_id)
    except StoreCorruptError as damaged:
        return Condition(None, damaged.message)
    return Condition(version, None)


def suspect(directory: Path) -> None:
    """Have the next open check the whole database."""
    with suppress(FileNotFoundError):
        (directory / _CHECKED).unlink()


def set_aside(directory: Path) -> Path | None:
    """Rename the database and its companions out of the way; return the database's new path.

    The database goes first. A crash in between leaves companions without a database, which
    `create` sets aside too: a stale log must never meet a new database.
    """
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%fZ")
    moved = None
    with usable(directory):
        for suffix in ("", *_COMPANIONS):
            source = directory / f"{DATABASE}{suffix}"
            target = directory / f"damaged-{stamp}.db{suffix}"
            with suppress(FileNotFoundError):
                source.rename(target)
                moved = target if not suffix else moved
        suspect(directory)
        _sync(directory)
    return moved


def create(directory: Path, migrations: Sequence[str]) -> None:
    """Make a new database of the latest version, readable by its owner only.

    It gets its name when it is complete: a half-made one is never opened.
    """
    path = directory / _NEW
    with usable(path):
        for suffix in ("", *_COMPANIONS):
            with suppress(FileNotFoundError):
                (directory / f"{_NEW}{suffix}").unlink()
        _private(path)
    with closing(connect(path)) as connection, translated(path):
        # Before anything is written, or it has no effect: space can be given back later.
        connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
        for version, step in enumerate(migrations, start=1):
            _apply(connection, step, version)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    with usable(path):
        path.rename(directory / DATABASE)
        _sync(directory)


def migrate(directory: Path, backups: Path, migrations: Sequence[str], version: int) -> None:
    """Apply the missing steps, each after a backup of what was there before it."""
    path = directory / DATABASE
    with closing(connect(path)) as connection, translated(path):
        for target, step in enumerate(migrations[version:], start=version + 1):
            _back_up(connection, backups, target - 1)
            _apply(connection, step, target)


def _version(path: Path, connection: sqlite3.Connection, known: int) -> int:
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    application = int(connection.execute("PRAGMA application_id").fetchone()[0])
    if application not in (APPLICATION_ID, 0):
        raise StateError(
            f"{path} is the database of another program (application id {application:#x}).",
            advice="Choose another directory with SANDBOXRUN_STATE_DIR.",
        )
    if version == 0:
        raise StoreCorruptError(f"The database {path} is empty.")
    if version > known:
        raise StateError(
            f"The state in {path} has version {version}; this sandboxrun knows versions up to "
            f"{known}. Nothing was changed.",
            advice="Update sandboxrun, or choose another directory with SANDBOXRUN_STATE_DIR.",
        )
    return version


def _check(path: Path, connection: sqlite3.Connection) -> None:
    found = [str(row[0]) for row in connection.execute("PRAGMA quick_check(3)")]
    if found != ["ok"]:
        raise StoreCorruptError(f"The database {path} is damaged: {'; '.join(found)}.")


def _apply(connection: sqlite3.Connection, step: str, version: int) -> None:
    # executescript commits what is open, so the transaction is part of the script.
    script = f"BEGIN EXCLUSIVE;\n{step}\nPRAGMA user_version={version};\nCOMMIT;"
    try:
        connection.executescript(script)
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _back_up(connection: sqlite3.Connection, backups: Path, version: int) -> None:
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%fZ")
    target = backups / f"state-v{version}-{stamp}.db"
    with usable(target):
        _private(target)
    with closing(sqlite3.connect(target)) as copy:
        connection.backup(copy)
    with usable(target):
        _sync(backups)
        for old in sorted(backups.glob("state-v*.db"), key=_age)[:-_KEPT_BACKUPS]:
            old.unlink()


def _private(path: Path) -> None:
    """Make an empty file that only its owner can read; SQLite gives its companions that mode."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _age(backup: Path) -> str:
    return backup.stem.rpartition("-")[2]


def _last_checked(directory: Path) -> str | None:
    try:
        return (directory / _CHECKED).read_text(encoding="ascii")
    except (FileNotFoundError, UnicodeDecodeError):
        return None


def mark_checked(directory: Path, boot_id: str) -> None:
    """Note that the whole database was found good in this boot."""
    if _last_checked(directory) == boot_id:
        return
    fresh = directory / f"{_CHECKED}.new"
    # Only an optimisation: without the note the next open looks again.
    with suppress(OSError):
        fresh.write_text(boot_id, encoding="ascii")
        fresh.replace(directory / _CHECKED)


def _sync(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
