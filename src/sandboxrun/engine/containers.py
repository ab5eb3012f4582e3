"""The engine's container verbs, over a transport."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

import anyio

from sandboxrun.engine import volumes
from sandboxrun.engine.answers import parse_document, parse_state, parse_summaries
from sandboxrun.engine.dialect import Dialect
from sandboxrun.engine.encode import TMPFS_INFIX, encode_container, tmpfs_volumes
from sandboxrun.engine.faults import message_of, status_fault, timeout_fault
from sandboxrun.engine.protocol import ContainerState, ContainerSummary, KillResult, Phase
from sandboxrun.engine.spec import ContainerSpec
from sandboxrun.engine.transport import ATTEMPTS, Answer, Call, Transport
from sandboxrun.errors import (
    EngineConflictError,
    EngineError,
    EngineNotFoundError,
    EngineTimeoutError,
    EngineUnavailableError,
    ImageUnusableError,
)

CREATE_SECONDS: Final = 60.0
START_SECONDS: Final = 60.0
SETTLE_SECONDS: Final = 10.0
"""How long a start whose answer was lost may take to show in the container's state."""
CONTROL_SECONDS: Final = 10.0
UPDATE_SECONDS: Final = 15.0
UNDO_SECONDS: Final = 10.0
RETRY_PAUSE: Final = 0.2
_FIRST_POLL: Final = 0.002
_LONGEST_POLL: Final = 0.05
_LONGEST_BACKOFF: Final = 1.0
_NO_SUCH: Final = "no such container"


def path_of(container: str) -> str:
    """Return the API path of a container, by name or id."""
    return f"/containers/{quote(container, safe='')}"


def _pauses(first: float, longest: float) -> Iterator[float]:
    pause = first
    while True:
        yield pause
        pause = min(pause * 2, longest)


async def create(transport: Transport, dialect: Dialect, spec: ContainerSpec) -> str:
    """See `Engine.create`."""
    if not dialect.inodes_by_volume:
        return await _create(transport, dialect, spec)
    try:
        for _, volume in tmpfs_volumes(spec, dialect):
            await volumes.create_volume(transport, dialect, volume)
        return await _create(transport, dialect, spec)
    except BaseException:
        with anyio.CancelScope(shield=True), anyio.move_on_after(UNDO_SECONDS):
            await volumes.remove_named_after(transport, spec.name + TMPFS_INFIX)
        raise


async def _create(transport: Transport, dialect: Dialect, spec: ContainerSpec) -> str:
    call = Call(
        f"create container {spec.name}",
        "POST",
        "/containers/create",
        {"name": spec.name},
        document=encode_container(spec, dialect),
        seconds=CREATE_SECONDS,
        # A second try after a lost answer meets its own container, and adopts it.
        attempts=ATTEMPTS,
    )
    answer = await transport.ask(call)
    if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR and not _name_taken(answer):
        await anyio.sleep(RETRY_PAUSE)
        answer = await transport.ask(call)
    if answer.status == HTTPStatus.CREATED:
        return _created_id(call.what, answer)
    if _name_taken(answer):
        return await _adopt(transport, spec, status_fault(call.what, answer.status, answer.body))
    if answer.status == HTTPStatus.NOT_FOUND and "image" in message_of(answer.body).lower():
        raise ImageUnusableError(f"The engine has no image {spec.image}.")
    raise status_fault(call.what, answer.status, answer.body)


def _name_taken(answer: Answer) -> bool:
    """Podman reports a taken name as an internal error."""
    return answer.status == HTTPStatus.CONFLICT or "already in use" in message_of(answer.body)


def _created_id(what: str, answer: Answer) -> str:
    document = parse_document(what, answer.body)
    if not isinstance(document, dict) or not isinstance(document.get("Id"), str):
        raise EngineError(f"{what}: the engine's answer lacks the id.")
    return str(document["Id"])


async def _adopt(transport: Transport, spec: ContainerSpec, fault: EngineError) -> str:
    state = await inspect(transport, spec.name)
    if (
        state is None
        or state.phase is not Phase.CREATED
        or not set(spec.labels) <= set(state.labels.items())
        or state.image != spec.image
    ):
        raise EngineConflictError(fault.message) from fault
    return state.id


async def start(transport: Transport, container: str) -> None:
    """See `Engine.start`."""
    call = Call(
        f"start container {container}",
        "POST",
        f"{path_of(container)}/start",
        seconds=START_SECONDS,
    )
    try:
        answer = await transport.ask(call)
    except EngineUnavailableError:
        raise
    except EngineError as lost:
        await _settle_start(transport, container, lost, SETTLE_SECONDS)
        return
    if answer.status in {HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED}:
        return
    fault = status_fault(call.what, answer.status, answer.body)
    if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        await _settle_start(transport, container, fault, 0.0)
        return
    raise fault


async def _settle_start(
    transport: Transport, container: str, fault: EngineError, seconds: float
) -> None:
    """Return when the container was started after all; raise ``fault`` when it was not.

    A second start of a container that has already ended would run its command again.
    """
    deadline = anyio.current_time() + seconds
    for pause in _pauses(_FIRST_POLL, _LONGEST_BACKOFF):
        state = await inspect(transport, container)
        if state is None:
            raise EngineNotFoundError(f"Container {container} is gone.") from fault
        if state.phase is not Phase.CREATED:
            return
        if anyio.current_time() >= deadline:
            raise fault
        await anyio.sleep(pause)


async def inspect(transport: Transport, container: str) -> ContainerState | None:
    """See `Engine.inspect`."""
    what = f"inspect container {container}"
    answer = await transport.ask(
        Call(
            what,
            "GET",
            f"{path_of(container)}/json",
            seconds=CONTROL_SECONDS,
            attempts=ATTEMPTS,
        )
    )
    if answer.status == HTTPStatus.NOT_FOUND:
        return None
    if answer.status != HTTPStatus.OK:
        if _NO_SUCH in message_of(answer.body):
            # Podman's word for a container that is being removed at this moment.
            return None
        raise status_fault(what, answer.status, answer.body)
    return parse_state(parse_document(what, answer.body))


async def wait_ended(transport: Transport, container: str, seconds: float) -> ContainerState | None:
    """See `Engine.wait_ended`. Cancelling leaves nothing behind.

    Polls: after the end of the attached streams the state follows within milliseconds, and a wait
    call would hold a thread (and answers only every 250 ms on Podman).
    """
    deadline = anyio.current_time() + seconds
    for pause in _pauses(_FIRST_POLL, _LONGEST_POLL):
        state = await inspect(transport, container)
        if state is None or state.phase is Phase.STOPPED:
            return state
        if anyio.current_time() + pause > deadline:
            break
        await anyio.sleep(pause)
    raise timeout_fault(f"wait for container {container} to end", seconds)


async def kill(transport: Transport, container: str) -> KillResult:
    """See `Engine.kill`."""
    what = f"kill container {container}"
    answer = await transport.ask(
        Call(
            what,
            "POST",
            f"{path_of(container)}/kill",
            {"signal": "KILL"},
            seconds=CONTROL_SECONDS,
            attempts=ATTEMPTS,
        )
    )
    if answer.status == HTTPStatus.NO_CONTENT:
        return KillResult.KILLED
    if answer.status == HTTPStatus.NOT_FOUND:
        return KillResult.GONE
    # "Is not running" is 409 with Docker and 409 or 500 with Podman; the state says it reliably.
    state = await inspect(transport, container)
    if state is None:
        return KillResult.GONE
    if state.phase in {Phase.RUNNING, Phase.PAUSED}:
        raise status_fault(what, answer.status, answer.body)
    return KillResult.ALREADY_ENDED


async def update(
    transport: Transport, container: str, *, memory_bytes: int, nano_cpus: int, pids: int
) -> None:
    """See `Engine.update`."""
    document = {
        "Memory": memory_bytes,
        "MemorySwap": memory_bytes,
        "NanoCpus": nano_cpus,
        "PidsLimit": pids,
    }
    await transport.demand(
        Call(
            f"update container {container}",
            "POST",
            f"{path_of(container)}/update",
            document=document,
            seconds=UPDATE_SECONDS,
        )
    )


async def remove(transport: Transport, dialect: Dialect, container: str, seconds: float) -> bool:
    """See `Engine.remove`."""
    with anyio.move_on_after(seconds):
        name = container
        if dialect.inodes_by_volume:
            state = await _quietly_inspect(transport, container)
            name = container if state is None else state.name
        await _remove(transport, container, seconds)
        if dialect.inodes_by_volume:
            await volumes.remove_named_after(transport, name + TMPFS_INFIX)
        return True
    return False


async def _remove(transport: Transport, container: str, seconds: float) -> None:
    call = Call(
        f"remove container {container}",
        "DELETE",
        path_of(container),
        # Podman waits ten seconds for SIGTERM unless told otherwise.
        {"force": "1", "v": "1", "timeout": "0"},
        seconds=seconds,
    )
    for pause in _pauses(RETRY_PAUSE, _LONGEST_BACKOFF):
        try:
            answer = await transport.ask(call)
        except EngineUnavailableError:
            raise
        except EngineError:
            # The answer was lost; the next try, or the state, says what became of it.
            answer = None
        if answer is not None and answer.status in {HTTPStatus.NO_CONTENT, HTTPStatus.NOT_FOUND}:
            return
        if answer is not None and answer.status == HTTPStatus.OK:
            # Podman answers newer clients with a report.
            return
        if answer is not None and answer.status == HTTPStatus.BAD_REQUEST:
            raise status_fault(call.what, answer.status, answer.body)
        if await _gone_within(transport, container, pause):
            return


async def _gone_within(transport: Transport, container: str, seconds: float) -> bool:
    deadline = anyio.current_time() + seconds
    for pause in _pauses(_FIRST_POLL * 5, _LONGEST_POLL):
        state = await _quietly_inspect(transport, container)
        if state is None:
            return True
        if anyio.current_time() + pause > deadline:
            return False
        await anyio.sleep(pause)
    return False


async def _quietly_inspect(transport: Transport, container: str) -> ContainerState | None:
    """Return the state; a fault counts as 'still there', for callers that try again."""
    try:
        return await inspect(transport, container)
    except EngineTimeoutError:
        return _unknown(container)


def _unknown(container: str) -> ContainerState:
    return ContainerState(container, container, Phase.REMOVING, None, None, "", None, None, {}, "")


async def list_containers(
    transport: Transport, labels: Mapping[str, str]
) -> Sequence[ContainerSummary]:
    """See `Engine.list_containers`."""
    filters = {"label": [f"{key}={value}" for key, value in labels.items()]}
    params = {"all": "1", "filters": json.dumps(filters)}
    call = Call("list containers", "GET", "/containers/json", params, attempts=ATTEMPTS)
    found = parse_summaries(parse_document(call.what, await transport.demand(call)))
    return [container for container in found if labels.items() <= container.labels.items()]
