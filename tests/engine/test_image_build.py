"""The workspace image as it really is, and both builders on a real engine.

The image is built once if the engine lacks the present recipe's; the tests marked slow build it
anew with each builder.
"""

from __future__ import annotations

import contextlib
import io
import tarfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.to_thread
import docker
import docker.errors
import pytest

from real_engine import engine_url
from sandboxrun.config import DEFAULT_IMAGE
from sandboxrun.engine.docker import connect
from sandboxrun.engine.never_started import never_started
from sandboxrun.engine.protocol import Engine, EngineKind, ImageInfo
from sandboxrun.errors import ImageBuildError
from sandboxrun.image.apt_host import read_host_apt
from sandboxrun.image.build import (
    Builder,
    BuildOrder,
    build_image,
    choose_builder,
    host_facts,
    present_image,
)
from sandboxrun.image.check import evaluate, gather
from sandboxrun.image.debootstrap import bootstrap_argv, image_changes
from sandboxrun.image.look import opened_image
from sandboxrun.image.process import run_tool, tool_output
from sandboxrun.image.progress import Progress, Stage
from sandboxrun.image.recipe import load_recipe
from sandboxrun.image.tree import build_directory
from sandboxrun.model.ids import new_id
from sandboxrun.model.uids import UID_COUNT, UID_FIRST

TAG = DEFAULT_IMAGE
LABELS = (("sandboxrun.test", "image"),)
_TEST_TAGS = ("sandboxrun/test:debootstrap", "sandboxrun/test:dockerfile", "sandboxrun/test:base")
_IMAGE_BYTES = 600_000_000
_MID_WORK = ("I: Unpacking", "Unpacking ")
_EMPTY = ("/usr/share/man", "/usr/share/locale", "/var/lib/apt/lists", "/var/log", "/var/tmp")
NEEDS_ROOT = pytest.mark.skipif(
    choose_builder(host_facts()) is not Builder.DEBOOTSTRAP, reason="needs root on Debian"
)
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.engine,
    pytest.mark.timeout(900),
]


@asynccontextmanager
async def connected() -> AsyncIterator[Engine]:
    engine = await connect(await anyio.to_thread.run_sync(engine_url, EngineKind.DOCKER))
    try:
        yield engine
    finally:
        await engine.aclose()


def order(builder: Builder, tag: str, work_dir: Path, *, base: str = "none:0") -> BuildOrder:
    return BuildOrder(load_recipe(), tag, builder, work_dir, base=base)


async def workspace_image(engine: Engine, work_dir: Path) -> ImageInfo:
    present = await present_image(engine, TAG, load_recipe())
    if present is not None:
        return present
    return (await build_image(engine, order(choose_builder(host_facts()), TAG, work_dir))).info


async def members(engine: Engine, info: ImageInfo, path: str) -> dict[str, tarfile.TarInfo]:
    """Return what is at and below ``path`` of the image, by absolute path."""
    parent = path.rpartition("/")[0]
    with tarfile.open(fileobj=io.BytesIO(await archive(engine, info, path))) as tar:
        return {f"{parent}/{member.name.rstrip('/')}": member for member in tar}


async def text(engine: Engine, info: ImageInfo, path: str) -> str:
    with tarfile.open(fileobj=io.BytesIO(await archive(engine, info, path))) as tar:
        opened = tar.extractfile(tar.getmembers()[0])
        assert opened is not None
        return opened.read().decode()


async def archive(engine: Engine, info: ImageInfo, path: str) -> bytes:
    async with never_started(engine, info, labels=LABELS) as container:
        data = await engine.get_archive(container, path, limit_bytes=_IMAGE_BYTES)
    assert data is not None, f"{path} is absent"
    return data


def names(directory: Path) -> list[str]:
    return [entry.name for entry in directory.iterdir()]


def mounts_in(directory: Path) -> list[str]:
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    return [mount for mount in mounts if str(directory) in mount]


@contextlib.contextmanager
def removed_afterwards(*tags: str) -> Iterator[None]:
    """Remove the images that carry these tags when the body ends. The protocol has no verb for it."""
    try:
        yield
    finally:
        client = docker.DockerClient(base_url=engine_url(EngineKind.DOCKER))
        with contextlib.closing(client):
            for tag in tags:
                with contextlib.suppress(docker.errors.ImageNotFound):
                    client.images.remove(tag)


async def nothing_left(engine: Engine, work_dir: Path) -> bool:
    return not await engine.list_containers(dict(LABELS)) and not names(work_dir)


async def assert_is_workspace_image(engine: Engine, info: ImageInfo) -> None:
    """Everything that is promised of the image and can be seen without running it."""
    about = await engine.describe()
    async with opened_image(engine, info, labels=LABELS) as look:
        report = evaluate(await gather(info, about.architecture, look))
        assert (report.usable, report.lacks) == (True, ())
        for absent in (
            "/workspace",
            "/.build",
            "/usr/sbin/policy-rc.d",
            "/etc/apt/apt.conf.d/95build-host",
        ):
            assert await look(absent) is None
    passwd = [line.split(":") for line in (await text(engine, info, "/etc/passwd")).splitlines()]
    pool = [int(entry[2]) for entry in passwd if entry[0] == "agent"]
    assert pool == list(range(UID_FIRST, UID_FIRST + UID_COUNT))
    assert await text(engine, info, "/etc/gitconfig") == load_recipe().files["gitconfig"].decode()
    files = await members(engine, info, "/usr") | await members(engine, info, "/etc")
    files |= await members(engine, info, "/var")
    assert not [path for path, entry in files.items() if entry.mode & 0o6000]
    assert not [
        path
        for path, entry in files.items()
        if entry.uid or "SCHILY.xattr" in str(entry.pax_headers)
    ]
    below = tuple(f"{path}/" for path in _EMPTY)
    assert not [path for path in files if path.startswith(below)]


@pytest.fixture
def remove() -> Iterator[contextlib.ExitStack]:
    with contextlib.ExitStack() as stack:
        yield stack


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_the_workspace_image_is_what_is_promised(tmp_path: Path) -> None:
    async with connected() as engine:
        await assert_is_workspace_image(engine, await workspace_image(engine, tmp_path))
        assert await nothing_left(engine, tmp_path)


async def test_an_image_without_bash_is_for_programs_only(
    tmp_path: Path, remove: contextlib.ExitStack
) -> None:
    tag = f"sandboxrun/test:{new_id('image')}"
    async with connected() as engine:
        remove.enter_context(removed_afterwards(tag))
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as tar:
            entry = tarfile.TarInfo("bin/true")
            entry.mode = 0o755
            tar.addfile(entry)

        async def chunks() -> AsyncIterator[bytes]:
            yield packed.getvalue()

        await engine.import_image(chunks(), tag=tag, changes=image_changes({"a.b": 'x "y" z'}))
        info = await engine.inspect_image(tag)
        assert info is not None
        assert info.labels == {"a.b": 'x "y" z'}
        async with opened_image(engine, info, labels=LABELS) as look:
            report = evaluate(await gather(info, (await engine.describe()).architecture, look))
        assert (report.usable, report.exec_form) == (False, True)
        assert {"bash", "git", "ls"} <= {lack.name for lack in report.lacks}
        assert await nothing_left(engine, tmp_path)


async def test_a_builder_that_fails_moves_no_tag_and_leaves_nothing(
    tmp_path: Path, remove: contextlib.ExitStack
) -> None:
    tag = f"sandboxrun/test:{new_id('image')}"
    async with connected() as engine:
        remove.enter_context(removed_afterwards(tag))
        wrong = replace(load_recipe(), files={**load_recipe().files, "install.sh": b"exit 9\n"})
        base = (await workspace_image(engine, tmp_path)).id
        asked = replace(order(Builder.DOCKERFILE, tag, tmp_path, base=base), recipe=wrong)
        with pytest.raises(ImageBuildError, match="9"):
            await build_image(engine, asked)
        assert await engine.inspect_image(tag) is None
        with pytest.raises(ImageBuildError, match="absent/base"):
            await build_image(
                engine, order(Builder.DOCKERFILE, tag, tmp_path, base="absent/base:0")
            )
        assert await nothing_left(engine, tmp_path)


@NEEDS_ROOT
@pytest.mark.parametrize(
    ("stage", "anyio_backend"), [(Stage.BASE, "trio"), (Stage.PACKAGES, "asyncio")]
)
@pytest.mark.slow
async def test_a_cancelled_build_leaves_no_process_mount_or_file(
    stage: Stage, tmp_path: Path, remove: contextlib.ExitStack
) -> None:
    tag = f"sandboxrun/test:{new_id('image')}"
    async with connected() as engine:
        remove.enter_context(removed_afterwards(tag))
        with anyio.CancelScope() as scope:

            def cancel_in_stage(progress: Progress) -> None:
                if progress.stage is stage and progress.detail.startswith(_MID_WORK):
                    scope.cancel()

            await build_image(
                engine, order(Builder.DEBOOTSTRAP, tag, tmp_path), report=cancel_in_stage
            )
        assert scope.cancelled_caught
        assert await nothing_left(engine, tmp_path)
        assert not processes_in(tmp_path)
        assert not mounts_in(tmp_path)
        assert await engine.inspect_image(tag) is None


@pytest.mark.slow
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@NEEDS_ROOT
async def test_both_builders_make_the_same_image(
    tmp_path: Path, remove: contextlib.ExitStack
) -> None:
    """The base of the Dockerfile builder is a bootstrapped root, imported under a base's tag."""
    async with connected() as engine:
        remove.enter_context(removed_afterwards(*_TEST_TAGS))
        stages: list[Stage] = []
        built = await build_image(
            engine,
            order(Builder.DEBOOTSTRAP, _TEST_TAGS[0], tmp_path),
            report=lambda progress: stages.append(progress.stage),
        )
        assert list(dict.fromkeys(stages)) == list(Stage)
        await assert_is_workspace_image(engine, built.info)
        base = _TEST_TAGS[2]
        await import_minimal_base(engine, base, tmp_path)
        other = await build_image(
            engine, order(Builder.DOCKERFILE, _TEST_TAGS[1], tmp_path, base=base)
        )
        await assert_is_workspace_image(engine, other.info)
        assert other.info.labels == built.info.labels
        for path in ("/usr", "/etc", "/var"):
            ours = await members(engine, built.info, path)
            theirs = await members(engine, other.info, path)
            assert {name: shape(entry) for name, entry in ours.items()} == {
                name: shape(entry) for name, entry in theirs.items()
            }


def shape(entry: tarfile.TarInfo) -> tuple[bytes, int, int, int, str]:
    kind = tarfile.REGTYPE if entry.islnk() else entry.type
    return kind, entry.mode, entry.uid, entry.gid, entry.linkname if entry.issym() else ""


def processes_in(directory: Path) -> list[str]:
    """Return the pids whose root or working directory is below ``directory``."""
    found: list[str] = []
    for process in Path("/proc").glob("[0-9]*"):
        for name in ("root", "cwd"):
            with contextlib.suppress(OSError):
                if str((process / name).readlink()).startswith(str(directory)):
                    found.append(process.name)
    return found


async def import_minimal_base(engine: Engine, tag: str, work_dir: Path) -> None:
    host = await read_host_apt({})
    env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    async with build_directory(work_dir) as tree:
        await run_tool(bootstrap_argv(host, tree), env=env, on_line=lambda _: None)
        packed = ("tar", "--create", f"--directory={tree}", ".")
        async with tool_output(packed, env=env) as chunks:
            await engine.import_image(chunks, tag=tag, changes=())
