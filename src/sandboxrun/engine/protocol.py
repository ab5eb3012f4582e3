"""The engine as the rest of the project sees it: a handful of OCI verbs.

Every method has a deadline of its own inside the driver and raises only faults of
`sandboxrun.errors`. A cancelled call may still be carried out by the engine: callers own what
they asked for by name and labels, which exist before the call, and remove by name.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from sandboxrun.engine.spec import ContainerSpec, VolumeSpec


class EngineKind(StrEnum):
    """Which engine answers."""

    DOCKER = "docker"
    PODMAN = "podman"
    FAKE = "fake"


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """What the engine says of itself."""

    url: str
    kind: EngineKind
    version: str
    api_version: str
    engine_id: str
    """Stable for one data root."""
    cgroup_version: int
    default_runtime: str
    runtimes: tuple[str, ...]
    storage_driver: str
    architecture: str
    rootless: bool
    cpus: int
    memory_bytes: int


class Phase(StrEnum):
    """A container's state in OCI words."""

    CREATED = "created"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"
    REMOVING = "removing"


@dataclass(frozen=True, slots=True)
class ContainerState:
    """What the engine knows of one container. ``exit_code`` is None while it has not ended."""

    id: str
    name: str
    phase: Phase
    exit_code: int | None
    oom_killed: bool | None
    error: str
    started_at: str | None
    finished_at: str | None
    labels: Mapping[str, str]
    image: str


@dataclass(frozen=True, slots=True)
class ContainerSummary:
    """One row of a listing."""

    id: str
    name: str
    phase: Phase
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ImageInfo:
    """One image, by content id."""

    id: str
    tags: tuple[str, ...]
    os: str
    architecture: str
    env: tuple[str, ...]
    labels: Mapping[str, str]
    size_bytes: int
    created: str
    user: str
    volumes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class VolumeInfo:
    """One volume. ``mountpoint`` is a path on the engine's host."""

    name: str
    driver: str
    mountpoint: str
    created: str
    labels: Mapping[str, str]
    options: Mapping[str, str]


class KillResult(StrEnum):
    """What became of a kill."""

    KILLED = "killed"
    ALREADY_ENDED = "already_ended"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class StreamChunk:
    """Bytes of the container's own stdout (the init's frames) or stderr (runtime messages)."""

    stderr: bool
    data: bytes


class Attachment(Protocol):
    """The attached standard streams of one container.

    One task may receive while another sends. ``receive`` returns an empty list at end of stream,
    and raises `EngineError` on a truncated multiplex header or a broken connection: a cut stream
    is never an end of stream.
    """

    async def receive(self) -> list[StreamChunk]:
        """Return what has arrived, waiting for at least one byte. Cancelling loses nothing."""
        ...

    async def send(self, data: bytes) -> None:
        """Write all of ``data`` to the container's stdin. Cancelling may leave a part written."""
        ...

    async def close_send(self) -> None:
        """Half-close: the container's stdin sees end of file."""
        ...

    def pending(self) -> bool:
        """Return whether bytes, or the end, have arrived that nobody has received yet."""
        ...

    def close(self) -> None:
        """Close the connection at once, without waiting. Safe to call twice."""
        ...


class Engine(Protocol):
    """About ten verbs; everything above is built from them."""

    @property
    def url(self) -> str:
        """Where the engine answers, e.g. ``unix:///run/docker.sock``."""
        ...

    async def describe(self) -> EngineInfo:
        """Ask who answers. Raises `EngineUnavailableError` when nobody does."""
        ...

    async def create(self, spec: ContainerSpec) -> str:
        """Create a container and return its id; on a name conflict adopt it only if labels match.

        Raises `ImageUnusableError` when the image is absent. Never pulls.
        """
        ...

    def attach(self, container: str) -> AbstractAsyncContextManager[Attachment]:
        """Attach stdin, stdout and stderr of a created container; closes on exit."""
        ...

    async def start(self, container: str) -> None:
        """Start a created container. Never retried: a lost answer is settled by inspection."""
        ...

    async def inspect(self, container: str) -> ContainerState | None:
        """Return the container's state, or None when the engine knows no such container."""
        ...

    async def wait_ended(self, container: str, *, timeout_seconds: float) -> ContainerState | None:
        """Return the state once the container has ended, or None when it is gone.

        Raises `EngineTimeoutError` if it is still running after the timeout.
        """
        ...

    async def kill(self, container: str) -> KillResult:
        """Send SIGKILL to the whole container. Ended and gone are results, not faults."""
        ...

    async def update(self, container: str, *, memory_bytes: int, nano_cpus: int, pids: int) -> None:
        """Change the limits of a container."""
        ...

    async def remove(self, container: str, *, timeout_seconds: float) -> bool:
        """Remove by force, with anonymous volumes; return True once the engine says it is gone."""
        ...

    async def list_containers(self, labels: Mapping[str, str]) -> Sequence[ContainerSummary]:
        """Return all containers, in any phase, that carry every given label."""
        ...

    async def create_volume(self, spec: VolumeSpec) -> VolumeInfo:
        """Create a volume and compare its options: an existing name is returned by engines silently.

        Raises `EngineConflictError` if the volume that answers is not the one asked for.
        """
        ...

    async def inspect_volume(self, name: str) -> VolumeInfo | None:
        """Return the volume, or None when there is none of this name."""
        ...

    async def remove_volume(self, name: str) -> bool:
        """Remove a volume; True when it is gone, False while a container still holds it."""
        ...

    async def list_volumes(self, labels: Mapping[str, str]) -> Sequence[VolumeInfo]:
        """Return all volumes that carry every given label."""
        ...

    async def put_archive(self, container: str, path: str, tar: bytes) -> None:
        """Extract an uncompressed tar below ``path`` of a created, never started container."""
        ...

    async def get_archive(self, container: str, path: str, *, limit_bytes: int) -> bytes | None:
        """Return a tar of ``path``, or None when absent. Only for created, never started ones.

        Names in it start with one component that is the engine's choice. Raises `EngineError`
        when the tar has more than ``limit_bytes``.
        """
        ...

    async def inspect_image(self, reference: str) -> ImageInfo | None:
        """Return the image a tag or id names, or None."""
        ...

    async def list_images(self, labels: Mapping[str, str]) -> Sequence[ImageInfo]:
        """Return all tagged images that carry every given label."""
        ...

    async def import_image(
        self, tar: AsyncIterator[bytes], *, tag: str, changes: Sequence[str]
    ) -> str:
        """Make an image of one layer from a root file system; return its id."""
        ...

    def build_image(
        self,
        context: bytes,
        *,
        dockerfile: str,
        tag: str,
        build_args: Mapping[str, str],
        labels: Mapping[str, str],
        network: str,
    ) -> AsyncIterator[str]:
        """Build from a tar context, yielding the engine's log lines; raises on failure."""
        ...

    async def aclose(self) -> None:
        """Close connections. Nothing of the engine's is removed."""
        ...
