"""The engine API's documents as our values. Pure, strict: a missing field is an engine fault."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sandboxrun.engine.protocol import (
    ContainerState,
    ContainerSummary,
    EngineInfo,
    EngineKind,
    ImageInfo,
    Phase,
    VolumeInfo,
)
from sandboxrun.errors import EngineError

_NEVER: Final = "0001-01-01T00:00:00Z"
"""Go's zero time: it has not happened."""
_PHASES: Final[Mapping[str, Phase]] = {
    "created": Phase.CREATED,
    "configured": Phase.CREATED,
    "initialized": Phase.CREATED,
    "running": Phase.RUNNING,
    "restarting": Phase.RUNNING,
    "stopping": Phase.RUNNING,
    "paused": Phase.PAUSED,
    "exited": Phase.STOPPED,
    "stopped": Phase.STOPPED,
    "dead": Phase.STOPPED,
    "removing": Phase.REMOVING,
}


def parse_document(what: str, body: bytes) -> object:
    """Return the JSON of an answer. Raises `EngineError` when it is none."""
    try:
        return json.loads(body)
    except ValueError as error:
        raise EngineError(f"{what}: the engine's answer is not JSON.") from error


def _map(value: object, what: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise EngineError(f"The engine's answer lacks {what}.")
    return value


def _text(document: Mapping[str, object], key: str) -> str:
    value = document.get(key)
    if not isinstance(value, str):
        raise EngineError(f"The engine's answer lacks the text {key}.")
    return value


def _number(document: Mapping[str, object], key: str) -> int:
    value = document.get(key)
    if not isinstance(value, int) or isinstance(value, bool):
        raise EngineError(f"The engine's answer lacks the number {key}.")
    return value


def _strings(value: object) -> tuple[str, ...]:
    return tuple(str(item) for item in value) if isinstance(value, list) else ()


def _pairs(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        return {}
    return {str(key): str(item) for key, item in value.items()}


def _moment(document: Mapping[str, object], key: str) -> str | None:
    value = document.get(key)
    return value if isinstance(value, str) and value not in {"", _NEVER} else None


def parse_phase(text: str) -> Phase:
    """Return the phase for an engine's word. Raises `EngineError` for an unknown one."""
    phase = _PHASES.get(text)
    if phase is None:
        raise EngineError(f"The engine reports an unknown container state {text!r}.")
    return phase


def parse_state(document: object) -> ContainerState:
    """Return the state in an answer of ``GET /containers/{id}/json``."""
    whole = _map(document, "a container")
    state = _map(whole.get("State"), "State")
    config = _map(whole.get("Config"), "Config")
    phase = parse_phase(_text(state, "Status"))
    oom = state.get("OOMKilled")
    return ContainerState(
        id=_text(whole, "Id"),
        name=_text(whole, "Name").removeprefix("/"),
        phase=phase,
        exit_code=_number(state, "ExitCode") if phase is Phase.STOPPED else None,
        oom_killed=oom if isinstance(oom, bool) else None,
        error=str(state.get("Error") or ""),
        started_at=_moment(state, "StartedAt"),
        finished_at=_moment(state, "FinishedAt"),
        labels=_pairs(config.get("Labels")),
        image=_image_id(_text(whole, "Image")),
    )


def parse_summaries(document: object) -> tuple[ContainerSummary, ...]:
    """Return the rows of an answer of ``GET /containers/json``."""
    if not isinstance(document, list):
        raise EngineError("The engine's answer is not a list of containers.")
    rows = [_map(row, "a container") for row in document]
    return tuple(
        ContainerSummary(
            id=_text(row, "Id"),
            name=next(iter(_strings(row.get("Names"))), "").removeprefix("/"),
            phase=parse_phase(_text(row, "State")),
            labels=_pairs(row.get("Labels")),
        )
        for row in rows
    )


def parse_volume(document: object) -> VolumeInfo:
    """Return one volume."""
    whole = _map(document, "a volume")
    return VolumeInfo(
        name=_text(whole, "Name"),
        driver=_text(whole, "Driver"),
        mountpoint=_text(whole, "Mountpoint"),
        created=str(whole.get("CreatedAt") or ""),
        labels=_pairs(whole.get("Labels")),
        options=_pairs(whole.get("Options")),
    )


def parse_volumes(document: object) -> tuple[VolumeInfo, ...]:
    """Return the volumes of an answer of ``GET /volumes``."""
    listed = _map(document, "a list of volumes").get("Volumes")
    return tuple(parse_volume(row) for row in listed) if isinstance(listed, list) else ()


def parse_image(document: object) -> ImageInfo:
    """Return the image of an answer of ``GET /images/{name}/json``."""
    whole = _map(document, "an image")
    config = whole.get("Config")
    settings = config if isinstance(config, dict) else {}
    volumes = settings.get("Volumes")
    return ImageInfo(
        id=_image_id(_text(whole, "Id")),
        tags=tuple(_short_tag(tag) for tag in _strings(whole.get("RepoTags"))),
        os=_text(whole, "Os"),
        architecture=_text(whole, "Architecture"),
        env=_strings(settings.get("Env")),
        labels=_pairs(settings.get("Labels")),
        size_bytes=_number(whole, "Size"),
        created=str(whole.get("Created") or ""),
        user=str(settings.get("User") or ""),
        volumes=tuple(sorted(volumes)) if isinstance(volumes, dict) else (),
    )


def _image_id(text: str) -> str:
    return text if text.startswith("sha256:") else f"sha256:{text}"


def _short_tag(tag: str) -> str:
    """Podman spells out where an unqualified name comes from; Docker does not."""
    for prefix in ("docker.io/library/", "docker.io/", "localhost/"):
        if tag.startswith(prefix):
            return tag.removeprefix(prefix)
    return tag


@dataclass(frozen=True, slots=True)
class Greeting:
    """The headers of ``GET /_ping``: who answers, and which API it speaks at most."""

    podman: bool
    server: str
    api: tuple[int, int]


def parse_greeting(headers: Mapping[str, str]) -> Greeting:
    """Return what the headers of a ping say, by their names in lower case.

    Raises `EngineError` when they are not an engine's.
    """
    major, _, minor = headers.get("api-version", "").partition(".")
    if not (major.isdecimal() and minor.isdecimal()):
        raise EngineError("Something that is not a container engine answers.")
    podman = "libpod-api-version" in headers
    return Greeting(podman, headers.get("server", ""), (int(major), int(minor)))


def parse_engine(greeting: Greeting, info: object, url: str) -> EngineInfo:
    """Return who answers, from its greeting and ``GET /info``."""
    facts = _map(info, "its facts")
    runtimes = facts.get("Runtimes")
    security = _strings(facts.get("SecurityOptions"))
    identity = str(facts.get("ID") or "")
    # Podman makes up a new ID for each answer.
    place = f"podman:{facts.get('Name')}:{facts.get('DockerRootDir')}"
    return EngineInfo(
        url=url,
        kind=EngineKind.PODMAN if greeting.podman else EngineKind.DOCKER,
        version=_text(facts, "ServerVersion"),
        api_version=".".join(map(str, greeting.api)),
        engine_id=place if greeting.podman or not identity else identity,
        cgroup_version=2 if str(facts.get("CgroupVersion")) == "2" else 1,
        default_runtime=str(facts.get("DefaultRuntime") or ""),
        runtimes=tuple(sorted(runtimes)) if isinstance(runtimes, dict) else (),
        storage_driver=str(facts.get("Driver") or ""),
        architecture=_text(facts, "Architecture"),
        rootless=any("rootless" in option for option in security),
        cpus=_number(facts, "NCPU"),
        memory_bytes=_number(facts, "MemTotal"),
    )


def last_stream_id(body: bytes) -> str:
    """Return the image id an import reports in its stream of JSON lines.

    Raises `EngineError` with the fault the stream reports, or when it names no id.
    """
    status = ""
    for line in body.splitlines():
        document = _map(parse_document("import", line), "an event")
        if "error" in document or "errorDetail" in document:
            raise EngineError(f"The import failed: {document.get('error')}.")
        status = str(document.get("status") or document.get("stream") or status)
    word = status.strip().rsplit(" ", 1)[-1]
    if len(word.removeprefix("sha256:")) != 64:  # noqa: PLR2004 - hex digits of SHA-256
        raise EngineError("The import did not report an image.")
    return _image_id(word)
