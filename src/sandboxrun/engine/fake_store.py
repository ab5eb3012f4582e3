"""What the fake engine keeps: containers, volumes with files, images, and planned faults."""

from __future__ import annotations

import io
import posixpath
import tarfile
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import anyio

from sandboxrun.engine.fake_process import FakeProcess
from sandboxrun.engine.protocol import (
    ContainerState,
    EngineInfo,
    EngineKind,
    ImageInfo,
    Phase,
    VolumeInfo,
)
from sandboxrun.engine.spec import ContainerSpec
from sandboxrun.errors import SandboxrunError

URL: Final = "fake://engine"
MOMENT: Final = "2024-01-01T00:00:00Z"
FAKE_INFO: Final = EngineInfo(
    url=URL,
    kind=EngineKind.FAKE,
    version="1",
    api_version="1.41",
    engine_id="fake",
    cgroup_version=2,
    default_runtime="fake",
    runtimes=("fake",),
    storage_driver="memory",
    architecture="x86_64",
    rootless=False,
    cpus=4,
    memory_bytes=8 * 1024**3,
)
FAKE_IMAGE: Final = ImageInfo(
    id="sha256:" + "f" * 64,
    tags=("fake:latest",),
    os="linux",
    architecture="amd64",
    env=("PATH=/usr/bin:/bin",),
    labels={},
    size_bytes=1,
    created=MOMENT,
    user="",
    volumes=(),
)


class Verb(StrEnum):
    """The calls of an engine, for planning faults."""

    DESCRIBE = "describe"
    CREATE = "create"
    ATTACH = "attach"
    START = "start"
    INSPECT = "inspect"
    WAIT_ENDED = "wait_ended"
    KILL = "kill"
    UPDATE = "update"
    REMOVE = "remove"
    LIST_CONTAINERS = "list_containers"
    CREATE_VOLUME = "create_volume"
    INSPECT_VOLUME = "inspect_volume"
    REMOVE_VOLUME = "remove_volume"
    LIST_VOLUMES = "list_volumes"
    PUT_ARCHIVE = "put_archive"
    GET_ARCHIVE = "get_archive"
    INSPECT_IMAGE = "inspect_image"
    LIST_IMAGES = "list_images"
    IMPORT_IMAGE = "import_image"


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """What happens to one call. ``fault`` None means that it never answers."""

    fault: SandboxrunError | None
    carried_out: bool = False
    """Whether the engine does what was asked before the answer is lost."""


@dataclass(slots=True)
class FakeContainer:
    """One container."""

    id: str
    spec: ContainerSpec
    process: FakeProcess
    phase: Phase = Phase.CREATED
    exit_code: int | None = None
    oom_killed: bool = False
    scope: anyio.CancelScope | None = None
    ended: anyio.Event = field(default_factory=anyio.Event)
    files: dict[str, FakeFile] = field(default_factory=dict)
    started_at: str | None = None
    finished_at: str | None = None

    def state(self) -> ContainerState:
        """Return what an inspection shows."""
        return ContainerState(
            id=self.id,
            name=self.spec.name,
            phase=self.phase,
            exit_code=self.exit_code if self.phase is Phase.STOPPED else None,
            oom_killed=self.oom_killed,
            error="",
            started_at=self.started_at,
            finished_at=self.finished_at,
            labels=dict(self.spec.labels),
            image=self.spec.image,
        )


@dataclass(frozen=True, slots=True)
class FakeFile:
    """One regular file."""

    mode: int
    content: bytes


@dataclass(slots=True)
class FakeVolume:
    """One volume and the files in it, by path relative to its root."""

    info: VolumeInfo
    files: dict[str, FakeFile] = field(default_factory=dict)


@dataclass(slots=True)
class FaultPlan:
    """Faults to come, by verb, in order."""

    planned: dict[Verb, deque[PlannedFault]] = field(default_factory=dict)

    def add(self, verb: Verb, fault: PlannedFault) -> None:
        """Let the next call of ``verb`` that has no fault yet meet this one."""
        self.planned.setdefault(verb, deque()).append(fault)

    def next(self, verb: Verb) -> PlannedFault | None:
        """Take the fault of a call that begins now."""
        waiting = self.planned.get(verb)
        return waiting.popleft() if waiting else None


def unpack(tar: bytes, below: str) -> dict[str, FakeFile]:
    """Return the regular files of a tar with their paths below ``below``."""
    found: dict[str, FakeFile] = {}
    with tarfile.open(fileobj=io.BytesIO(tar)) as archive:
        for member in archive:
            reader = archive.extractfile(member) if member.isreg() else None
            if reader is not None:
                path = posixpath.normpath(posixpath.join(below, member.name))
                found[path] = FakeFile(member.mode, reader.read())
    return found


def pack(files: Mapping[str, FakeFile], path: str) -> bytes | None:
    """Return a tar of the files at or below ``path``, named as engines name them, or None."""
    base = posixpath.basename(path)
    chosen = {
        posixpath.join(base, posixpath.relpath(name, path)) if name != path else base: file
        for name, file in files.items()
        if name == path or name.startswith(f"{path}/")
    }
    if not chosen:
        return None
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, file in sorted(chosen.items()):
            entry = tarfile.TarInfo(name)
            entry.mode = file.mode
            entry.size = len(file.content)
            archive.addfile(entry, io.BytesIO(file.content))
    return buffer.getvalue()
