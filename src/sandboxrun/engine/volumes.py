"""The engine's volume verbs, over a transport."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

import anyio

from sandboxrun.engine.answers import parse_document, parse_volume, parse_volumes
from sandboxrun.engine.dialect import Dialect
from sandboxrun.engine.encode import encode_volume, volume_options
from sandboxrun.engine.faults import status_fault
from sandboxrun.engine.protocol import VolumeInfo
from sandboxrun.engine.spec import VolumeSpec
from sandboxrun.engine.transport import ATTEMPTS, Call, Transport
from sandboxrun.errors import EngineConflictError, EngineError

_BUSY_TRIES: Final = 4
_BUSY_PAUSE: Final = 0.1
_MADE: Final = frozenset({HTTPStatus.OK, HTTPStatus.CREATED})


async def create_volume(transport: Transport, dialect: Dialect, spec: VolumeSpec) -> VolumeInfo:
    """See `Engine.create_volume`."""
    what = f"create volume {spec.name}"
    document = encode_volume(spec, dialect)
    call = Call(what, "POST", "/volumes/create", document=document, attempts=ATTEMPTS)
    answer = await transport.ask(call)
    found = (
        parse_volume(parse_document(what, answer.body))
        if answer.status in _MADE
        else await inspect_volume(transport, spec.name)
    )
    if found is None:
        raise status_fault(what, answer.status, answer.body)
    same = dict(found.options) == dict(volume_options(spec, dialect))
    if found.name != spec.name or not same or dict(spec.labels) != dict(found.labels):
        raise EngineConflictError(
            f"A volume named {spec.name} exists already and is not the one asked for."
        )
    return found


async def inspect_volume(transport: Transport, name: str) -> VolumeInfo | None:
    """See `Engine.inspect_volume`."""
    what = f"inspect volume {name}"
    answer = await transport.ask(Call(what, "GET", _path(name), attempts=ATTEMPTS))
    if answer.status == HTTPStatus.NOT_FOUND:
        return None
    if answer.status != HTTPStatus.OK:
        raise status_fault(what, answer.status, answer.body)
    return parse_volume(parse_document(what, answer.body))


async def remove_volume(transport: Transport, name: str) -> bool:
    """See `Engine.remove_volume`."""
    what = f"remove volume {name}"
    fault: EngineError | None = None
    for attempt in range(_BUSY_TRIES):
        answer = await transport.ask(Call(what, "DELETE", _path(name), attempts=ATTEMPTS))
        if answer.status in {HTTPStatus.NO_CONTENT, HTTPStatus.NOT_FOUND}:
            return True
        if answer.status == HTTPStatus.CONFLICT:
            return False
        # A mount of a container that has just gone may still be busy.
        fault = status_fault(what, answer.status, answer.body)
        await anyio.sleep(_BUSY_PAUSE * 2**attempt)
    if fault is None:
        return False
    raise fault


async def list_volumes(transport: Transport, labels: Mapping[str, str]) -> Sequence[VolumeInfo]:
    """See `Engine.list_volumes`."""
    filters = {"label": [f"{key}={value}" for key, value in labels.items()]}
    params = {"filters": json.dumps(filters)}
    call = Call("list volumes", "GET", "/volumes", params, attempts=ATTEMPTS)
    found = parse_volumes(parse_document(call.what, await transport.demand(call)))
    # Engines combine several label filters in different ways; ours is "all of them".
    return [volume for volume in found if labels.items() <= volume.labels.items()]


async def remove_named_after(transport: Transport, prefix: str) -> None:
    """Remove the volumes whose names start with ``prefix``; those still in use stay.

    Cancelling leaves some of them.
    """
    params = {"filters": json.dumps({"name": [prefix]})}
    call = Call("list volumes", "GET", "/volumes", params, attempts=ATTEMPTS)
    for volume in parse_volumes(parse_document(call.what, await transport.demand(call))):
        if volume.name.startswith(prefix):
            await remove_volume(transport, volume.name)


def _path(name: str) -> str:
    return f"/volumes/{quote(name, safe='')}"
