"""The runs, past and present. Requests and outcomes are JSON text to this layer."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Final

from sandboxrun.errors import StateError, UnknownRunError
from sandboxrun.state.clock import timestamp
from sandboxrun.state.owner import Owner
from sandboxrun.state.store import Store

_COLUMNS: Final = (
    "run_id, workspace, principal, conversation, owner, started_at, status, settled_at, "
    "request, outcome"
)


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run as the store knows it. ``status`` and ``outcome`` are None until it is settled."""

    run_id: str
    workspace: str | None
    principal: str
    conversation: str | None
    owner: Owner
    started_at: str
    status: str | None
    settled_at: str | None
    request_json: str
    outcome_json: str | None


@dataclass(frozen=True, slots=True)
class NewRun:
    """What is known of a run before it starts."""

    run_id: str
    workspace: str | None
    principal: str
    conversation: str | None
    started_at: str
    """RFC 3339, UTC."""
    request_json: str


def insert_run(connection: sqlite3.Connection, run: NewRun, owner: Owner) -> None:
    """Add an unsettled run, inside a caller's transaction."""
    connection.execute(
        "INSERT INTO runs (run_id, workspace, principal, conversation, owner, started_at, request)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            run.run_id,
            run.workspace,
            run.principal,
            run.conversation,
            str(owner),
            run.started_at,
            run.request_json,
        ),
    )


def settle_run(
    connection: sqlite3.Connection, run_id: str, *, status: str, outcome_json: str
) -> bool:
    """Give a run its one outcome, inside a caller's transaction.

    Returns False, and changes nothing, when it has one already. Raises `UnknownRunError`.
    """
    done = connection.execute(
        "UPDATE runs SET status = ?, outcome = ?, settled_at = ? WHERE run_id = ? AND status IS NULL",
        (status, outcome_json, timestamp(), run_id),
    )
    if done.rowcount == 1:
        return True
    if connection.execute("SELECT 1 FROM runs WHERE run_id = ?", (run_id,)).fetchone() is None:
        raise UnknownRunError(f"There is no run {run_id!r}.")
    return False


def remove_settled(tx: sqlite3.Connection, *, before: str, limit: int) -> tuple[str, ...]:
    """Remove up to ``limit`` runs settled before a time, oldest first; return their ids."""
    rows = tx.execute(
        "DELETE FROM runs WHERE seq IN (SELECT seq FROM runs WHERE settled_at < ?"
        " ORDER BY settled_at LIMIT ?) RETURNING run_id",
        (before, limit),
    )
    return tuple(run_id for (run_id,) in rows)


@dataclass(frozen=True, slots=True)
class Runs:
    """The table of runs."""

    store: Store

    async def insert(self, run: NewRun, *, durable: bool = True) -> None:
        """Add an unsettled run owned by this process. See `Store.write` for cancellation."""
        await self.store.write(lambda tx: insert_run(tx, run, self.store.owner), durable=durable)

    async def settle(
        self, run_id: str, *, status: str, outcome_json: str, durable: bool = True
    ) -> bool:
        """Give a run its one outcome; False when it has one already.

        Raises `UnknownRunError`. See `Store.write` for cancellation.
        """
        return await self.store.write(
            lambda tx: settle_run(tx, run_id, status=status, outcome_json=outcome_json),
            durable=durable,
        )

    async def get(self, run_id: str) -> RunRow:
        """Return one run. Raises `UnknownRunError`. Cancellation leaves nothing."""
        rows = await self._select("WHERE run_id = ?", (run_id,))
        if not rows:
            raise UnknownRunError(f"There is no run {run_id!r}.")
        return rows[0]

    async def list(
        self, *, limit: int, status: str | None = None, workspace: str | None = None
    ) -> tuple[RunRow, ...]:
        """Return the latest runs, newest first, at most ``limit``. Cancellation leaves nothing."""
        wanted = {"status": status, "workspace": workspace}
        given = {name: value for name, value in wanted.items() if value is not None}
        where = " AND ".join(f"{name} = ?" for name in given)
        clause = (f"WHERE {where} " if where else "") + "ORDER BY seq DESC LIMIT ?"
        return await self._select(clause, (*given.values(), limit))

    async def unsettled(self) -> tuple[RunRow, ...]:
        """Return the runs without an outcome, oldest first. Cancellation leaves nothing."""
        return await self._select("WHERE status IS NULL ORDER BY seq", ())

    async def every(self, *, limit: int, after: str | None = None) -> tuple[RunRow, ...]:
        """Return the runs added after the run ``after``, oldest first, at most ``limit``.

        Raises `UnknownRunError` when ``after`` is not there. Cancellation leaves nothing.
        """
        if after is None:
            return await self._select("ORDER BY seq LIMIT ?", (limit,))
        await self.get(after)
        clause = "WHERE seq > (SELECT seq FROM runs WHERE run_id = ?) ORDER BY seq LIMIT ?"
        return await self._select(clause, (after, limit))

    async def _select(self, clause: str, values: tuple[object, ...]) -> tuple[RunRow, ...]:
        query = f"SELECT {_COLUMNS} FROM runs {clause}"  # noqa: S608 - clauses are ours, values are bound
        return await self.store.read(
            lambda tx: tuple(_row(row) for row in tx.execute(query, values))
        )


def _row(row: tuple[str, ...]) -> RunRow:
    run_id, workspace, principal, conversation, owner, started_at, *rest = row
    status, settled_at, request, outcome = rest
    try:
        process = Owner.parse(owner)
    except ValueError as error:
        raise StateError(f"The row of the run {run_id} was changed: {error}.") from error
    return RunRow(
        run_id,
        workspace,
        principal,
        conversation,
        process,
        started_at,
        status,
        settled_at,
        request,
        outcome,
    )
