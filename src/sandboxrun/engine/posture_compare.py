"""The comparison of an observed posture with the promised one. Pure and exhaustive.

Whatever was promised and is not there is a deviation, and so is whatever is there and was not
promised: a mount, a descriptor, an environment name nobody knows of is one misplaced flag away
from an escape.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from errno import errorcode
from typing import Final

from sandboxrun.engine.posture_promise import MountPromise, Promise
from sandboxrun.errors import PostureError
from sandboxrun.init.posture import Capabilities, Descriptor, Ids, Limit, Posture
from sandboxrun.init.proc import Mount

_FILTER_MODE: Final = 2
_NANO: Final = 1_000_000_000
_STANDARD: Final = frozenset({0, 1, 2})
_UNITS: Final = {"k": 1024, "m": 1024**2, "g": 1024**3}
_NULL_DEVICE: Final = "/null"
_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class Deviation:
    """One thing that is not as promised."""

    what: str
    promised: str
    observed: str

    def __str__(self) -> str:
        return f"{self.what}: promised {self.promised}, found {self.observed}"


def require(promise: Promise, posture: Posture) -> None:
    """Raise `PostureError` naming the first deviations, if there are any."""
    deviations = compare(promise, posture)
    if deviations:
        more = f" and {len(deviations) - _SHOWN} more" if len(deviations) > _SHOWN else ""
        listed = "; ".join(map(str, deviations[:_SHOWN]))
        raise PostureError(f"The container is not confined as promised: {listed}{more}.")


def compare(promise: Promise, posture: Posture) -> list[Deviation]:
    """Return every deviation; an empty list means that the promise is kept."""
    return [
        *_privileges(promise, posture),
        *_limits(promise, posture),
        *_mounts(promise, posture),
        *_surroundings(promise, posture),
    ]


def _privileges(promise: Promise, posture: Posture) -> Iterator[Deviation]:
    nothing = Capabilities(inheritable=0, permitted=0, effective=0, bounding=0, ambient=0)
    if posture.capabilities != nothing:
        yield Deviation("capabilities", "none", str(posture.capabilities))
    if not posture.no_new_privs:
        yield Deviation("no_new_privs", "set", "not set")
    if posture.seccomp_mode != _FILTER_MODE or posture.seccomp_filters == 0:
        yield Deviation("seccomp", "a filter", f"mode {posture.seccomp_mode}")
    tried = dict(posture.calls)
    for name, code in promise.calls:
        if tried.get(name) != code:
            yield Deviation(f"system call {name}", errorcode[code], _outcome(tried.get(name)))
    for what, wanted, found in (
        ("uid", promise.uid, posture.uids),
        ("gid", promise.gid, posture.gids),
    ):
        if found != Ids(real=wanted, effective=wanted, saved=wanted, filesystem=wanted):
            yield Deviation(what, str(wanted), str(found))
    if not set(posture.groups) <= {promise.gid}:
        yield Deviation("groups", f"none but {promise.gid}", str(posture.groups))


def _outcome(code: int | None) -> str:
    if code is None:
        return "not tried"
    return errorcode.get(code, str(code)) if code else "allowed"


def _limits(promise: Promise, posture: Posture) -> Iterator[Deviation]:
    for name, value in promise.rlimits:
        limit = posture.rlimit(name)
        if limit is None or limit.soft != value or limit.hard != value:
            yield Deviation(f"rlimit {name}", str(value), str(limit))
    cgroup = posture.cgroup
    wanted: tuple[tuple[str, int, Limit], ...] = (
        ("memory limit", promise.memory_bytes, cgroup.memory_bytes),
        ("swap limit", 0, cgroup.swap_bytes),
        ("pids limit", promise.pids, cgroup.pids),
    )
    for what, value, found in wanted:
        if found != value:
            yield Deviation(what, str(value), _shown(found))
    period = cgroup.cpu_period_us
    quota = None if period is None else promise.nano_cpus * period // _NANO
    if quota is None or cgroup.cpu_quota_us != quota:
        found_text = f"{_shown(cgroup.cpu_quota_us)} of {_shown(period)} µs"
        yield Deviation("CPU limit", f"{promise.nano_cpus / _NANO:g} CPUs", found_text)


def _shown(limit: Limit) -> str:
    if limit is None:
        return "nothing readable"
    return str(limit) if isinstance(limit, int) else limit.value


def _mounts(promise: Promise, posture: Posture) -> Iterator[Deviation]:
    known = {mount.point: mount for mount in promise.mounts}
    visible = {mount.point: mount for mount in posture.mounts}
    for mount in posture.mounts:
        if any(field.startswith("shared:") for field in mount.propagation):
            yield Deviation(f"mount {mount.point}", "private", " ".join(mount.propagation))
    for point, mount in visible.items():
        if point in known:
            yield from _mount(known[point], mount)
        elif promise.cgroups_below is not None and point.startswith(promise.cgroups_below):
            yield from _mount(_cgroup_promise(point), mount)
        else:
            yield Deviation(f"mount {point}", "nothing", _described(mount))
    for point, wanted in known.items():
        if wanted.required and point not in visible:
            yield Deviation(f"mount {point}", "a mount", "nothing")


def _cgroup_promise(point: str) -> MountPromise:
    return MountPromise(point=point, fstype="cgroup", read_only=True)


def _mount(wanted: MountPromise, found: Mount) -> Iterator[Deviation]:
    what = f"mount {wanted.point}"
    if wanted.masked:
        empty_directory = found.fstype == "tmpfs" and "ro" in found.options | found.super_options
        if not empty_directory and not _is_null(found):
            yield Deviation(what, "hidden", _described(found))
        return
    if wanted.fstype is not None and found.fstype != wanted.fstype:
        yield Deviation(what, wanted.fstype, _described(found))
    if wanted.read_only is not None and ("ro" in found.options) is not wanted.read_only:
        yield Deviation(what, "read-only" if wanted.read_only else "writable", _described(found))
    missing = wanted.options - found.options
    if missing:
        yield Deviation(what, ",".join(sorted(missing)), _described(found))
    for option, value in (("size", wanted.size_bytes), ("nr_inodes", wanted.inodes)):
        if value is not None and _number(found, option) != value:
            yield Deviation(what, f"{option}={value}", _described(found))


def _is_null(found: Mount) -> bool:
    return found.root == _NULL_DEVICE and found.fstype in {"devtmpfs", "tmpfs"}


def _number(mount: Mount, option: str) -> int | None:
    """Return a numeric option of the file system; tmpfs writes sizes with a unit."""
    for text in mount.super_options:
        name, _, value = text.partition("=")
        if name == option:
            factor = _UNITS.get(value[-1:].lower(), 1)
            digits = value[:-1] if factor > 1 else value
            return int(digits) * factor if digits.isdecimal() else None
    return None


def _described(mount: Mount) -> str:
    options = ",".join(sorted(mount.options | mount.super_options))
    return f"{mount.fstype} {mount.root} ({options})"


def _surroundings(promise: Promise, posture: Posture) -> Iterator[Deviation]:
    if posture.hostname != promise.hostname:
        yield Deviation("hostname", promise.hostname, posture.hostname)
    yield from _descriptors(posture.descriptors)
    unknown = set(posture.env_names) - promise.env_names
    if unknown:
        yield Deviation("environment", "nothing else", ", ".join(sorted(unknown)))
    if promise.private_cgroup_namespace:
        outside = [line for line in posture.cgroup_paths if not line.endswith(":/")]
        if outside:
            yield Deviation("cgroup namespace", "private", outside[0])


def _descriptors(descriptors: tuple[Descriptor, ...]) -> Iterator[Deviation]:
    numbers = [descriptor.number for descriptor in descriptors]
    if sorted(numbers) != sorted(_STANDARD):
        yield Deviation("descriptors", "0, 1 and 2", ", ".join(map(str, numbers)))
    for descriptor in descriptors:
        if not descriptor.target.startswith(("pipe:[", "socket:[")):
            yield Deviation(f"descriptor {descriptor.number}", "a pipe", descriptor.target)
