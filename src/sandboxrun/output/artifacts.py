"""Artifacts: the complete output of runs, compressed, under ids that cannot be guessed.

A file is there before its row, and its row is marked before the file goes. So what the index
lists can be read, and a file nobody lists is left over from a crash and is collected.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, Protocol, assert_never

import anyio
import anyio.to_thread

from sandboxrun.errors import ArtifactExpiredError, OutputError, UnknownArtifactError
from sandboxrun.model.artifact import Artifact, ArtifactRow, Gone
from sandboxrun.model.event import Output
from sandboxrun.output.seekable import SeekableWriter, read_range
from sandboxrun.output.spool_reader import SpoolReader

_SUFFIX: Final = ".zst"
_UNFINISHED: Final = ".part"
_ID_BYTES: Final = 20
_LEFTOVER_SECONDS: Final = 3600.0
"""How old a file without a row must be to be taken for left over: making one takes seconds."""


class ArtifactIndex(Protocol):
    """Where the rows are; implemented by the state store."""

    async def add(self, row: ArtifactRow) -> None:
        """Remember ``row``."""
        ...

    async def get(self, artifact_id: str) -> ArtifactRow | None:
        """Return the row, or None."""
        ...

    async def present(self) -> list[ArtifactRow]:
        """Return the rows that are not gone, oldest first."""
        ...

    async def mark_gone(self, artifact_id: str, why: Gone, at: datetime) -> None:
        """Record that it cannot be read any more, why, and since when."""
        ...


@dataclass(frozen=True, slots=True)
class ArtifactPolicy:
    """How long and how much."""

    lifetime_seconds: float = 24 * 3600.0
    budget_bytes: int = 2 * 1024**3
    """Size of all files together."""


class Artifacts:
    """The artifacts of one state directory."""

    def __init__(
        self,
        directory: Path,
        index: ArtifactIndex,
        policy: ArtifactPolicy,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Use ``directory``, which exists and only its owner can enter."""
        self._directory = directory
        self._index = index
        self._policy = policy
        self._now = now

    async def keep(
        self, spool: Path, *, run_id: str, workspace: str | None, principal: str
    ) -> Artifact:
        """Keep the output in ``spool`` and return its artifact.

        The oldest artifacts make room where the budget asks for it. Raises `OutputError` when it
        does not fit even alone, or cannot be written, and the index's own. Cancelling leaves at
        most a file that is collected later.
        """
        artifact_id = f"artifact-{secrets.token_hex(_ID_BYTES)}"
        path = self._path(artifact_id)
        written = await anyio.to_thread.run_sync(_compress, spool, path)
        if written.stored_bytes > self._policy.budget_bytes:
            path.unlink()
            raise OutputError(
                f"The output needs {written.stored_bytes:,} bytes; artifacts may have "
                f"{self._policy.budget_bytes:,} together."
            )
        created = self._now()
        expires = created + timedelta(seconds=self._policy.lifetime_seconds)
        artifact = Artifact(
            id=artifact_id, bytes=written.bytes, sha256=written.sha256, expires_at=expires
        )
        await self._make_room(written.stored_bytes)
        await self._index.add(
            ArtifactRow(artifact, run_id, workspace, principal, created, written.stored_bytes)
        )
        return artifact

    async def find(self, artifact_id: str, may_read: Callable[[ArtifactRow], bool]) -> Artifact:
        """Return the artifact if it can be read.

        Raises `UnknownArtifactError` if there never was one or ``may_read`` says no, which look
        the same, and `ArtifactExpiredError` if there was. Cancelling leaves nothing.
        """
        row = await self._index.get(artifact_id)
        if row is None or not may_read(row):
            raise UnknownArtifactError("No artifact has this id, or it is not yours.")
        gone = row.gone
        if gone is None and self._now() >= row.artifact.expires_at:
            gone = Gone.EXPIRED
        match gone:
            case None:
                return row.artifact
            case Gone.EXPIRED:
                until = row.artifact.expires_at.isoformat(timespec="seconds")
                raise ArtifactExpiredError(f"The artifact could be read until {until}.")
            case Gone.EVICTED:
                raise ArtifactExpiredError("The artifact made room for newer ones.")
            case _:
                assert_never(gone)

    async def read(
        self,
        artifact_id: str,
        may_read: Callable[[ArtifactRow], bool],
        *,
        start: int = 0,
        length: int | None = None,
    ) -> AsyncGenerator[bytes]:
        """Yield the bytes from ``start`` on, ``length`` of them or all, in pieces.

        Raises as `find` does, and `OutputError` if the file cannot be read. Cancelling leaves
        nothing; close the generator when leaving early.
        """
        await self.find(artifact_id, may_read)
        try:
            fd = os.open(self._path(artifact_id), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError as error:
            # It was collected between the question and now.
            raise ArtifactExpiredError("The artifact has just been removed.") from error
        except OSError as error:
            raise OutputError(f"The artifact cannot be read: {error.strerror}.") from error
        try:
            pieces = read_range(fd, start, length)
            while piece := await anyio.to_thread.run_sync(next, pieces, b""):
                yield piece
        finally:
            os.close(fd)

    async def collect(self) -> list[tuple[str, Gone]]:
        """Remove what has expired or exceeds the budget, and return what was, with the reason.

        Also removes files left over from crashes. Raises the index's faults. Cancelling leaves
        the rest for the next time.
        """
        now = self._now()
        removed: list[tuple[str, Gone]] = []
        for row in await self._index.present():
            if now >= row.artifact.expires_at:
                await self._remove(row, Gone.EXPIRED)
                removed.append((row.artifact.id, Gone.EXPIRED))
        removed += await self._make_room(0)
        listed = {row.artifact.id for row in await self._index.present()}
        await anyio.to_thread.run_sync(self._remove_leftovers, listed)
        return removed

    async def _make_room(self, needed: int) -> list[tuple[str, Gone]]:
        rows = await self._index.present()
        size = sum(row.stored_bytes for row in rows) + needed
        removed: list[tuple[str, Gone]] = []
        for row in rows:
            if size <= self._policy.budget_bytes:
                break
            await self._remove(row, Gone.EVICTED)
            removed.append((row.artifact.id, Gone.EVICTED))
            size -= row.stored_bytes
        return removed

    async def _remove(self, row: ArtifactRow, why: Gone) -> None:
        await self._index.mark_gone(row.artifact.id, why, self._now())
        self._path(row.artifact.id).unlink(missing_ok=True)

    def _remove_leftovers(self, listed: set[str]) -> None:
        youngest = self._now().timestamp() - _LEFTOVER_SECONDS
        for path in self._directory.glob("artifact-*"):
            if path.name.removesuffix(_SUFFIX) not in listed:
                with suppress(FileNotFoundError):
                    if path.stat().st_mtime < youngest:
                        path.unlink()

    def _path(self, artifact_id: str) -> Path:
        return self._directory / f"{artifact_id}{_SUFFIX}"


@dataclass(frozen=True, slots=True)
class _Written:
    bytes: int
    sha256: str
    stored_bytes: int


def _compress(spool: Path, path: Path) -> _Written:
    digest = hashlib.sha256()
    size = 0
    unfinished = path.with_suffix(_UNFINISHED)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(unfinished, flags, 0o600), "wb") as file:
            writer = SeekableWriter(file)
            for data in _outputs(spool):
                digest.update(data)
                size += len(data)
                writer.write(data)
            writer.finish()
            stored = file.tell()
        unfinished.rename(path)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise OutputError(f"{path}: {error.strerror}.") from error
    return _Written(size, digest.hexdigest(), stored)


def _outputs(spool: Path) -> Iterator[bytes]:
    with SpoolReader(spool) as reader:
        while batch := reader.read(final=True):
            yield from (event.data for event in batch if isinstance(event, Output))
