"""Where the files of a managed engine are, and what its daemon is started with."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, assert_never

from sandboxrun.engine.address import MAX_SOCKET_PATH
from sandboxrun.engine.protocol import EngineKind
from sandboxrun.errors import InstallError

SEARCH_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where daemons are looked for and what they get: a user's PATH may lack the sbin directories."""
_DEEPEST_SOCKET: Final = "/exec/containerd/containerd-debug.sock.ttrpc"
"""The longest socket path Docker's daemon makes below its run directory."""
PODMAN_RUN_ROOT: Final = "storage"
_MAX_PODMAN_RUN_ROOT: Final = 50
"""Podman refuses a longer run root, because its monitors make sockets below it
(libpod/options.go, `WithStorageConfig`)."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The paths of one managed engine."""

    kind: EngineKind
    base: Path
    """Its own directory."""

    @property
    def data(self) -> Path:
        """Images, containers and volumes. Survives everything."""
        return self.base / "data"

    @property
    def run(self) -> Path:
        """Sockets and what belongs to one life of the daemon. Emptied before each start."""
        near = self.base / "run"
        if len(os.fsencode(near)) <= _longest_run_directory(self.kind):
            return near
        digest = hashlib.sha256(str(self.base).encode()).hexdigest()[:12]
        return Path("/run") / f"sandboxrun-{digest}"

    @property
    def socket(self) -> Path:
        """Where it answers."""
        return self.run / "engine.sock"

    @property
    def mark(self) -> Path:
        """Where the daemon's mount namespace bears its mark."""
        return self.run / "namespace"

    @property
    def record(self) -> Path:
        """Which process it is."""
        return self.base / "daemon.json"

    @property
    def log(self) -> Path:
        """What it writes about itself."""
        return self.base / "daemon.log"

    @property
    def url(self) -> str:
        """Its address."""
        return f"unix://{self.socket}"


@dataclass(frozen=True, slots=True)
class Daemon:
    """One daemon ready to be started."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    hidden: tuple[str, ...] = ()
    """Directories it must not see, because another engine's daemons answer there."""
    files: Mapping[Path, str] = field(default_factory=dict)
    """Configuration to be written first."""


def _longest_run_directory(kind: EngineKind) -> int:
    """Return how many bytes the path of a daemon's run directory may have."""
    match kind:
        case EngineKind.PODMAN:
            return _MAX_PODMAN_RUN_ROOT - len(f"/{PODMAN_RUN_ROOT}")
        case EngineKind.DOCKER | EngineKind.FAKE:
            return MAX_SOCKET_PATH - len(_DEEPEST_SOCKET)
        case _:
            assert_never(kind)


def program(name: str, package: str) -> str:
    """Return the path of a program. Raises `InstallError` naming the Debian package."""
    found = shutil.which(name, path=SEARCH_PATH)
    if found is None:
        raise InstallError(
            f"{name} is not installed.",
            advice=f"Install it (on Debian: apt-get install {package} crun), or name an engine "
            "that runs already with --engine or DOCKER_HOST.",
        )
    return found
