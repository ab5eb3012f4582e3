"""What is known from outside about the sandbox that is probed. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sandboxrun.engine.protocol import EngineInfo
from sandboxrun.model.limits import Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The machine the engine runs on, as seen from outside any sandbox."""

    hostname: str
    boot_id: str
    addresses: tuple[str, ...]
    """Addresses of its interfaces but loopback."""
    namespaces: Mapping[str, str]
    """Of this process, by kind: ``net:[4026531840]``."""
    security_modules: tuple[str, ...]
    """Mandatory access control that is active: ``apparmor``, ``selinux``."""
    cpus: int
    memory_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Canaries:
    """Things placed on the host that no sandbox may see or reach."""

    token: str
    """In a file, a process's environment and its command line, and all their names."""
    tcp_port: int
    """Something listens there on every address of the host."""
    udp_port: int
    unix_path: str
    abstract: str
    """Name of an abstract socket."""
    file: str
    directory: str
    """Where the files are."""
    process: int
    """Process id on the host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Everything a probe is judged by, besides what it observed."""

    engine: EngineInfo
    runtime: str
    """The OCI runtime in use."""
    limits: Limits
    """In force for the runs that probe."""
    mount_at: str = "/workspace"
    host: Host | None
    """None when the engine is on another machine."""
    canaries: Canaries | None
    """None when the engine is on another machine."""
    now: float
    """Seconds since the epoch."""
    state_dir: str = ""
    """Where the orchestrator keeps its state."""
    checkout: str = ""
    """Where the orchestrator's program is."""
    reached: tuple[str, ...] = ()
    """Canaries that somebody connected to while the sandbox was probed."""
