"""The init's installation: one read-only volume per engine and version of its content.

The volume is named for the digest of everything in it. It is filled through a container that is
created and never started, and counts as installed once every file read back has the content it
should have. That container's name is the lock: an engine gives a name only once.
"""

from __future__ import annotations

import hashlib
import io
import secrets
import tarfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import anyio

from sandboxrun.engine.layout import DEFAULT_HOSTNAME, INIT_FILE, INIT_MOUNT, SECCOMP_FILE
from sandboxrun.engine.protocol import Engine, VolumeInfo
from sandboxrun.engine.seccomp import seccomp_profile
from sandboxrun.engine.spec import ContainerSpec, VolumeMount, VolumeSpec
from sandboxrun.errors import EngineConflictError, EngineError, InstallError
from sandboxrun.model.limits import MIB

PREFIX: Final = "sandboxrun-init-"
LOCK_SECONDS: Final = 30.0
"""An installer that holds the lock for longer than this is taken for dead."""
_LOCK_PAUSE: Final = 0.05
_REMOVE_SECONDS: Final = 15.0
_NONCE: Final = "sandboxrun.nonce"
_DIGITS: Final = 12
_SLACK: Final = MIB
_EXECUTABLE: Final = 0o555
_READABLE: Final = 0o444


@dataclass(frozen=True, slots=True)
class InitVolume:
    """An installed init."""

    name: str
    """The volume."""
    mountpoint: str
    """Where it is on the engine's host."""
    digest: str
    """SHA-256 (hex) of everything in it."""
    created: str
    """The engine's time for it. Another time means another volume, or a changed one."""


@dataclass(frozen=True, slots=True)
class _File:
    mode: int
    content: bytes


async def ensure(
    engine: Engine,
    image_id: str,
    binary: bytes,
    labels: tuple[tuple[str, str], ...],
    *,
    known: InitVolume | None = None,
) -> InitVolume:
    """Return the volume that holds ``binary`` and our other files, installing it if need be.

    ``image_id`` is any image the engine has: the installing container needs one and never runs.
    ``known`` is an earlier result; if the engine still has that very volume it is not read again.
    Raises `InstallError` when what is read back is not what was written, and engine faults.
    Cancelling leaves at most a volume that is checked again next time: the container is removed,
    shielded and bounded.
    """
    files = _files(binary)
    digest = _digest(files)
    name = PREFIX + digest[:_DIGITS]
    found = await engine.inspect_volume(name)
    if found is not None and known == _result(found, digest):
        return known
    async with _installer(engine, image_id, name, labels) as container:
        if await _installed(engine, container) != files:
            await engine.put_archive(container, INIT_MOUNT, _tar(files))
            if await _installed(engine, container) != files:
                raise InstallError(
                    f"The volume {name} does not hold what was written to it.",
                    advice=f"Remove the volume {name} from the engine and try again.",
                )
        # Asked last: Docker's time of creation is the time its directory last changed.
        volume = await _volume(engine, name, labels)
    return _result(volume, digest)


def _result(volume: VolumeInfo, digest: str) -> InitVolume:
    return InitVolume(volume.name, volume.mountpoint, digest, volume.created)


async def _volume(engine: Engine, name: str, labels: tuple[tuple[str, str], ...]) -> VolumeInfo:
    """Another installation may have made it, under its labels; the content is what counts."""
    found = await engine.inspect_volume(name)
    if found is not None:
        return found
    return await engine.create_volume(VolumeSpec(name, labels))


@asynccontextmanager
async def _installer(
    engine: Engine, image_id: str, volume: str, labels: tuple[tuple[str, str], ...]
) -> AsyncIterator[str]:
    name = f"{volume}-installer"
    spec = ContainerSpec(
        name=name,
        image=image_id,
        entrypoint=("/never-started",),
        user="0:0",
        hostname=DEFAULT_HOSTNAME,
        network="none",
        memory_bytes=32 * MIB,
        nano_cpus=100_000_000,
        pids=1,
        shm_bytes=MIB,
        seccomp=seccomp_profile(),
        seccomp_file="",
        # The nonce keeps another installer's container from being taken for this one.
        labels=(*labels, (_NONCE, secrets.token_hex(16))),
        volumes=(VolumeMount(volume, INIT_MOUNT, read_only=False),),
    )
    try:
        yield await _acquire(engine, spec)
    finally:
        with anyio.CancelScope(shield=True):
            await _release(engine, spec)


async def _acquire(engine: Engine, spec: ContainerSpec) -> str:
    deadline = anyio.current_time() + LOCK_SECONDS
    while True:
        try:
            # The volume first: engines would create it on their own, without our labels.
            await _volume(engine, spec.volumes[0].volume, spec.labels[:-1])
            return await engine.create(spec)
        except EngineConflictError:
            if anyio.current_time() > deadline:
                await engine.remove(spec.name, timeout_seconds=_REMOVE_SECONDS)
                deadline = anyio.current_time() + LOCK_SECONDS
            await anyio.sleep(_LOCK_PAUSE)


async def _release(engine: Engine, spec: ContainerSpec) -> None:
    state = await engine.inspect(spec.name)
    if state is not None and set(spec.labels) <= set(state.labels.items()):
        await engine.remove(state.id, timeout_seconds=_REMOVE_SECONDS)


async def _installed(engine: Engine, container: str) -> Mapping[str, _File]:
    """Return what is in the volume now; empty when it cannot be read as files."""
    limit = 64 * MIB + _SLACK
    archive = await engine.get_archive(container, INIT_MOUNT, limit_bytes=limit)
    if archive is None:
        return {}
    try:
        return _read(archive)
    except tarfile.TarError as error:
        raise EngineError(f"The engine's archive of {INIT_MOUNT} is broken: {error}") from error


def _read(archive: bytes) -> dict[str, _File]:
    found: dict[str, _File] = {}
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        for member in tar:
            if member.isdir():
                continue
            reader = tar.extractfile(member) if member.isreg() else None
            content = b"" if reader is None else reader.read()
            # The archive's names start with the directory's own.
            found[member.name.partition("/")[2]] = _File(member.mode & 0o7777, content)
    return found


def _files(binary: bytes) -> dict[str, _File]:
    hosts = f"127.0.0.1 localhost {DEFAULT_HOSTNAME}\n::1 localhost {DEFAULT_HOSTNAME}\n"
    return {
        INIT_FILE: _File(_EXECUTABLE, binary),
        SECCOMP_FILE: _File(_READABLE, seccomp_profile().encode()),
        "etc/hostname": _File(_READABLE, f"{DEFAULT_HOSTNAME}\n".encode()),
        "etc/hosts": _File(_READABLE, hosts.encode()),
        "etc/resolv.conf": _File(_READABLE, b""),
    }


def _digest(files: Mapping[str, _File]) -> str:
    whole = hashlib.sha256()
    for name, file in sorted(files.items()):
        whole.update(f"{name}\0{file.mode}\0{hashlib.sha256(file.content).hexdigest()}\n".encode())
    return whole.hexdigest()


def _tar(files: Mapping[str, _File]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        directory = tarfile.TarInfo("etc")
        directory.type = tarfile.DIRTYPE
        directory.mode = 0o755
        tar.addfile(directory)
        for name, file in files.items():
            entry = tarfile.TarInfo(name)
            entry.mode = file.mode
            entry.size = len(file.content)
            tar.addfile(entry, io.BytesIO(file.content))
    return buffer.getvalue()
