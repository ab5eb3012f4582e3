"""The engine's archive verbs, over a transport. Only for containers that were never started."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

import anyio

from sandboxrun.engine import containers
from sandboxrun.engine.faults import status_fault
from sandboxrun.engine.protocol import Phase
from sandboxrun.engine.transport import ATTEMPTS, Call, Transport
from sandboxrun.errors import EngineConflictError, EngineNotFoundError

ARCHIVE_SECONDS: Final = 120.0
_TAR: Final = "application/x-tar"


async def put_archive(transport: Transport, container: str, path: str, tar: bytes) -> None:
    """See `Engine.put_archive`."""
    await _require_never_started(transport, container)
    call = Call(
        f"put files into container {container}",
        "PUT",
        f"{containers.path_of(container)}/archive",
        {"path": path, "noOverwriteDirNonDir": "1"},
        body=tar,
        content_type=_TAR,
        seconds=ARCHIVE_SECONDS,
        attempts=ATTEMPTS,
    )
    answer = await transport.ask(call)
    for _ in range(ATTEMPTS - 1):
        if answer.status < HTTPStatus.INTERNAL_SERVER_ERROR:
            break
        # Podman fails when its unpacker has seen the tar's end before all of its padding.
        await anyio.sleep(containers.RETRY_PAUSE)
        answer = await transport.ask(call)
    if answer.status != HTTPStatus.OK:
        raise status_fault(call.what, answer.status, answer.body)


async def get_archive(
    transport: Transport, container: str, path: str, limit_bytes: int
) -> bytes | None:
    """See `Engine.get_archive`."""
    await _require_never_started(transport, container)
    call = Call(
        f"get files of container {container}",
        "GET",
        f"{containers.path_of(container)}/archive",
        {"path": path},
        seconds=ARCHIVE_SECONDS,
    )
    answer = await transport.download(call, limit_bytes)
    if answer.status == HTTPStatus.NOT_FOUND:
        return None
    if answer.status != HTTPStatus.OK:
        raise status_fault(call.what, answer.status, answer.body)
    return answer.body


async def _require_never_started(transport: Transport, container: str) -> None:
    """Refuse a started container: the archive API works on the host's side of its files."""
    state = await containers.inspect(transport, container)
    if state is None:
        raise EngineNotFoundError(f"There is no container {container}.")
    if state.phase is not Phase.CREATED:
        raise EngineConflictError(f"Container {container} has been started; files stay untouched.")
