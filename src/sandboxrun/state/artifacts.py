"""The artifacts, present and gone."""

from __future__ import annotations

import sqlite3
from datetime import datetime
from typing import Final

from sandboxrun.model.artifact import Artifact, ArtifactRow, Gone
from sandboxrun.state.clock import rfc3339
from sandboxrun.state.store import Store

_COLUMNS: Final = (
    "artifact_id, bytes, sha256, expires_at, run_id, workspace, principal, created_at, "
    "stored_bytes, gone"
)


class ArtifactRows:
    """The rows of the store that name artifacts."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def add(self, row: ArtifactRow) -> None:
        """Remember ``row``. Raises `StateError`. Cancellation leaves it wholly or not at all."""
        values = (
            row.artifact.id,
            row.artifact.bytes,
            row.artifact.sha256,
            rfc3339(row.artifact.expires_at),
            row.run_id,
            row.workspace,
            row.principal,
            rfc3339(row.created_at),
            row.stored_bytes,
            None if row.gone is None else row.gone.value,
        )
        marks = ", ".join("?" * len(values))
        statement = f"INSERT INTO artifacts ({_COLUMNS}) VALUES ({marks})"  # noqa: S608 - constants
        await self._store.write(lambda tx: tx.execute(statement, values), durable=False)

    async def get(self, artifact_id: str) -> ArtifactRow | None:
        """Return the row, or None. Raises `StateError`. Cancellation leaves nothing."""
        found = await self._rows("WHERE artifact_id = ?", artifact_id)
        return found[0] if found else None

    async def present(self) -> list[ArtifactRow]:
        """Return the rows that are not gone, oldest first. Faults as for `get`."""
        return await self._rows("WHERE gone IS NULL ORDER BY created_at, artifact_id")

    async def mark_gone(self, artifact_id: str, why: Gone, at: datetime) -> None:
        """Record that it cannot be read any more; the first reason stays. As `add` otherwise."""
        statement = (
            "UPDATE artifacts SET gone = ?, gone_at = ? WHERE artifact_id = ? AND gone IS NULL"
        )
        values = (why.value, rfc3339(at), artifact_id)
        await self._store.write(lambda tx: tx.execute(statement, values), durable=False)

    async def _rows(self, where: str, *values: str) -> list[ArtifactRow]:
        query = f"SELECT {_COLUMNS} FROM artifacts {where}"  # noqa: S608 - constants
        found = await self._store.read(lambda tx: tx.execute(query, values).fetchall())
        return [_row(columns) for columns in found]


def _row(columns: sqlite3.Row) -> ArtifactRow:
    artifact_id, size, sha256, expires_at, run_id, workspace, principal, created_at = columns[:8]
    stored_bytes, gone = columns[8:]
    return ArtifactRow(
        artifact=Artifact(
            id=artifact_id, bytes=size, sha256=sha256, expires_at=datetime.fromisoformat(expires_at)
        ),
        run_id=run_id,
        workspace=workspace,
        principal=principal,
        created_at=datetime.fromisoformat(created_at),
        stored_bytes=stored_bytes,
        gone=None if gone is None else Gone(gone),
    )
