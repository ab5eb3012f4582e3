"""What a container's posture has to be, derived from its spec. Pure.

The promise is compared with what the init found (`posture_compare.compare`), because an engine's
own inspection only repeats what it was asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from sandboxrun.engine.dialect import CGROUP_V2, dialect_for
from sandboxrun.engine.hardening import CGROUPS
from sandboxrun.engine.protocol import EngineInfo
from sandboxrun.engine.seccomp import TRIED
from sandboxrun.engine.spec import ContainerSpec, TmpfsMount

ENV_NAMES: Final = frozenset({"PATH", "HOSTNAME", "HOME", "TERM", "container"})
"""What engines and runtimes add of their own accord. The command gets none of it."""
_ENGINE_MASKS: Final = (
    "/proc/acpi",
    "/proc/asound",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/dev/block",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
    "/sys/fs/selinux",
)
"""What Podman hides in any case."""
ALWAYS_MASKED: Final = frozenset({"/proc/cmdline", "/proc/interrupts"})
"""Every kernel has these, so if they are asked to be hidden, they are seen to be."""
_ALWAYS_READ_ONLY: Final = frozenset({"/proc/sys"})
_PAGE: Final = 4096
_NO_SUID: Final = frozenset({"nosuid"})
_INERT: Final = frozenset({"nosuid", "nodev"})
_INERT_DATA: Final = frozenset({"nosuid", "nodev", "noexec"})


@dataclass(frozen=True, slots=True, kw_only=True)
class MountPromise:
    """What may be mounted at one place. None is "either"."""

    point: str
    required: bool = True
    masked: bool = False
    """Something empty over the real thing: an empty read-only tmpfs, or /dev/null."""
    fstype: str | None = None
    read_only: bool | None = None
    options: frozenset[str] = frozenset()
    """Options of the mount that must be there."""
    size_bytes: int | None = None
    inodes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """Everything the posture is compared with. No capabilities, no new privileges, a filter."""

    uid: int
    gid: int
    hostname: str
    mounts: tuple[MountPromise, ...]
    cgroups_below: str | None
    """The directory of the cgroup file systems of version 1, each of them read-only."""
    rlimits: tuple[tuple[str, int], ...]
    memory_bytes: int
    nano_cpus: int
    pids: int
    private_cgroup_namespace: bool
    env_names: frozenset[str]
    calls: tuple[tuple[str, int], ...]
    """System calls the init tries, with the errno of their refusal."""


def promised_posture(spec: ContainerSpec, engine: EngineInfo) -> Promise:
    """Return what a container of ``spec`` on ``engine`` has to look like from inside. Pure."""
    dialect = dialect_for(engine)
    uid, _, gid = spec.user.partition(":")
    extra = () if dialect.process_ulimit is None else (("nproc", dialect.process_ulimit),)
    v2 = engine.cgroup_version >= CGROUP_V2
    mounts = {
        mount.point: mount
        for mount in (
            *_kernel_mounts(spec, v2=v2, by_path=not dialect.masks_by_option),
            *_masks(spec, engine_masks=dialect.masks_by_option),
            *_read_only_paths(spec),
            *(_sized(mount, inodes_for_shm=True) for mount in dialect.covers),
            *(_sized(mount, inodes_for_shm=not dialect.inodes_by_volume) for mount in spec.tmpfs),
            *_volumes(spec, names_uid=dialect.names_uid),
        )
    }
    return Promise(
        uid=int(uid),
        gid=int(gid),
        hostname=spec.hostname,
        mounts=tuple(mounts.values()),
        cgroups_below=None if v2 else f"{CGROUPS}/",
        rlimits=(*((limit.name, limit.value) for limit in spec.ulimits), *extra),
        memory_bytes=spec.memory_bytes // _PAGE * _PAGE,
        nano_cpus=spec.nano_cpus,
        pids=spec.pids,
        private_cgroup_namespace=dialect.private_cgroup_namespace,
        env_names=ENV_NAMES | {name for name, _ in spec.env},
        calls=TRIED,
    )


def _kernel_mounts(spec: ContainerSpec, *, v2: bool, by_path: bool) -> Iterator[MountPromise]:
    yield MountPromise(point="/", read_only=True)
    yield MountPromise(point="/proc", fstype="proc", options=_INERT_DATA)
    yield MountPromise(point="/sys", fstype="sysfs", read_only=True, options=_INERT_DATA)
    yield _cgroup_root(v2=v2, read_only=v2 or (by_path and CGROUPS in spec.read_only_paths))
    yield MountPromise(point="/dev", fstype="tmpfs", options=_NO_SUID)
    yield MountPromise(point="/dev/pts", fstype="devpts", options=frozenset({"nosuid", "noexec"}))
    yield MountPromise(point="/dev/mqueue", fstype="mqueue", options=_INERT_DATA, required=False)
    yield MountPromise(point="/dev/shm", fstype="tmpfs", options=_INERT_DATA)  # noqa: S108 - inside


def _cgroup_root(*, v2: bool, read_only: bool) -> MountPromise:
    if v2:
        return MountPromise(point=CGROUPS, fstype="cgroup2", read_only=True, options=_INERT_DATA)
    # Podman takes no paths to mount read-only, and crun leaves this one writable: 1 MiB that counts
    # as the container's memory. Bound anew, it has no other flags; what is read-only needs none.
    return MountPromise(
        point=CGROUPS,
        fstype="tmpfs",
        read_only=True if read_only else None,
        options=frozenset() if read_only else _INERT_DATA,
    )


def _masks(spec: ContainerSpec, *, engine_masks: bool) -> Iterator[MountPromise]:
    asked = set(spec.masked_paths)
    for path in sorted(asked | set(_ENGINE_MASKS if engine_masks else ())):
        yield MountPromise(point=path, masked=True, required=path in asked & ALWAYS_MASKED)


def _read_only_paths(spec: ContainerSpec) -> Iterator[MountPromise]:
    masked = set(spec.masked_paths)
    for path in spec.read_only_paths:
        if path not in masked and not path.startswith(CGROUPS):
            yield MountPromise(point=path, read_only=True, required=path in _ALWAYS_READ_ONLY)


def _sized(mount: TmpfsMount, *, inodes_for_shm: bool) -> MountPromise:
    by_engine = mount.target == "/dev/shm" and not inodes_for_shm  # noqa: S108 - inside
    return MountPromise(
        point=mount.target,
        fstype="tmpfs",
        read_only=False,
        options=_INERT_DATA if mount.no_exec else _INERT,
        size_bytes=-(-mount.size_bytes // _PAGE) * _PAGE,
        inodes=mount.inodes if mount.inodes and not by_engine else None,
    )


def _volumes(spec: ContainerSpec, *, names_uid: bool) -> Iterator[MountPromise]:
    for volume in spec.volumes:
        # No flags are promised: crun drops a volume's nosuid and nodev. Without capabilities, with
        # no-new-privileges and behind the device cgroup neither has an effect.
        yield MountPromise(point=volume.target, read_only=volume.read_only)
    for file in spec.files:
        yield MountPromise(point=file.target, read_only=True)
    if names_uid:
        for path in ("/etc/passwd", "/etc/group"):
            yield MountPromise(point=path, read_only=True, required=False)
