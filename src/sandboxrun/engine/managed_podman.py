"""Podman's API service as a managed engine."""

from __future__ import annotations

from typing import Final

from sandboxrun.engine.managed_layout import PODMAN_RUN_ROOT, SEARCH_PATH, Daemon, Layout, program

_CONFIG: Final = """\
[containers]
cgroupns = "private"
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
env = []
[engine]
cgroup_manager = "cgroupfs"
events_logger = "none"
runtime = "{runtime}"
[network]
network_backend = "cni"
"""
"""The ulimits are explicit because the service would raise its own hard limits otherwise."""


def daemon(layout: Layout) -> Daemon:
    """Return the service with everything of its own. Raises `InstallError` when it is missing."""
    config = layout.base / "containers.conf"
    runtime = "crun" if program("crun", "crun") else "runc"
    return Daemon(
        argv=(
            program("podman", "podman"),
            f"--root={layout.data}",
            f"--runroot={layout.run / PODMAN_RUN_ROOT}",
            f"--tmpdir={layout.run / 'tmp'}",
            "--storage-driver=overlay",
            "system",
            "service",
            "--time=0",
            layout.url,
        ),
        env={"PATH": SEARCH_PATH, "CONTAINERS_CONF": str(config)},
        files={config: _CONFIG.format(runtime=runtime)},
    )
