"""The chain's rows, inside a caller's transaction. Nothing here decides or signs."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Final

from sandboxrun.audit.record import Record
from sandboxrun.audit.signing import SignedHead

_COLUMNS: Final = "seq, run_id, kind, record, hash"


def insert(tx: sqlite3.Connection, record: Record) -> None:
    """Add one record. Raises `sqlite3.IntegrityError` when its number is taken."""
    tx.execute(
        f"INSERT INTO audit ({_COLUMNS}) VALUES (?, ?, ?, ?, ?)",  # noqa: S608 - a constant
        (record.seq, record.run_id, record.kind, record.text, record.hash),
    )


def head(tx: sqlite3.Connection) -> SignedHead | None:
    """Return the signed head, as it is stored."""
    row = tx.execute("SELECT statement, signature FROM audit_head").fetchone()
    return None if row is None else SignedHead(*row)


def set_head(tx: sqlite3.Connection, signed: SignedHead) -> None:
    """Store the signed head."""
    tx.execute(
        "INSERT OR REPLACE INTO audit_head (only_one, statement, signature) VALUES (1, ?, ?)",
        (signed.text, signed.signature),
    )


def record(tx: sqlite3.Connection, seq: int) -> Record | None:
    """Return one record by its number."""
    return next(_records(tx, "WHERE seq = ?", (seq,)), None)


def first(tx: sqlite3.Connection) -> Record | None:
    """Return the record with the lowest number."""
    return next(_records(tx, "ORDER BY seq LIMIT 1", ()), None)


def last(tx: sqlite3.Connection) -> Record | None:
    """Return the record with the highest number."""
    return next(_records(tx, "ORDER BY seq DESC LIMIT 1", ()), None)


def of_run(tx: sqlite3.Connection, run_id: str) -> tuple[Record, ...]:
    """Return the records about one run, in order."""
    return tuple(_records(tx, "WHERE run_id = ? ORDER BY seq", (run_id,)))


def after(tx: sqlite3.Connection, seq: int, limit: int) -> tuple[Record, ...]:
    """Return up to ``limit`` records with numbers above ``seq``, in order."""
    return tuple(_records(tx, "WHERE seq > ? ORDER BY seq LIMIT ?", (seq, limit)))


def remove_through(tx: sqlite3.Connection, seq: int) -> int:
    """Remove the records up to ``seq``; return how many there were."""
    return tx.execute("DELETE FROM audit WHERE seq <= ?", (seq,)).rowcount


def _records(tx: sqlite3.Connection, clause: str, values: tuple[object, ...]) -> Iterator[Record]:
    query = f"SELECT {_COLUMNS} FROM audit {clause}"  # noqa: S608 - clauses are ours, values are bound
    return (Record(*row) for row in tx.execute(query, values))
