"""The driver: Docker's Engine API, which Podman serves too.

Calls go through `Transport`, streams through `open_attachment`, differences between engines
through `Dialect`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Final

import anyio
import anyio.lowlevel

from sandboxrun.engine import archives, containers, images, volumes
from sandboxrun.engine.address import TcpAddress, UnixAddress, parse_address
from sandboxrun.engine.answers import Greeting, parse_document, parse_engine, parse_greeting
from sandboxrun.engine.attach import SocketAttachment, open_attachment
from sandboxrun.engine.dialect import dialect_for
from sandboxrun.engine.faults import status_fault
from sandboxrun.engine.protocol import (
    ContainerState,
    ContainerSummary,
    EngineInfo,
    ImageInfo,
    KillResult,
    VolumeInfo,
)
from sandboxrun.engine.spec import ContainerSpec, VolumeSpec
from sandboxrun.engine.transport import ATTEMPTS, Call, Transport
from sandboxrun.errors import EngineError

CONNECT_SECONDS: Final = 10.0
ATTACH_SECONDS: Final = 15.0
OLDEST_API: Final = (1, 41)
"""Docker 20.10 and Podman 4."""
NEWEST_API: Final = (1, 47)
"""The newest API this driver was written against; newer engines still serve it."""


class DockerEngine:
    """An `Engine` at the other end of a socket. Made by `connect`."""

    def __init__(
        self,
        transport: Transport,
        address: UnixAddress | TcpAddress,
        api: str,
        greeting: Greeting,
        info: EngineInfo,
    ) -> None:
        self._transport = transport
        self._address = address
        self._api = api
        self._greeting = greeting
        self._info = info
        self._dialect = dialect_for(info)

    @property
    def url(self) -> str:
        """See `Engine.url`."""
        return self._address.url

    async def describe(self) -> EngineInfo:
        """See `Engine.describe`. Asks again only if another server answers than at first.

        The facts of an engine take Podman half a second.
        """
        greeting = await _greet(self._transport, CONNECT_SECONDS)
        if greeting != self._greeting:
            facts = await _facts(self._transport, CONNECT_SECONDS)
            self._info = parse_engine(greeting, facts, self.url)
            self._greeting, self._dialect = greeting, dialect_for(self._info)
        return self._info

    async def create(self, spec: ContainerSpec) -> str:
        """See `Engine.create`."""
        return await containers.create(self._transport, self._dialect, spec)

    @asynccontextmanager
    async def attach(self, container: str) -> AsyncIterator[SocketAttachment]:
        """See `Engine.attach`."""
        path = f"/v{self._api}{containers.path_of(container)}/attach"
        attachment = await open_attachment(
            self._address, f"{path}?stream=1&stdin=1&stdout=1&stderr=1", seconds=ATTACH_SECONDS
        )
        try:
            yield attachment
        finally:
            attachment.close()

    async def start(self, container: str) -> None:
        """See `Engine.start`."""
        await containers.start(self._transport, container)

    async def inspect(self, container: str) -> ContainerState | None:
        """See `Engine.inspect`."""
        return await containers.inspect(self._transport, container)

    async def wait_ended(self, container: str, *, timeout_seconds: float) -> ContainerState | None:
        """See `Engine.wait_ended`."""
        return await containers.wait_ended(self._transport, container, timeout_seconds)

    async def kill(self, container: str) -> KillResult:
        """See `Engine.kill`."""
        return await containers.kill(self._transport, container)

    async def update(self, container: str, *, memory_bytes: int, nano_cpus: int, pids: int) -> None:
        """See `Engine.update`."""
        await containers.update(
            self._transport, container, memory_bytes=memory_bytes, nano_cpus=nano_cpus, pids=pids
        )

    async def remove(self, container: str, *, timeout_seconds: float) -> bool:
        """See `Engine.remove`."""
        return await containers.remove(self._transport, self._dialect, container, timeout_seconds)

    async def list_containers(self, labels: Mapping[str, str]) -> Sequence[ContainerSummary]:
        """See `Engine.list_containers`."""
        return await containers.list_containers(self._transport, labels)

    async def create_volume(self, spec: VolumeSpec) -> VolumeInfo:
        """See `Engine.create_volume`."""
        return await volumes.create_volume(self._transport, self._dialect, spec)

    async def inspect_volume(self, name: str) -> VolumeInfo | None:
        """See `Engine.inspect_volume`."""
        return await volumes.inspect_volume(self._transport, name)

    async def remove_volume(self, name: str) -> bool:
        """See `Engine.remove_volume`."""
        return await volumes.remove_volume(self._transport, name)

    async def list_volumes(self, labels: Mapping[str, str]) -> Sequence[VolumeInfo]:
        """See `Engine.list_volumes`."""
        return await volumes.list_volumes(self._transport, labels)

    async def put_archive(self, container: str, path: str, tar: bytes) -> None:
        """See `Engine.put_archive`."""
        await archives.put_archive(self._transport, container, path, tar)

    async def get_archive(self, container: str, path: str, *, limit_bytes: int) -> bytes | None:
        """See `Engine.get_archive`."""
        return await archives.get_archive(self._transport, container, path, limit_bytes)

    async def inspect_image(self, reference: str) -> ImageInfo | None:
        """See `Engine.inspect_image`."""
        return await images.inspect_image(self._transport, reference)

    async def list_images(self, labels: Mapping[str, str]) -> Sequence[ImageInfo]:
        """See `Engine.list_images`."""
        return await images.list_images(self._transport, labels)

    async def import_image(
        self, tar: AsyncIterator[bytes], *, tag: str, changes: Sequence[str]
    ) -> str:
        """See `Engine.import_image`."""
        return await images.import_image(self._transport, tar, tag=tag, changes=changes)

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
        """See `Engine.build_image`."""
        return images.build_image(
            self._transport,
            context,
            dockerfile=dockerfile,
            tag=tag,
            build_args=build_args,
            labels=labels,
            network=network,
        )

    async def aclose(self) -> None:
        """See `Engine.aclose`."""
        await anyio.lowlevel.checkpoint()
        self._transport.close()


async def connect(url: str, *, seconds: float = CONNECT_SECONDS) -> DockerEngine:
    """Return a driver for the engine at ``url`` (``unix://…`` or ``tcp://…``).

    Raises `ConfigurationError` for an address that cannot be used, `EngineUnavailableError` when
    nobody answers there, and `EngineError` for an engine that is too old. Cancelling leaves
    nothing behind.
    """
    address = parse_address(url)
    bare = Transport(address)
    try:
        greeting = await _greet(bare, seconds)
    finally:
        bare.close()
    if greeting.api < OLDEST_API:
        raise EngineError(
            f"The engine at {address.url} speaks API {greeting.api[0]}.{greeting.api[1]}; 1.41 "
            "is needed.",
            advice="Upgrade to Docker 20.10 or Podman 4, or newer.",
        )
    api = ".".join(map(str, min(greeting.api, NEWEST_API)))
    transport = Transport(address, f"/v{api}")
    try:
        info = parse_engine(greeting, await _facts(transport, seconds), address.url)
    except BaseException:
        transport.close()
        raise
    return DockerEngine(transport, address, api, greeting, info)


async def _greet(transport: Transport, seconds: float) -> Greeting:
    call = Call("connect", "GET", "/_ping", seconds=seconds, attempts=ATTEMPTS)
    answer = await transport.ask(call)
    if answer.status != HTTPStatus.OK:
        raise status_fault(call.what, answer.status, answer.body)
    return parse_greeting({name.lower(): value for name, value in answer.headers.items()})


async def _facts(transport: Transport, seconds: float) -> object:
    call = Call("connect", "GET", "/info", seconds=seconds, attempts=ATTEMPTS)
    return parse_document(call.what, await transport.demand(call))
