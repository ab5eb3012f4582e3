"""A scripted engine in memory, for tests of everything above an engine.

It keeps to the same conformance suite as the real ones. Containers run programs written in Python
(`fake_process.Program`, for an init `fake_init.scripted_init`); any call can be made to fail, to
lose its answer, or never to answer.

    async with FakeEngine(scripted_init()) as engine:
        engine.plan(Verb.START, EngineTimeoutError("lost"), carried_out=True)
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from types import TracebackType
from typing import Self

import anyio
import anyio.abc
import anyio.lowlevel

from sandboxrun.engine.fake_process import (
    KILLED_EXIT,
    FakeAttachment,
    FakeProcess,
    Program,
)
from sandboxrun.engine.fake_store import (
    FAKE_IMAGE,
    FAKE_INFO,
    MOMENT,
    FakeContainer,
    FakeFile,
    FakeVolume,
    FaultPlan,
    PlannedFault,
    Verb,
    pack,
    unpack,
)
from sandboxrun.engine.protocol import (
    Attachment,
    ContainerState,
    ContainerSummary,
    EngineInfo,
    ImageInfo,
    KillResult,
    Phase,
    VolumeInfo,
)
from sandboxrun.engine.spec import ContainerSpec, VolumeSpec
from sandboxrun.errors import (
    EngineConflictError,
    EngineError,
    EngineNotFoundError,
    EngineTimeoutError,
    ImageUnusableError,
    SandboxrunError,
)


class FakeEngine:
    """An `Engine` in memory. An asynchronous context manager, because it owns the processes."""

    def __init__(
        self,
        program: Program,
        *,
        info: EngineInfo = FAKE_INFO,
        images: Sequence[ImageInfo] = (FAKE_IMAGE,),
    ) -> None:
        self.containers: dict[str, FakeContainer] = {}
        """By name."""
        self.volumes: dict[str, FakeVolume] = {}
        self.images: dict[str, ImageInfo] = {image.id: image for image in images}
        self.calls: list[Verb] = []
        """Every call made, in order."""
        self._program = program
        self._info = info
        self._faults = FaultPlan()
        self._group: anyio.abc.TaskGroup | None = None

    async def __aenter__(self) -> Self:
        self._group = anyio.create_task_group()
        await self._group.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        del kind, error, trace
        if self._group is not None:
            self._group.cancel_scope.cancel()
            # What the caller raised is the caller's: in the group's hands it would become a group.
            await self._group.__aexit__(None, None, None)

    def plan(self, verb: Verb, fault: SandboxrunError | None, *, carried_out: bool = False) -> None:
        """Let the next call of ``verb`` fail with ``fault``, or never answer when it is None."""
        self._faults.add(verb, PlannedFault(fault, carried_out))

    @property
    def url(self) -> str:
        """See `Engine.url`."""
        return self._info.url

    @asynccontextmanager
    async def _call(self, verb: Verb) -> AsyncIterator[None]:
        """Record a call and let it meet its fault, before or after it was carried out."""
        await anyio.lowlevel.checkpoint()
        self.calls.append(verb)
        planned = self._faults.next(verb)
        if planned is not None and not planned.carried_out:
            await _fail(planned)
        yield
        if planned is not None:
            await _fail(planned)

    async def describe(self) -> EngineInfo:
        """See `Engine.describe`."""
        async with self._call(Verb.DESCRIBE):
            return self._info

    async def create(self, spec: ContainerSpec) -> str:
        """See `Engine.create`."""
        async with self._call(Verb.CREATE):
            present = self.containers.get(spec.name)
            if present is not None:
                return _adopted(present, spec)
            if spec.image not in self.images:
                raise ImageUnusableError(f"The engine has no image {spec.image}.")
            for mount in spec.volumes:
                # As engines do: a volume that does not exist comes into being, empty.
                self.volumes.setdefault(mount.volume, _new_volume(VolumeSpec(mount.volume, ())))
            container = FakeContainer(secrets.token_hex(32), spec, FakeProcess(spec))
            self.containers[spec.name] = container
            return container.id

    def attach(self, container: str) -> AbstractAsyncContextManager[Attachment]:
        """See `Engine.attach`."""
        return self._attached(container)

    @asynccontextmanager
    async def _attached(self, container: str) -> AsyncIterator[Attachment]:
        async with self._call(Verb.ATTACH):
            attachment = FakeAttachment(self._get(container).process)
        try:
            yield attachment
        finally:
            attachment.close()

    async def start(self, container: str) -> None:
        """See `Engine.start`."""
        async with self._call(Verb.START):
            found = self._get(container)
            if found.phase is Phase.CREATED:
                if self._group is None:
                    raise EngineError("The fake engine was not entered.")
                found.phase, found.started_at = Phase.RUNNING, MOMENT
                found.scope = anyio.CancelScope()
                self._group.start_soon(self._run, found, found.scope)

    async def _run(self, container: FakeContainer, scope: anyio.CancelScope) -> None:
        code = KILLED_EXIT
        try:
            with scope:
                code = await self._program(container.process)
        finally:
            container.exit_code, container.phase = code, Phase.STOPPED
            container.finished_at = MOMENT
            container.process.output.end()
            container.ended.set()

    async def inspect(self, container: str) -> ContainerState | None:
        """See `Engine.inspect`."""
        async with self._call(Verb.INSPECT):
            found = self._find(container)
            return None if found is None else found.state()

    async def wait_ended(self, container: str, *, timeout_seconds: float) -> ContainerState | None:
        """See `Engine.wait_ended`."""
        async with self._call(Verb.WAIT_ENDED):
            found = self._find(container)
            if found is None:
                return None
            with anyio.move_on_after(timeout_seconds):
                await found.ended.wait()
                return found.state()
            raise EngineTimeoutError(f"Container {container} is still running.")

    async def kill(self, container: str) -> KillResult:
        """See `Engine.kill`."""
        async with self._call(Verb.KILL):
            found = self._find(container)
            if found is None:
                return KillResult.GONE
            if found.phase is not Phase.RUNNING or found.scope is None:
                return KillResult.ALREADY_ENDED
            found.scope.cancel()
            return KillResult.KILLED

    async def update(self, container: str, *, memory_bytes: int, nano_cpus: int, pids: int) -> None:
        """See `Engine.update`."""
        async with self._call(Verb.UPDATE):
            found = self._get(container)
            found.spec = replace(
                found.spec, memory_bytes=memory_bytes, nano_cpus=nano_cpus, pids=pids
            )

    async def remove(self, container: str, *, timeout_seconds: float) -> bool:
        """See `Engine.remove`."""
        with anyio.move_on_after(timeout_seconds):
            async with self._call(Verb.REMOVE):
                found = self._find(container)
                if found is not None:
                    if found.scope is not None:
                        found.scope.cancel()
                        await found.ended.wait()
                    found.process.output.end()
                    self.containers.pop(found.spec.name, None)
                return True
        return False

    async def list_containers(self, labels: Mapping[str, str]) -> Sequence[ContainerSummary]:
        """See `Engine.list_containers`."""
        async with self._call(Verb.LIST_CONTAINERS):
            return [
                ContainerSummary(found.id, found.spec.name, found.phase, dict(found.spec.labels))
                for found in self.containers.values()
                if labels.items() <= dict(found.spec.labels).items()
            ]

    async def create_volume(self, spec: VolumeSpec) -> VolumeInfo:
        """See `Engine.create_volume`."""
        async with self._call(Verb.CREATE_VOLUME):
            info = self.volumes.setdefault(spec.name, _new_volume(spec)).info
            if info.labels != dict(spec.labels) or info.options != dict(spec.options):
                raise EngineConflictError(f"A volume named {spec.name} exists already.")
            return info

    async def inspect_volume(self, name: str) -> VolumeInfo | None:
        """See `Engine.inspect_volume`."""
        async with self._call(Verb.INSPECT_VOLUME):
            found = self.volumes.get(name)
            return None if found is None else found.info

    async def remove_volume(self, name: str) -> bool:
        """See `Engine.remove_volume`."""
        async with self._call(Verb.REMOVE_VOLUME):
            mounts = (mount for found in self.containers.values() for mount in found.spec.volumes)
            if any(mount.volume == name for mount in mounts):
                return False
            self.volumes.pop(name, None)
            return True

    async def list_volumes(self, labels: Mapping[str, str]) -> Sequence[VolumeInfo]:
        """See `Engine.list_volumes`."""
        async with self._call(Verb.LIST_VOLUMES):
            found = (volume.info for volume in self.volumes.values())
            return [info for info in found if labels.items() <= info.labels.items()]

    async def put_archive(self, container: str, path: str, tar: bytes) -> None:
        """See `Engine.put_archive`."""
        async with self._call(Verb.PUT_ARCHIVE):
            found = self._never_started(container)
            for name, file in unpack(tar, path).items():
                files, inside = self._place(found, name)
                files[inside] = file

    async def get_archive(self, container: str, path: str, *, limit_bytes: int) -> bytes | None:
        """See `Engine.get_archive`."""
        async with self._call(Verb.GET_ARCHIVE):
            found = self._never_started(container)
            whole = dict(found.files)
            for mount in found.spec.volumes:
                for name, file in self.volumes[mount.volume].files.items():
                    whole[f"{mount.target}/{name}"] = file
            tar = pack(whole, path)
            if tar is not None and len(tar) > limit_bytes:
                raise EngineError(f"More than {limit_bytes} bytes.")
            return tar

    async def inspect_image(self, reference: str) -> ImageInfo | None:
        """See `Engine.inspect_image`."""
        async with self._call(Verb.INSPECT_IMAGE):
            tagged = (image for image in self.images.values() if reference in image.tags)
            return self.images.get(reference) or next(tagged, None)

    async def list_images(self, labels: Mapping[str, str]) -> Sequence[ImageInfo]:
        """See `Engine.list_images`."""
        async with self._call(Verb.LIST_IMAGES):
            return [
                image
                for image in self.images.values()
                if image.tags and labels.items() <= image.labels.items()
            ]

    async def import_image(
        self, tar: AsyncIterator[bytes], *, tag: str, changes: Sequence[str]
    ) -> str:
        """See `Engine.import_image`."""
        async with self._call(Verb.IMPORT_IMAGE):
            digest = hashlib.sha256(repr(changes).encode())
            async for piece in tar:
                digest.update(piece)
            image = replace(FAKE_IMAGE, id=f"sha256:{digest.hexdigest()}", tags=(tag,), env=())
            self.images[image.id] = image
            return image.id

    async def build_image(
        self,
        context: bytes,
        *,
        dockerfile: str,
        tag: str,
        build_args: Mapping[str, str],
        labels: Mapping[str, str],
        network: str,
    ) -> AsyncIterator[str]:
        """See `Engine.build_image`."""
        await anyio.lowlevel.checkpoint()
        digest = hashlib.sha256(context + repr((dockerfile, build_args, network)).encode())
        image = replace(
            FAKE_IMAGE, id=f"sha256:{digest.hexdigest()}", tags=(tag,), labels=dict(labels)
        )
        self.images[image.id] = image
        yield f"built {tag}"

    async def aclose(self) -> None:
        """See `Engine.aclose`."""
        await anyio.lowlevel.checkpoint()

    def _find(self, container: str) -> FakeContainer | None:
        by_id = (found for found in self.containers.values() if found.id == container)
        return self.containers.get(container) or next(by_id, None)

    def _get(self, container: str) -> FakeContainer:
        found = self._find(container)
        if found is None:
            raise EngineNotFoundError(f"There is no container {container}.")
        return found

    def _never_started(self, container: str) -> FakeContainer:
        found = self._get(container)
        if found.phase is not Phase.CREATED:
            raise EngineConflictError(f"Container {container} has been started.")
        return found

    def _place(self, container: FakeContainer, path: str) -> tuple[dict[str, FakeFile], str]:
        """Return where a path of the container is kept, and the key there."""
        for mount in container.spec.volumes:
            if path.startswith(f"{mount.target}/"):
                return self.volumes[mount.volume].files, path[len(mount.target) + 1 :]
        return container.files, path


async def _fail(planned: PlannedFault) -> None:
    if planned.fault is None:
        await anyio.sleep_forever()
    else:
        raise planned.fault


def _adopted(present: FakeContainer, spec: ContainerSpec) -> str:
    same = set(spec.labels) <= set(present.spec.labels) and spec.image == present.spec.image
    if present.phase is not Phase.CREATED or not same:
        raise EngineConflictError(f"The name {spec.name} is taken.")
    return present.id


def _new_volume(spec: VolumeSpec) -> FakeVolume:
    return FakeVolume(
        VolumeInfo(
            name=spec.name,
            driver="local",
            mountpoint=f"/fake/volumes/{spec.name}",
            created=MOMENT,
            labels=dict(spec.labels),
            options=dict(spec.options),
        )
    )
