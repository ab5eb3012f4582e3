"""The engine's image verbs, over a transport."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

from sandboxrun.engine.answers import last_stream_id, parse_document, parse_image
from sandboxrun.engine.faults import shown, status_fault
from sandboxrun.engine.protocol import ImageInfo
from sandboxrun.engine.transport import ATTEMPTS, Call, Transport
from sandboxrun.errors import EngineError

IMPORT_SECONDS: Final = 900.0
BUILD_LINE_SECONDS: Final = 900.0
"""How long a build may be silent."""
_TAR: Final = "application/x-tar"
_LOG_KEYS: Final = ("stream", "status")


async def inspect_image(transport: Transport, reference: str) -> ImageInfo | None:
    """See `Engine.inspect_image`."""
    if not reference:
        return None
    what = f"inspect image {reference}"
    path = f"/images/{quote(reference, safe=':/')}/json"
    answer = await transport.ask(Call(what, "GET", path, attempts=ATTEMPTS))
    # 400: what is no reference names no image.
    if answer.status in {HTTPStatus.NOT_FOUND, HTTPStatus.BAD_REQUEST}:
        return None
    if answer.status != HTTPStatus.OK:
        raise status_fault(what, answer.status, answer.body)
    return parse_image(parse_document(what, answer.body))


async def list_images(transport: Transport, labels: Mapping[str, str]) -> Sequence[ImageInfo]:
    """See `Engine.list_images`."""
    wanted = {"dangling": ["false"], "label": [f"{key}={value}" for key, value in labels.items()]}
    params = {"filters": json.dumps(wanted)}
    call = Call("list images", "GET", "/images/json", params, attempts=ATTEMPTS)
    rows = parse_document(call.what, await transport.demand(call))
    if not isinstance(rows, list):
        raise EngineError("The engine's answer is not a list of images.")
    found = [await inspect_image(transport, str(row["Id"])) for row in rows]
    return [
        image
        for image in found
        if image is not None and labels.items() <= image.labels.items() and image.tags
    ]


async def import_image(
    transport: Transport, tar: AsyncIterator[bytes], *, tag: str, changes: Sequence[str]
) -> str:
    """See `Engine.import_image`."""
    # The tag goes along with the name: Podman ignores a parameter of its own.
    pairs = [("fromSrc", "-"), ("repo", tag), *(("changes", change) for change in changes)]
    query = "&".join(f"{key}={quote(value, safe='')}" for key, value in pairs)
    call = Call(
        f"import image {tag}",
        "POST",
        f"/images/create?{query}",
        content_type=_TAR,
        seconds=IMPORT_SECONDS,
    )
    answer = await transport.upload(call, tar)
    if answer.status != HTTPStatus.OK:
        raise status_fault(call.what, answer.status, answer.body)
    return last_stream_id(answer.body)


async def build_image(
    transport: Transport,
    context: bytes,
    *,
    dockerfile: str,
    tag: str,
    build_args: Mapping[str, str],
    labels: Mapping[str, str],
    network: str,
) -> AsyncIterator[str]:
    """See `Engine.build_image`."""
    params = {
        "dockerfile": dockerfile,
        "t": tag,
        "buildargs": json.dumps(dict(build_args)),
        "labels": json.dumps(dict(labels)),
        "networkmode": network,
        "rm": "1",
        "forcerm": "1",
    }
    call = Call(
        f"build image {tag}",
        "POST",
        "/build",
        params,
        body=context,
        content_type=_TAR,
        seconds=BUILD_LINE_SECONDS,
    )
    # A failed step raises here, in the middle of the answer: the connection must not wait for
    # the garbage collector.
    async with aclosing(transport.lines(call)) as lines:
        async for line in lines:
            text = _log_line(call.what, line)
            if text:
                yield text


def _log_line(what: str, line: bytes) -> str:
    if not line.strip():
        return ""
    document = parse_document(what, line)
    if not isinstance(document, dict):
        return ""
    if "error" in document:
        raise EngineError(f"{what}: {shown(str(document['error']))}")
    for key in _LOG_KEYS:
        if isinstance(document.get(key), str):
            return str(document[key]).rstrip("\n")
    return ""
