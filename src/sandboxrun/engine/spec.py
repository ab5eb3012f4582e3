"""What a container is asked to be, in OCI words. Values only; `hardening.py` decides them."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class VolumeMount:
    """A named volume mounted into the container."""

    volume: str
    target: str
    read_only: bool
    no_copy: bool = True
    """Do not let the engine copy the image's files (and owner) into an empty volume."""


@dataclass(frozen=True, slots=True)
class FileMount:
    """One file of the engine's host, always read-only. The source is never a request's choice."""

    source: str
    target: str


@dataclass(frozen=True, slots=True)
class TmpfsMount:
    """A sized tmpfs; ``nosuid,nodev`` always, ``noexec`` on request."""

    target: str
    size_bytes: int
    inodes: int
    """Largest number of files; 0 sets no limit of its own."""
    mode: int = 0o1777
    no_exec: bool = False


@dataclass(frozen=True, slots=True)
class Ulimit:
    """One resource limit; soft and hard are equal by design, so nothing inside can raise it."""

    name: str
    value: int


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """Everything the engine is told about one container.

    What is not a field here is fixed by the driver for every container: all capabilities dropped,
    no-new-privileges, a read-only root, private cgroup and IPC namespaces, no TTY, log driver
    none, no restart, no healthcheck, no auto-remove, stdin open once.
    """

    name: str
    image: str
    """An image id (``sha256:…``), never a tag."""
    entrypoint: tuple[str, ...]
    user: str
    """``uid:gid``, numeric."""
    hostname: str
    network: str
    """``none``, or ``container:<id>`` to join a pause container's namespace."""
    memory_bytes: int
    nano_cpus: int
    pids: int
    shm_bytes: int
    seccomp: str
    """The profile as JSON text."""
    labels: tuple[tuple[str, str], ...]
    seccomp_file: str = ""
    """The same profile as a file on the engine's host, for engines that take only a path.

    Empty only for containers that are never started.
    """
    env: tuple[tuple[str, str], ...] = ()
    unset_env: tuple[str, ...] = ()
    """Names the image sets that the container must not have."""
    volumes: tuple[VolumeMount, ...] = ()
    files: tuple[FileMount, ...] = ()
    tmpfs: tuple[TmpfsMount, ...] = ()
    ulimits: tuple[Ulimit, ...] = ()
    masked_paths: tuple[str, ...] = ()
    read_only_paths: tuple[str, ...] = ()
    runtime: str | None = None
    """An OCI runtime the engine knows, or None for its default."""
    working_dir: str = "/"


@dataclass(frozen=True, slots=True)
class VolumeSpec:
    """A volume of the engine's ``local`` driver."""

    name: str
    labels: tuple[tuple[str, str], ...]
    options: tuple[tuple[str, str], ...] = field(default=())
