"""Build the workspace image with one of two builders, and make sure it is what was asked for."""

from __future__ import annotations

import os
import shutil
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import assert_never

from sandboxrun.engine.protocol import Engine, ImageInfo
from sandboxrun.errors import (
    EngineError,
    EngineTimeoutError,
    EngineUnavailableError,
    ImageBuildError,
)
from sandboxrun.image.apt_host import HostApt, os_release, read_host_apt
from sandboxrun.image.debootstrap import bootstrapped, image_changes
from sandboxrun.image.dockerfile import DEFAULT_BASE, DOCKERFILE, build_context
from sandboxrun.image.progress import Meter, Report, Stage, silent
from sandboxrun.image.recipe import LABEL_RECIPE, Recipe
from sandboxrun.model.ids import new_id

_MIB = 1024 * 1024
_TOOLS = ("debootstrap", "unshare", "chroot", "tar")
_TOOL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Network of the build, so that a proxy or mirror on this machine's loopback can be reached.
_BUILD_NETWORK = "host"
_TAIL_LINES = 15
_BASE_ADVICE = (
    "Where no registry can be reached, name a base the engine has with --base, or use "
    "--builder debootstrap as root on Debian."
)


class Builder(StrEnum):
    """Who makes the root file system."""

    DEBOOTSTRAP = "debootstrap"
    """This machine, with debootstrap: as root on Debian, without a registry."""
    DOCKERFILE = "dockerfile"
    """The engine, from a Debian base image."""


@dataclass(frozen=True, slots=True)
class HostFacts:
    """What decides between the builders."""

    root: bool
    debian: bool
    tools: bool
    """Every program the debootstrap builder runs is installed."""


@dataclass(frozen=True, slots=True)
class BuildOrder:
    """What to build and with what."""

    recipe: Recipe
    tag: str
    builder: Builder
    work_dir: Path
    """Where the debootstrap builder may make a directory; needs 1 GB, and device nodes allowed."""
    base: str = DEFAULT_BASE
    """The Dockerfile builder's base image; must be Debian of the recipe's release."""
    proxies: Mapping[str, str] | None = None
    """``http_proxy`` and its kin for the package tools."""


@dataclass(frozen=True, slots=True)
class BuiltImage:
    """An image that carries the recipe's digest."""

    info: ImageInfo
    tag: str
    builder: Builder | None
    """None when the image was there already and nothing was built."""
    seconds: float
    """Wall time of the build."""


def host_facts() -> HostFacts:
    """Look at this machine: the effective user, os-release(5), and which tools are installed."""
    release = os_release()
    family = {release.get("ID", ""), *release.get("ID_LIKE", "").split()}
    return HostFacts(
        root=os.geteuid() == 0,
        debian="debian" in family,
        tools=all(shutil.which(tool, path=_TOOL_PATH) is not None for tool in _TOOLS),
    )


def choose_builder(facts: HostFacts) -> Builder:
    """Return debootstrap where it can work, because it needs no registry; else the Dockerfile."""
    if facts.root and facts.debian and facts.tools:
        return Builder.DEBOOTSTRAP
    return Builder.DOCKERFILE


async def present_image(engine: Engine, tag: str, recipe: Recipe) -> ImageInfo | None:
    """Return the image ``tag`` names if this recipe made it, else None. Changes nothing."""
    info = await engine.inspect_image(tag)
    return info if info is not None and info.labels.get(LABEL_RECIPE) == recipe.digest else None


async def build_image(engine: Engine, order: BuildOrder, *, report: Report = silent) -> BuiltImage:
    """Build the workspace image and tag it; the tag moves only once the image is complete.

    Raises `ImageBuildError` when a step fails or the engine dropped the image's labels,
    `InstallError` when a tool is absent, and the engine's faults. Cancelling leaves nothing of
    the debootstrap builder; an engine may finish what it was already given, and keep its own
    intermediate images of a Dockerfile build.
    """
    began = time.monotonic()
    meter = Meter(report)
    host = await read_host_apt({} if order.proxies is None else order.proxies)
    labels = order.recipe.labels(version("sandboxrun"))
    match order.builder:
        case Builder.DEBOOTSTRAP:
            await _with_debootstrap(engine, order, host, labels, meter)
        case Builder.DOCKERFILE:
            await _with_dockerfile(engine, order, host, labels, meter)
        case _:
            assert_never(order.builder)
    info = await present_image(engine, order.tag, order.recipe)
    if info is None:
        raise ImageBuildError(f"The engine did not keep {order.tag} as it was built.")
    return BuiltImage(info, order.tag, order.builder, time.monotonic() - began)


async def _with_debootstrap(
    engine: Engine, order: BuildOrder, host: HostApt, labels: Mapping[str, str], meter: Meter
) -> None:
    building = bootstrapped(order.recipe, host, work_dir=order.work_dir, meter=meter)
    async with building as tar, aclosing(_counted(tar, meter)) as chunks:
        await engine.import_image(chunks, tag=order.tag, changes=image_changes(labels))


async def _counted(tar: AsyncIterator[bytes], meter: Meter) -> AsyncGenerator[bytes, None]:
    total = 0
    async for chunk in tar:
        yield chunk
        before, total = total, total + len(chunk)
        if total // _MIB > before // _MIB:
            meter.line(f"{total // _MIB} MiB")


async def _with_dockerfile(
    engine: Engine, order: BuildOrder, host: HostApt, labels: Mapping[str, str], meter: Meter
) -> None:
    meter.enter(Stage.BASE, order.base)
    log = engine.build_image(
        build_context(order.recipe, host),
        dockerfile=DOCKERFILE,
        tag=order.tag,
        # None of them is in the image or its history: they end with the first stage.
        build_args={"BASE": order.base, "BUILD": new_id("build"), **dict(host.proxies)},
        labels=labels,
        network=_BUILD_NETWORK,
    )
    tail: deque[str] = deque(maxlen=_TAIL_LINES)
    try:
        async for line in log:
            tail.append(line.rstrip())
            stage = _stage_of(line)
            if stage is None:
                meter.line(line)
            else:
                meter.enter(stage, line.strip())
    except (EngineUnavailableError, EngineTimeoutError):
        raise
    except EngineError as failed:
        # What the package tools said is in the log, not in the engine's error.
        said = "".join(f"\n  {line}" for line in tail)
        raise ImageBuildError(
            f"Building on {order.base}: {failed.message}{said}", advice=_BASE_ADVICE
        ) from failed


def _stage_of(line: str) -> Stage | None:
    """Return the stage that one of the engine's ``Step 4/9 : RUN …`` lines begins."""
    if not line.lower().startswith("step "):
        return None
    for mark, stage in (
        ("install.sh", Stage.PACKAGES),
        ("finish.sh", Stage.FINISH),
        ("FROM scratch", Stage.IMPORT),
    ):
        if mark in line:
            return stage
    return None
