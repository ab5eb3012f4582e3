"""A container that exists only for its files: created, never started."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import anyio

from sandboxrun.engine.protocol import Engine, ImageInfo
from sandboxrun.engine.spec import ContainerSpec
from sandboxrun.errors import EngineError
from sandboxrun.model.ids import new_id

_REMOVE_SECONDS = 20.0
_MEMORY_BYTES = 64 * 1024 * 1024
_NANO_CPUS = 100_000_000


@asynccontextmanager
async def never_started(
    engine: Engine, info: ImageInfo, *, labels: Sequence[tuple[str, str]]
) -> AsyncIterator[str]:
    """Give a container of the image that is created, never started, and removed at the end.

    Its files are the image's, for the engine's archive verbs. Removal is shielded and bounded; a
    container the engine didn't remove in time is found by its ``labels``. Raises the engine's
    faults.
    """
    name = new_id("sandboxrun-look")
    try:
        yield await engine.create(_spec(name, info, labels))
    finally:
        with anyio.CancelScope(shield=True), anyio.move_on_after(_REMOVE_SECONDS):
            await _remove(engine, name)


def _spec(name: str, info: ImageInfo, labels: Sequence[tuple[str, str]]) -> ContainerSpec:
    return ContainerSpec(
        name=name,
        image=info.id,
        entrypoint=("/never-started",),
        user="65534:65534",
        hostname="sandbox",
        network="none",
        memory_bytes=_MEMORY_BYTES,
        nano_cpus=_NANO_CPUS,
        pids=8,
        shm_bytes=1024 * 1024,
        seccomp='{"defaultAction": "SCMP_ACT_ERRNO"}',
        seccomp_file="",
        labels=tuple(labels),
    )


async def _remove(engine: Engine, name: str) -> None:
    try:
        await engine.remove(name, timeout_seconds=_REMOVE_SECONDS)
    except EngineError:
        # The labels stay with it; recovery removes what the engine could not remove now.
        return
