"""The posture: what the init found about its own confinement before any hostile code existed.

The init sends the kernel's own texts; this module reads them, strictly. The formats are those of
proc(5), cgroups(7) and the kernel's ``admin-guide/cgroup-v1`` and ``cgroup-v2``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

from sandboxrun.errors import ProtocolError
from sandboxrun.init.proc import (
    Mount,
    Rlimit,
    parse_limits,
    parse_mountinfo,
    parse_status,
    text_lines,
)
from sandboxrun.init.sections import decode_sections, split_terminated

_REQUIRED: Final = frozenset(
    {"init", "status", "mountinfo", "limits", "cgroup", "fds", "uids", "uname", "hostname", "env"}
)
_V1: Final = frozenset(
    {"cgroup.memory.limit", "cgroup.memory.memsw", "cgroup.cpu.quota", "cgroup.cpu.period"}
)
_V2: Final = frozenset({"cgroup.memory.max", "cgroup.memory.swap", "cgroup.cpu.max"})
_KNOWN: Final = _REQUIRED | _V1 | _V2 | {"cgroup.pids.max", "calls"}
_V1_UNLIMITED: Final = 2**62
"""cgroup v1 shows no limit as LONG_MAX rounded down to a page."""
_MAX_DIGITS: Final = 20
_FIELDS_OF_FD: Final = 3


class Unlimited(Enum):
    """The value of a limit that is not set."""

    UNLIMITED = "unlimited"


Limit: TypeAlias = int | Unlimited | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """The five capability sets, as bit masks."""

    inheritable: int
    permitted: int
    effective: int
    bounding: int
    ambient: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ids:
    """The four user or group ids of a process."""

    real: int
    effective: int
    saved: int
    filesystem: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CgroupLimits:
    """Limits of the container's cgroup; None where the file cannot be read from inside."""

    memory_bytes: int | Unlimited | None
    swap_bytes: int | Unlimited | None
    """Swap on top of memory."""
    cpu_quota_us: int | Unlimited | None
    cpu_period_us: int | None
    pids: int | Unlimited | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Descriptor:
    """One open descriptor of the init."""

    number: int
    target: str
    flags: int
    """Open flags as in /proc/self/fdinfo."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Posture:
    """Everything the init reports about itself."""

    version: str
    """Version of the init."""
    user_notification: bool
    """Whether exact order is possible here."""
    capabilities: Capabilities
    no_new_privs: bool
    seccomp_mode: int
    """0 none, 1 strict, 2 filter."""
    seccomp_filters: int | None
    """Number of filters; None before kernel 5.9."""
    uids: Ids
    gids: Ids
    groups: tuple[int, ...]
    umask: int
    mounts: tuple[Mount, ...]
    rlimits: tuple[Rlimit, ...]
    cgroup: CgroupLimits
    cgroup_paths: tuple[str, ...]
    """The lines of /proc/self/cgroup."""
    descriptors: tuple[Descriptor, ...]
    hostname: str
    kernel: str
    machine: str
    env_names: tuple[str, ...]
    calls: tuple[tuple[str, int], ...] = ()
    """System calls that were tried, and their errno; 0 for one that succeeded."""

    def rlimit(self, name: str) -> Rlimit | None:
        """Return the limit called ``name`` (as in setrlimit(2): "nofile", "fsize", …)."""
        return next((limit for limit in self.rlimits if limit.name == name), None)

    def mount(self, point: str) -> Mount | None:
        """Return what is visible at ``point``: the last mount there."""
        return next((mount for mount in reversed(self.mounts) if mount.point == point), None)


def parse_posture(payload: bytes) -> Posture:
    """Return the posture of a posture frame's payload.

    Raises `ProtocolError` when a section is missing, unknown, repeated or malformed.
    """
    sections = decode_sections(payload, _KNOWN)
    missing = _REQUIRED - sections.keys()
    if missing:
        raise ProtocolError(f"The posture lacks {sorted(missing)}.")
    texts = {name: data.decode("utf-8", "backslashreplace") for name, data in sections.items()}
    try:
        return _parse(texts, sections["env"], sections["fds"])
    except (ValueError, KeyError, IndexError) as error:
        raise ProtocolError(f"The posture is malformed: {error!r}") from error


def _parse(texts: dict[str, str], env: bytes, fds: bytes) -> Posture:
    about = dict(line.split("=", 1) for line in text_lines(texts["init"]))
    status = parse_status(texts["status"])
    uids, gids = _ids(status["Uid"]), _ids(status["Gid"])
    if [int(word) for word in texts["uids"].split()] != [
        *(uids.real, uids.effective, uids.saved),
        *(gids.real, gids.effective, gids.saved),
    ]:
        raise ProtocolError("The posture's ids contradict each other.")
    _, release, _, machine = text_lines(texts["uname"])
    return Posture(
        version=about["version"],
        user_notification={"0": False, "1": True}[about["user_notification"]],
        capabilities=Capabilities(
            inheritable=int(status["CapInh"], 16),
            permitted=int(status["CapPrm"], 16),
            effective=int(status["CapEff"], 16),
            bounding=int(status["CapBnd"], 16),
            ambient=int(status["CapAmb"], 16),
        ),
        no_new_privs={"0": False, "1": True}[status["NoNewPrivs"]],
        seccomp_mode=int(status["Seccomp"]),
        seccomp_filters=int(status["Seccomp_filters"]) if "Seccomp_filters" in status else None,
        uids=uids,
        gids=gids,
        groups=tuple(int(word) for word in status["Groups"].split()),
        umask=int(status["Umask"], 8),
        mounts=parse_mountinfo(texts["mountinfo"]),
        rlimits=parse_limits(texts["limits"]),
        cgroup=_cgroup(texts),
        cgroup_paths=tuple(text_lines(texts["cgroup"])),
        descriptors=_descriptors(split_terminated(fds)),
        hostname=texts["hostname"],
        kernel=release,
        machine=machine,
        env_names=tuple(name.decode("utf-8", "backslashreplace") for name in split_terminated(env)),
        calls=_calls(texts.get("calls", "")),
    )


def _calls(text: str) -> tuple[tuple[str, int], ...]:
    pairs = (line.split("=", 1) for line in text.splitlines())
    return tuple((name, int(number)) for name, number in pairs)


def _ids(text: str) -> Ids:
    real, effective, saved, filesystem = (int(word) for word in text.split())
    return Ids(real=real, effective=effective, saved=saved, filesystem=filesystem)


def _descriptors(fields: tuple[bytes, ...]) -> tuple[Descriptor, ...]:
    if len(fields) % _FIELDS_OF_FD:
        raise ProtocolError("The posture's list of descriptors is cut short.")
    return tuple(
        Descriptor(
            number=int(fields[index]),
            target=fields[index + 1].decode("utf-8", "backslashreplace"),
            flags=int(fields[index + 2], 8),
        )
        for index in range(0, len(fields), _FIELDS_OF_FD)
    )


def _cgroup(texts: dict[str, str]) -> CgroupLimits:
    if _V1 & texts.keys() and _V2 & texts.keys():
        raise ProtocolError("The posture has limits of both cgroup versions.")
    if _V2 & texts.keys():
        quota, period = (
            texts["cgroup.cpu.max"].split() if "cgroup.cpu.max" in texts else (None, None)
        )
        return CgroupLimits(
            memory_bytes=_limit(texts.get("cgroup.memory.max")),
            swap_bytes=_limit(texts.get("cgroup.memory.swap")),
            cpu_quota_us=_limit(quota),
            cpu_period_us=None if period is None else int(period),
            pids=_limit(texts.get("cgroup.pids.max")),
        )
    memory = _limit(texts.get("cgroup.memory.limit"))
    period = texts.get("cgroup.cpu.period")
    return CgroupLimits(
        memory_bytes=memory,
        swap_bytes=_swap_v1(memory, _limit(texts.get("cgroup.memory.memsw"))),
        cpu_quota_us=_limit(texts.get("cgroup.cpu.quota")),
        cpu_period_us=None if period is None else int(period),
        pids=_limit(texts.get("cgroup.pids.max")),
    )


def _swap_v1(memory: Limit, both: Limit) -> Limit:
    """Version 1 limits memory and swap together."""
    if isinstance(memory, int) and isinstance(both, int):
        return both - memory
    return both


def _limit(text: str | None) -> Limit:
    if text is None:
        return None
    word = text.strip()
    if word in {"max", "-1"}:
        return Unlimited.UNLIMITED
    if not word.isdecimal() or len(word) > _MAX_DIGITS:
        raise ProtocolError("A cgroup limit is malformed.")
    number = int(word)
    return Unlimited.UNLIMITED if number >= _V1_UNLIMITED else number
