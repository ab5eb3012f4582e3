"""The Docker daemon as a managed engine."""

from __future__ import annotations

import json
import resource
import shutil
from typing import Final

from sandboxrun.engine.managed_layout import SEARCH_PATH, Daemon, Layout, program

_OPEN_FILES: Final = 1024
_SYSTEM_CONTAINERD: Final = "/run/containerd"
"""dockerd uses a containerd that answers here. Ours lives in another mount namespace than it."""


def daemon(layout: Layout) -> Daemon:
    """Return dockerd with everything of its own. Raises `InstallError` when it is missing.

    It has no bridge and touches no firewall: containers have no network. It needs neither an init
    system nor the right to raise resource limits.
    """
    config = layout.base / "config.json"
    return Daemon(
        argv=(program("dockerd", "docker.io"), f"--config-file={config}"),
        env={"PATH": SEARCH_PATH},
        hidden=(_SYSTEM_CONTAINERD,),
        files={config: json.dumps(_config(layout), indent=1)},
    )


def _config(layout: Layout) -> dict[str, object]:
    config: dict[str, object] = {
        "hosts": [layout.url],
        "data-root": str(layout.data),
        "exec-root": str(layout.run / "exec"),
        "pidfile": str(layout.run / "dockerd.pid"),
        "bridge": "none",
        "iptables": False,
        "ip6tables": False,
        "ip-forward": False,
        "userland-proxy": False,
        "exec-opts": ["native.cgroupdriver=cgroupfs"],
        "default-ulimits": {"nofile": {"Name": "nofile", **_soft_and_hard()}},
    }
    crun = shutil.which("crun", path=SEARCH_PATH)
    if crun is not None:
        config["runtimes"] = {"crun": {"path": crun}}
        config["default-runtime"] = "crun"
    return config


def _soft_and_hard() -> dict[str, int]:
    """Return a limit for containers that name none: below what this process may have."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(_OPEN_FILES, hard)
    return {"Soft": limit, "Hard": limit}
