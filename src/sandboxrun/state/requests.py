"""What one process asks of another's run: a row, and an owner that looks for it.

The owner looks at SQLite's ``data_version``, a number in shared memory that changes when somebody
commits. One thread looks for all runs of a process, and rests while none is watched, so its cost
does not grow with the number of idle runs.
"""

from __future__ import annotations

import math
import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import anyio
import structlog
from anyio.streams.memory import MemoryObjectSendStream

from sandboxrun.errors import StateError, UnknownRunError
from sandboxrun.model.ids import new_id
from sandboxrun.state.clock import timestamp
from sandboxrun.state.store import Store

POLL_SECONDS: Final = 0.08
"""Between two looks for an answer."""
_PAUSE_AFTER_FAULT_SECONDS: Final = 1.0


class RequestKind(StrEnum):
    """What can be asked of a run."""

    CANCEL = "cancel"


@dataclass(frozen=True, slots=True)
class RunRequest:
    """One thing asked of one run, not answered yet. ``payload`` is JSON text."""

    request_id: str
    run_id: str
    kind: RequestKind
    payload: str
    asked_at: str


async def ask(store: Store, run_id: str, kind: RequestKind, payload: str = "{}") -> str:
    """Ask something of a run, whoever owns it; return the id the answer will be found under.

    Raises `UnknownRunError`, `StateError`. Cancellation may leave the request asked.
    """
    request_id = new_id("req")

    def insert(tx: sqlite3.Connection) -> None:
        tx.execute(
            "INSERT INTO requests (request_id, run_id, kind, payload, asked_by, asked_at)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (request_id, run_id, kind.value, payload, str(store.owner), timestamp()),
        )

    try:
        await store.write(insert, durable=False)
    except sqlite3.IntegrityError as missing:
        raise UnknownRunError(f"There is no run {run_id!r}.") from missing
    return request_id


async def answer(store: Store, request_id: str, result: str) -> bool:
    """Answer a request with JSON text; False when it was answered already.

    Raises `StateError`. See `Store.write` for cancellation.
    """

    def update(tx: sqlite3.Connection) -> bool:
        done = tx.execute(
            "UPDATE requests SET answered_at = ?, result = ?"
            " WHERE request_id = ? AND answered_at IS NULL",
            (timestamp(), result, request_id),
        )
        return done.rowcount == 1

    return await store.write(update, durable=False)


async def wait_answer(store: Store, request_id: str, *, timeout_seconds: float) -> str | None:
    """Wait for the answer to a request; None when there is none in time.

    Raises `StateError`. Cancellation leaves the request as it is.
    """

    def look(tx: sqlite3.Connection) -> str | None:
        row = tx.execute(
            "SELECT result FROM requests WHERE request_id = ?", (request_id,)
        ).fetchone()
        if row is None:
            raise StateError(f"The request {request_id} is gone.")
        return None if row[0] is None else str(row[0])

    found = await store.read(look)
    with anyio.move_on_after(timeout_seconds):
        while found is None:
            await anyio.sleep(POLL_SECONDS)
            found = await store.read(look)
    return found


async def pending(store: Store) -> tuple[RunRequest, ...]:
    """Return every unanswered request of a known kind, oldest first. Cancelling leaves nothing."""
    return await store.read(_pending)


def _pending(tx: sqlite3.Connection) -> tuple[RunRequest, ...]:
    rows = tx.execute(
        "SELECT request_id, run_id, kind, payload, asked_at FROM requests"
        " WHERE answered_at IS NULL ORDER BY seq"
    )
    # A newer sandboxrun may ask for things this one has never heard of: those stay unanswered.
    return tuple(
        RunRequest(request_id, run_id, RequestKind(kind), payload, asked_at)
        for request_id, run_id, kind, payload, asked_at in rows
        if kind in RequestKind.__members__.values()
    )


@dataclass(slots=True)
class RequestDesk:
    """Hands the requests of other processes to the tasks that own the runs.

    One per process; `serve` must be running for watchers to hear anything.
    """

    _store: Store
    _listeners: dict[str, MemoryObjectSendStream[RunRequest]] = field(default_factory=dict)
    _handed: dict[str, set[str]] = field(default_factory=dict)
    _arrived: anyio.Event = field(default_factory=anyio.Event)
    _wake: threading.Event = field(default_factory=threading.Event)

    @asynccontextmanager
    async def watch(self, run_id: str) -> AsyncIterator[AsyncIterator[RunRequest]]:
        """Yield an iterator over what is asked of one run, each request once.

        It starts with those asked before. One watcher at a time per run. Answer each with
        `answer`; one left unanswered is handed to the next watcher. Leaving stops watching.
        """
        if run_id in self._listeners:
            raise ValueError(f"{run_id} is watched already")
        send, receive = anyio.create_memory_object_stream[RunRequest](math.inf)
        self._listeners[run_id] = send
        self._handed[run_id] = set()
        self._arrived.set()
        self._wake.set()
        try:
            async with receive:
                yield receive
        finally:
            del self._listeners[run_id]
            del self._handed[run_id]
            send.close()

    async def serve(self) -> None:
        """Look for requests until cancelled. Whoever made the desk runs this as its one task.

        A fault of the store is logged and looked past: the runs it serves go on, and recover
        their requests once the store answers. Cancellation leaves the requests as rows.
        """
        log = structlog.get_logger()
        seen: int | None = None
        while True:
            if not self._listeners:
                self._arrived = anyio.Event()
                await self._arrived.wait()
            self._wake = threading.Event()
            try:
                self._hand_out(await pending(self._store))
                seen = await self._store.wait_for_commit(seen, self._wake)
            except StateError as fault:
                log.warning("requests_unreadable", error=fault.message)
                await anyio.sleep(_PAUSE_AFTER_FAULT_SECONDS)

    def _hand_out(self, requests: tuple[RunRequest, ...]) -> None:
        for request in requests:
            listener = self._listeners.get(request.run_id)
            if listener is None or request.request_id in self._handed[request.run_id]:
                continue
            self._handed[request.run_id].add(request.request_id)
            listener.send_nowait(request)
