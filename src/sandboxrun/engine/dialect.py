"""What engines that speak the same API do differently. Decided from what the engine says of itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sandboxrun.engine.protocol import EngineInfo, EngineKind
from sandboxrun.engine.spec import TmpfsMount

CGROUP_V2: Final = 2
_PODMAN_NPROC: Final = 16_384
_COVER_BYTES: Final = 1024 * 1024
_PODMAN_CGROUPNS_SINCE: Final = (5, 6)


@dataclass(frozen=True, slots=True)
class Dialect:
    """The differences, each named for what the engine needs."""

    seccomp_by_file: bool
    """A seccomp profile is a path on the engine's host, not JSON."""
    masks_by_option: bool
    """Masked paths are a security option; the field of that name is accepted and ignored."""
    inodes_by_volume: bool
    """A tmpfs with an inode limit exists only as a volume."""
    unset_by_field: bool
    """Environment names to drop are a field; a bare name imports the engine's own value."""
    covers: tuple[TmpfsMount, ...]
    """Tmpfs mounts over what the engine would mount writable and unsized on a read-only root."""
    process_ulimit: int | None
    """An explicit RLIMIT_NPROC, where the engine would try to raise it beyond the hard limit."""
    private_cgroup_namespace: bool
    """The engine honours the request for a cgroup namespace of its own."""
    swappiness: bool
    """The kernel has a swappiness per container (cgroup v1)."""
    split_lowerdir: bool
    """An overlay volume takes one ``lowerdir+=`` for each layer."""
    joins_hostname: bool
    """A container that joins another's network has its hostname too, and may not name one."""
    names_uid: bool
    """The engine mounts its own /etc/passwd and /etc/group, so that the uid has a name."""


def dialect_for(info: EngineInfo) -> Dialect:
    """Return the dialect of the engine ``info`` describes. Pure.

    Podman's traits were checked on 4.3; its compat API honours ``CgroupnsMode`` since 5.6
    (podman#26116), before that the namespace is private on cgroup v2 only.
    """
    v2 = info.cgroup_version >= CGROUP_V2
    podman = info.kind is EngineKind.PODMAN
    return Dialect(
        seccomp_by_file=podman,
        masks_by_option=podman,
        inodes_by_volume=podman,
        unset_by_field=podman,
        covers=_PODMAN_COVERS if podman else (),
        process_ulimit=_PODMAN_NPROC if podman else None,
        private_cgroup_namespace=not podman or v2 or _release(info) >= _PODMAN_CGROUPNS_SINCE,
        swappiness=not v2,
        split_lowerdir=podman,
        joins_hostname=not podman,
        names_uid=podman,
    )


_PODMAN_COVERS: Final = tuple(
    TmpfsMount(target, _COVER_BYTES, inodes=0, mode=0o755, no_exec=True)
    for target in ("/run", "/var/tmp")  # noqa: S108 - paths inside the container
)
"""Owned by root, so the command's user cannot write there: the same as on a read-only root."""


def _release(info: EngineInfo) -> tuple[int, ...]:
    numbers = info.version.split("-", 1)[0].split(".")[:2]
    return tuple(int(number) if number.isdecimal() else 0 for number in numbers)
