"""Duties that one process at a time may do, such as recovery.

A lease is held while its owner lives: it is not renewed by the clock, because a paused process
would lose it and then go on. It can be taken over only from a dead owner.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio

from sandboxrun.errors import StateError
from sandboxrun.state.clock import timestamp
from sandboxrun.state.owner import Owner
from sandboxrun.state.store import Store

_RELEASE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Lease:
    """A duty this process holds."""

    name: str
    token: str
    taken_from: Owner | None
    """The dead owner that left it behind, if any."""


@asynccontextmanager
async def lease(store: Store, name: str) -> AsyncIterator[Lease | None]:
    """Hold the duty ``name`` for the block, or yield None while a living owner has it.

    Two tasks of one process exclude each other too. Raises `StateError`. Cancellation releases
    it; a process that dies leaves it to whoever asks next.
    """
    token = secrets.token_hex(16)
    held = await store.write(lambda tx: _acquire(tx, name, store.owner, token), durable=False)
    try:
        yield held
    finally:
        if held is not None:
            with anyio.move_on_after(_RELEASE_SECONDS, shield=True):
                await store.write(lambda tx: _release(tx, name, token), durable=False)


async def renew(store: Store, held: Lease) -> None:
    """Note that the duty is still being done. Raises `StateError` when it was taken away."""

    def note(tx: sqlite3.Connection) -> bool:
        done = tx.execute(
            "UPDATE leases SET renewed_at = ? WHERE name = ? AND token = ?",
            (timestamp(), held.name, held.token),
        )
        return done.rowcount == 1

    if not await store.write(note, durable=False):
        raise StateError(f"The duty {held.name!r} was taken over by another process.")


def _acquire(tx: sqlite3.Connection, name: str, owner: Owner, token: str) -> Lease | None:
    row = tx.execute("SELECT owner FROM leases WHERE name = ?", (name,)).fetchone()
    previous = None if row is None else Owner.parse(row[0])
    if previous is not None and previous.is_alive():
        return None
    now = timestamp()
    tx.execute(
        "INSERT OR REPLACE INTO leases (name, owner, token, acquired_at, renewed_at)"
        " VALUES (?, ?, ?, ?, ?)",
        (name, str(owner), token, now, now),
    )
    return Lease(name, token, previous)


def _release(tx: sqlite3.Connection, name: str, token: str) -> None:
    tx.execute("DELETE FROM leases WHERE name = ? AND token = ?", (name, token))
