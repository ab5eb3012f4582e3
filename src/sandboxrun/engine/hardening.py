"""What every container is: the hardened spec, as a pure function of a launch plan."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import Final

from sandboxrun.engine.dialect import CGROUP_V2, dialect_for
from sandboxrun.engine.init_volume import InitVolume
from sandboxrun.engine.layout import (
    DEFAULT_HOSTNAME,
    ETC_FILES,
    INIT_MOUNT,
    INIT_PATH,
    SECCOMP_FILE,
    WORKSPACE,
)
from sandboxrun.engine.protocol import EngineInfo, ImageInfo
from sandboxrun.engine.seccomp import seccomp_profile
from sandboxrun.engine.spec import ContainerSpec, FileMount, TmpfsMount, Ulimit, VolumeMount
from sandboxrun.errors import ImageUnusableError
from sandboxrun.model.limits import MIB, Limits

MEMLOCK_BYTES: Final = 64 * 1024
MSGQUEUE_BYTES: Final = 256 * 1024
COVER_BYTES: Final = 16 * MIB
"""Size of the tmpfs over a directory the image declares a volume."""
_SMALLER_INODES: Final = 8
_NANO: Final = 1_000_000_000
_CPUS_WITH_SENSORS: Final = 256
_NEVER_BELOW: Final = ("/proc", "/sys", "/dev", INIT_MOUNT, WORKSPACE)
MASKED_PATHS: Final = (
    "/proc/acpi",
    "/proc/asound",
    "/proc/bootconfig",
    "/proc/buddyinfo",
    "/proc/bus",
    "/proc/cmdline",
    "/proc/config.gz",
    "/proc/consoles",
    "/proc/diskstats",
    "/proc/dma",
    "/proc/fs",
    "/proc/interrupts",
    "/proc/iomem",
    "/proc/ioports",
    "/proc/irq",
    "/proc/kcore",
    "/proc/key-users",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/locks",
    "/proc/mdstat",
    "/proc/modules",
    "/proc/partitions",
    "/proc/pressure",
    "/proc/sched_debug",
    "/proc/schedstat",
    "/proc/scsi",
    "/proc/softirqs",
    "/proc/swaps",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/zoneinfo",
    "/sys/block",
    "/sys/bus",
    "/sys/class",
    "/sys/dev",
    "/sys/devices/LNXSYSTM:00",
    "/sys/devices/pci0000:00",
    "/sys/devices/platform",
    "/sys/devices/pnp0",
    "/sys/devices/virtual",
    "/sys/firmware",
    "/sys/fs/bpf",
    "/sys/fs/btrfs",
    "/sys/fs/erofs",
    "/sys/fs/ext4",
    "/sys/fs/f2fs",
    "/sys/fs/fuse",
    "/sys/fs/pstore",
    "/sys/fs/xfs",
    "/sys/hypervisor",
    "/sys/kernel/boot_params",
    "/sys/kernel/btf",
    "/sys/kernel/debug",
    "/sys/kernel/iommu_groups",
    "/sys/kernel/irq",
    "/sys/kernel/security",
    "/sys/kernel/slab",
    "/sys/kernel/tracing",
    "/sys/module",
    "/sys/power",
)
"""Hidden where the kernel has them; engines skip those it has not. They tell of the host's hardware
and of what others do; what stays is what programs read to size themselves."""
READ_ONLY_PATHS: Final = ("/proc/sys", "/proc/sysrq-trigger")
CGROUPS: Final = "/sys/fs/cgroup"
_CONTROLLERS: Final = (
    *("blkio", "cpu", "cpu,cpuacct", "cpuacct", "cpuset", "devices", "elogind", "freezer"),
    *("hugetlb", "memory", "misc", "net_cls", "net_cls,net_prio", "net_prio", "openrc"),
    *("perf_event", "pids", "rdma", "systemd", "unified"),
)
"""Where hosts mount the hierarchies of cgroup v1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchPlan:
    """What a run decided about its container."""

    name: str
    engine: EngineInfo
    image: ImageInfo
    limits: Limits
    uid: int
    """User and group."""
    workspace: str | None
    """A volume; None for a container that runs no command."""
    read_only: bool
    """Whether the workspace is mounted read-only."""
    mount_at: str = WORKSPACE
    """Where the workspace is mounted."""
    init: InitVolume
    labels: tuple[tuple[str, str], ...]
    hostname: str = DEFAULT_HOSTNAME
    network: str = "none"
    runtime: str | None = None


def harden(plan: LaunchPlan) -> ContainerSpec:
    """Return the container for ``plan``. Pure.

    Raises `ImageUnusableError` when the image declares a volume that cannot be covered.
    """
    limits = plan.limits
    return ContainerSpec(
        name=plan.name,
        image=plan.image.id,
        entrypoint=(INIT_PATH,),
        user=f"{plan.uid}:{plan.uid}",
        hostname=plan.hostname,
        network=plan.network,
        memory_bytes=limits.memory_bytes,
        nano_cpus=nano_cpus(limits, plan.engine),
        pids=limits.pids,
        shm_bytes=limits.shm_bytes,
        seccomp=seccomp_profile(),
        seccomp_file=f"{plan.init.mountpoint}/{SECCOMP_FILE}",
        labels=plan.labels,
        unset_env=image_env_names(plan.image),
        volumes=(
            VolumeMount(plan.init.name, INIT_MOUNT, read_only=True),
            *_workspace(plan),
        ),
        files=tuple(
            FileMount(f"{plan.init.mountpoint}/etc/{name}", f"/etc/{name}") for name in ETC_FILES
        ),
        tmpfs=_tmpfs(limits, plan.image),
        ulimits=ulimits(limits),
        masked_paths=masked_paths(plan.engine),
        read_only_paths=read_only_paths(plan.engine),
        runtime=plan.runtime,
    )


def _workspace(plan: LaunchPlan) -> tuple[VolumeMount, ...]:
    if plan.workspace is None:
        return ()
    return (VolumeMount(plan.workspace, plan.mount_at, read_only=plan.read_only),)


def nano_cpus(limits: Limits, engine: EngineInfo) -> int:
    """Return the CPU limit; engines refuse more than the host has."""
    return int(min(limits.cpus, float(engine.cpus)) * _NANO)


def ulimits(limits: Limits) -> tuple[Ulimit, ...]:
    """Return the resource limits. No nproc: it counts the uid's processes of all containers."""
    return (
        Ulimit("core", 0),
        Ulimit("fsize", limits.disk_bytes),
        Ulimit("memlock", MEMLOCK_BYTES),
        Ulimit("msgqueue", MSGQUEUE_BYTES),
        Ulimit("nofile", limits.open_files),
    )


def masked_paths(engine: EngineInfo) -> tuple[str, ...]:
    """Return what is hidden; sensors are per CPU. Where the engine joins paths by colons, none has one."""
    sensors = (
        f"/sys/devices/system/cpu/cpu{number}/thermal_throttle"
        for number in range(min(engine.cpus, _CPUS_WITH_SENSORS))
    )
    paths = (*MASKED_PATHS, *sensors)
    joined = dialect_for(engine).masks_by_option
    return tuple(path for path in paths if not (joined and ":" in path))


def read_only_paths(engine: EngineInfo) -> tuple[str, ...]:
    """Return what is mounted read-only.

    crun leaves the tmpfs that holds the hierarchies of cgroup v1 writable. Asked to make it
    read-only, it binds it anew, and the hierarchies below lose their own flag: so they follow.
    """
    if engine.cgroup_version >= CGROUP_V2:
        return READ_ONLY_PATHS
    return (*READ_ONLY_PATHS, CGROUPS, *(f"{CGROUPS}/{name}" for name in _CONTROLLERS))


def image_env_names(image: ImageInfo) -> tuple[str, ...]:
    """Return the names the image sets: the init has no environment, the command gets its own."""
    return tuple(sorted({entry.partition("=")[0] for entry in image.env} - {""}))


def _tmpfs(limits: Limits, image: ImageInfo) -> tuple[TmpfsMount, ...]:
    fewer = max(limits.tmp_inodes // _SMALLER_INODES, 1)
    mounts = [
        TmpfsMount("/tmp", limits.tmp_bytes, limits.tmp_inodes),  # noqa: S108 - inside
        TmpfsMount("/dev/shm", limits.shm_bytes, fewer, no_exec=True),  # noqa: S108 - inside
    ]
    taken = {mount.target for mount in mounts}
    # An image's VOLUME would be an anonymous, writable, unlimited volume.
    mounts += [
        TmpfsMount(path, COVER_BYTES, fewer)
        for path in _declared_volumes(image)
        if path not in taken
    ]
    return tuple(mounts)


def _declared_volumes(image: ImageInfo) -> tuple[str, ...]:
    paths = []
    for declared in image.volumes:
        path = posixpath.normpath(declared)
        if path == WORKSPACE:
            continue
        below_ours = any(path == root or path.startswith(f"{root}/") for root in _NEVER_BELOW)
        plain = path.startswith("/") and path.isprintable() and not set(path) & set(":,")
        if not plain or path in {"/", "//"} or below_ours:
            raise ImageUnusableError(
                f"The image declares the volume {declared!r}, which cannot be covered.",
                advice="Use an image without this VOLUME.",
            )
        paths.append(path)
    return tuple(sorted(set(paths)))
