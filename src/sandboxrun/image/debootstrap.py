"""The debootstrap builder: a Debian root file system made on this machine, then imported.

Needs root and no registry. The base is a minimal Debian; from there on the recipe's two scripts
do the same as in the Dockerfile builder.
"""

from __future__ import annotations

import email.utils
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio.to_thread

from sandboxrun.image.apt_host import HostApt
from sandboxrun.image.apt_sources import DEBIAN_KEYRING
from sandboxrun.image.process import PRIVATE_NAMESPACES, run_tool, tool_output
from sandboxrun.image.progress import Meter, Stage
from sandboxrun.image.recipe import COMMAND, ENVIRONMENT, RELEASE, WORKING_DIR, Recipe
from sandboxrun.image.tree import build_directory

_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_BUILD = ".build"
_RELEASE_DATES = "release-dates"


@asynccontextmanager
async def bootstrapped(
    recipe: Recipe, host: HostApt, *, work_dir: Path, meter: Meter
) -> AsyncIterator[AsyncIterator[bytes]]:
    """Build the image's root file system below ``work_dir`` and give it as an uncompressed tar.

    Raises `ImageBuildError` with the failing tool's last lines, `InstallError` if a tool is
    absent. Whether it ends, fails or is cancelled: no process, mount or file is left.
    """
    environment = {"PATH": _SYSTEM_PATH, "LC_ALL": "C.UTF-8", "HOME": "/root", **dict(host.proxies)}
    async with build_directory(work_dir) as tree:
        meter.enter(Stage.BASE, "debootstrap")
        await run_tool(bootstrap_argv(host, tree), env=environment, on_line=meter.line)
        await anyio.to_thread.run_sync(_place, tree / _BUILD, recipe, host)
        meter.enter(Stage.PACKAGES, "apt")
        await run_tool(_chroot_argv(tree, "install.sh"), env=environment, on_line=meter.line)
        meter.enter(Stage.FINISH, "our files")
        await run_tool(_chroot_argv(tree, "finish.sh"), env=environment, on_line=meter.line)
        epoch = await anyio.to_thread.run_sync(_archive_date, tree)
        meter.enter(Stage.IMPORT, "import")
        async with tool_output(_tar_argv(tree, epoch), env=environment) as chunks:
            yield chunks


def bootstrap_argv(host: HostApt, tree: Path) -> tuple[str, ...]:
    """Return the command that makes the minimal base, from the host's mirror if it has one."""
    mirror = next((source for source in host.sources if source.suite == RELEASE), None)
    options: list[str] = []
    if mirror is not None and ("trusted", "yes") in mirror.options:
        options.append("--no-check-gpg")
    elif mirror is not None and (key := mirror.own_keyring) is not None and key.startswith("/"):
        options.append(f"--keyring={key}")
    else:
        options.append(f"--keyring={DEBIAN_KEYRING}")
    return (
        *PRIVATE_NAMESPACES,
        "--mount-proc",
        "debootstrap",
        "--variant=minbase",
        *options,
        RELEASE,
        str(tree),
        *(() if mirror is None else (mirror.uri,)),
    )


def image_changes(labels: Mapping[str, str]) -> tuple[str, ...]:
    """Return the engine's import instructions that give the image its configuration."""
    return (
        *(f"ENV {name}={value}" for name, value in ENVIRONMENT),
        f"WORKDIR {WORKING_DIR}",
        f"CMD {json.dumps([COMMAND])}",
        *(f"LABEL {name}={json.dumps(value)}" for name, value in sorted(labels.items())),
    )


def newest_date(dates: str) -> int | None:
    """Return the latest of RFC 2822 dates, one a line, in seconds since the epoch."""
    seconds: list[int] = []
    for line in dates.splitlines():
        try:
            seconds.append(int(email.utils.parsedate_to_datetime(line.strip()).timestamp()))
        except (ValueError, OverflowError):
            continue
    return max(seconds, default=None)


def _place(directory: Path, recipe: Recipe, host: HostApt) -> None:
    files = dict(recipe.files) | {f"host/{name}": data for name, data in host.files.items()}
    for name, content in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    # apt fetches as a user of its own, which must be able to read the certificates here.
    for path in (directory, *directory.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)


def _archive_date(tree: Path) -> int | None:
    return newest_date((tree / _BUILD / _RELEASE_DATES).read_text(errors="replace"))


def _chroot_argv(tree: Path, script: str) -> Sequence[str]:
    return (
        *PRIVATE_NAMESPACES,
        f"--mount-proc={tree}/proc",
        "chroot",
        str(tree),
        "/bin/sh",
        f"/{_BUILD}/{script}",
    )


def _tar_argv(tree: Path, epoch: int | None) -> Sequence[str]:
    # Sorted, with numeric owners, and no time later than the archive's own date: the same
    # packages give the same layer, whenever and wherever it is built.
    clamp = () if epoch is None else (f"--mtime=@{epoch}", "--clamp-mtime")
    return (
        "tar",
        "--create",
        "--format=gnu",
        "--sort=name",
        "--numeric-owner",
        *clamp,
        f"--directory={tree}",
        f"--exclude=./{_BUILD}",
        "--exclude=./dev/*",
        "--exclude=./proc/*",
        "--exclude=./sys/*",
        ".",
    )
