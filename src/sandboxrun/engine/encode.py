"""A container spec as the engine API's own body. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from sandboxrun.engine.dialect import Dialect
from sandboxrun.engine.spec import ContainerSpec, TmpfsMount, VolumeSpec
from sandboxrun.errors import EngineError

_BLOCK: Final = 4096
"""``nr_blocks`` of a tmpfs counts pages of this size; with larger pages the limit is larger."""
_JOINED: Final = "container:"
SHM: Final = "/dev/shm"  # noqa: S108 - a path inside the container
"""Engines make this one themselves unless told otherwise, of ``shm_bytes``."""

Json = dict[str, object]


def encode_container(spec: ContainerSpec, dialect: Dialect) -> Json:
    """Return the body of ``POST /containers/create``.

    Raises `EngineError` for a spec the API cannot carry exactly.
    """
    body: Json = {
        "Image": spec.image,
        "Entrypoint": list(spec.entrypoint),
        "Cmd": [],
        "User": spec.user,
        "WorkingDir": spec.working_dir,
        "Env": [f"{name}={value}" for name, value in spec.env],
        "Labels": dict(spec.labels),
        "Healthcheck": {"Test": ["NONE"]},
        "Tty": False,
        "OpenStdin": True,
        "StdinOnce": True,
        "AttachStdin": True,
        "AttachStdout": True,
        "AttachStderr": True,
        "NetworkDisabled": False,
        "ExposedPorts": {},
        "Volumes": {},
        "HostConfig": _host_config(spec, dialect),
    }
    if dialect.unset_by_field:
        body["UnsetEnv"] = list(spec.unset_env)
    else:
        body["Env"] = [f"{name}={value}" for name, value in spec.env] + list(spec.unset_env)
    if not (dialect.joins_hostname and spec.network.startswith(_JOINED)):
        body["Hostname"] = spec.hostname
    return body


def _host_config(spec: ContainerSpec, dialect: Dialect) -> Json:
    config: Json = {
        "AutoRemove": False,
        "RestartPolicy": {"Name": "no"},
        "LogConfig": {"Type": "none", "Config": {}},
        "Init": False,
        "Privileged": False,
        "NetworkMode": spec.network,
        "CgroupnsMode": "private",
        "IpcMode": "private",
        "CapAdd": [],
        "CapDrop": ["ALL"],
        "SecurityOpt": _security(spec, dialect),
        "ReadonlyRootfs": True,
        "PidsLimit": spec.pids,
        "Memory": spec.memory_bytes,
        "MemorySwap": spec.memory_bytes,
        "NanoCpus": spec.nano_cpus,
        "OomScoreAdj": 0,
        "Ulimits": _ulimits(spec, dialect),
        "ShmSize": spec.shm_bytes,
        "Mounts": [*_mounts(spec, dialect)],
        "Tmpfs": _tmpfs(spec, dialect),
    }
    if dialect.swappiness:
        config["MemorySwappiness"] = 0
    if not dialect.masks_by_option:
        config["MaskedPaths"] = list(spec.masked_paths)
        config["ReadonlyPaths"] = list(spec.read_only_paths)
    if spec.runtime is not None:
        config["Runtime"] = spec.runtime
    return config


def _security(spec: ContainerSpec, dialect: Dialect) -> list[str]:
    options = ["no-new-privileges"]
    options.append(f"seccomp={spec.seccomp_file if dialect.seccomp_by_file else spec.seccomp}")
    if dialect.masks_by_option and spec.masked_paths:
        if any(":" in path for path in spec.masked_paths):
            raise EngineError("A masked path contains a colon, which this engine cannot express.")
        # What the engine makes read-only of its own accord is the same list as ours.
        options.append("mask=" + ":".join(spec.masked_paths))
    return options


def _ulimits(spec: ContainerSpec, dialect: Dialect) -> list[Json]:
    limits = [(limit.name, limit.value) for limit in spec.ulimits]
    if dialect.process_ulimit is not None:
        limits.append(("nproc", dialect.process_ulimit))
    return [{"Name": name, "Soft": value, "Hard": value} for name, value in limits]


def _mounts(spec: ContainerSpec, dialect: Dialect) -> Iterator[Json]:
    for volume in spec.volumes:
        yield {
            "Type": "volume",
            "Source": volume.volume,
            "Target": volume.target,
            "ReadOnly": volume.read_only,
            "VolumeOptions": {"NoCopy": volume.no_copy},
        }
    for file in spec.files:
        yield {"Type": "bind", "Source": file.source, "Target": file.target, "ReadOnly": True}
    for mount, volume_spec in tmpfs_volumes(spec, dialect):
        yield {
            "Type": "volume",
            "Source": volume_spec.name,
            "Target": mount.target,
            "VolumeOptions": {"NoCopy": True},
        }


def _tmpfs(spec: ContainerSpec, dialect: Dialect) -> dict[str, str]:
    taken = {mount.target for mount in spec.tmpfs} | {mount.target for mount in spec.volumes}
    covers = [mount for mount in dialect.covers if mount.target not in taken]
    by_volume = {mount.target for mount, _ in tmpfs_volumes(spec, dialect)}
    if dialect.inodes_by_volume:
        # A volume would take the mode of the image's directory, which is not open to all users.
        by_volume.add(SHM)
    plain = [mount for mount in spec.tmpfs if mount.target not in by_volume]
    return {mount.target: _tmpfs_options(mount) for mount in [*plain, *covers]}


def _tmpfs_options(mount: TmpfsMount) -> str:
    options = ["rw", "nosuid", "nodev", "noexec" if mount.no_exec else "exec"]
    options.append(f"size={mount.size_bytes}")
    if mount.inodes:
        options.append(f"nr_inodes={mount.inodes}")
    return ",".join([*options, f"mode={mount.mode:04o}"])


def tmpfs_volumes(spec: ContainerSpec, dialect: Dialect) -> list[tuple[TmpfsMount, VolumeSpec]]:
    """Return the tmpfs mounts that this engine needs as volumes, and those volumes.

    The volumes carry the container's labels and are named for it, so that whoever finds the
    container's labels finds them too.
    """
    if not dialect.inodes_by_volume:
        return []
    return [
        (mount, VolumeSpec(f"{spec.name}{TMPFS_INFIX}{index}", spec.labels, _options(mount)))
        for index, mount in enumerate(spec.tmpfs)
        if mount.inodes and mount.target != SHM
    ]


TMPFS_INFIX: Final = ".tmpfs-"
"""Between a container's name and the number of one of its tmpfs volumes."""


def _options(mount: TmpfsMount) -> tuple[tuple[str, str], ...]:
    words = ["nosuid", "nodev", *(["noexec"] if mount.no_exec else [])]
    words += [f"nr_blocks={mount.size_bytes // _BLOCK}", f"nr_inodes={mount.inodes}"]
    words.append(f"mode={mount.mode:04o}")
    return (("type", "tmpfs"), ("device", "tmpfs"), ("o", ",".join(words)))


def encode_volume(spec: VolumeSpec, dialect: Dialect) -> Json:
    """Return the body of ``POST /volumes/create``."""
    return {
        "Name": spec.name,
        "Driver": "local",
        "DriverOpts": volume_options(spec, dialect),
        "Labels": dict(spec.labels),
    }


def volume_options(spec: VolumeSpec, dialect: Dialect) -> Mapping[str, str]:
    """Return the driver options as this engine wants them."""
    options = dict(spec.options)
    if dialect.split_lowerdir and options.get("type") == "overlay" and "o" in options:
        options["o"] = ",".join(_split_lowerdir(options["o"]))
    return options


def _split_lowerdir(text: str) -> Iterator[str]:
    for word in text.split(","):
        layers = word.removeprefix("lowerdir=")
        if layers == word:
            yield word
        else:
            yield from (f"lowerdir+={layer}" for layer in layers.split(":"))
