"""The posture a faithful engine would give a container, as the init would report it."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Final

from sandboxrun.engine.posture_promise import MountPromise, Promise, promised_posture
from sandboxrun.engine.protocol import EngineInfo
from sandboxrun.engine.spec import ContainerSpec

_PERIOD: Final = 100_000
_NANO: Final = 1_000_000_000
_NAMES: Final[Mapping[str, str]] = {
    "core": "Max core file size",
    "fsize": "Max file size",
    "memlock": "Max locked memory",
    "msgqueue": "Max msgqueue size",
    "nofile": "Max open files",
    "nproc": "Max processes",
}


def posture_payload(spec: ContainerSpec, engine: EngineInfo) -> bytes:
    """Return the payload of a posture frame that keeps every promise made for ``spec``."""
    return encode_posture(posture_sections(promised_posture(spec, engine)))


def encode_posture(sections: Mapping[str, str]) -> bytes:
    """Return the payload made of ``sections``; change some first to break a promise."""
    return b"".join(
        name.encode() + b"\0" + struct.pack("<I", len(text.encode())) + text.encode()
        for name, text in sections.items()
    )


def posture_sections(promise: Promise) -> dict[str, str]:
    """Return the kernel's texts, by section, of a container that keeps ``promise``."""
    ids = " ".join([str(promise.uid)] * 3 + [str(promise.gid)] * 3)
    sections = {
        "init": "version=fake\nuser_notification=1\n",
        "status": _status(promise),
        "mountinfo": "".join(f"{line}\n" for line in _mountinfo(promise)),
        "limits": _limits(promise),
        "cgroup": "0::/\n",
        "fds": "".join(f"{number}\0pipe:[{number + 1}]\0{number}\0" for number in range(3)),
        "uids": f"{ids}\n",
        "uname": "Linux\n6.6.0\n#1\nx86_64\n",
        "hostname": promise.hostname,
        "env": "".join(f"{name}\0" for name in sorted(promise.env_names & {"PATH", "HOSTNAME"})),
        "calls": "".join(f"{name}={code}\n" for name, code in promise.calls),
        "cgroup.pids.max": f"{promise.pids}\n",
    }
    quota = promise.nano_cpus * _PERIOD // _NANO
    if promise.cgroups_below is None:
        return sections | {
            "cgroup.memory.max": f"{promise.memory_bytes}\n",
            "cgroup.memory.swap": "0\n",
            "cgroup.cpu.max": f"{quota} {_PERIOD}\n",
        }
    return sections | {
        "cgroup.memory.limit": f"{promise.memory_bytes}\n",
        "cgroup.memory.memsw": f"{promise.memory_bytes}\n",
        "cgroup.cpu.quota": f"{quota}\n",
        "cgroup.cpu.period": f"{_PERIOD}\n",
    }


def _status(promise: Promise) -> str:
    capabilities = "".join(f"Cap{name}:\t0\n" for name in ("Inh", "Prm", "Eff", "Bnd", "Amb"))
    uid, gid = (" ".join([str(number)] * 4) for number in (promise.uid, promise.gid))
    return (
        f"Name:\tinit\nUmask:\t0022\nUid:\t{uid}\nGid:\t{gid}\nGroups:\t{promise.gid}\n"
        f"{capabilities}NoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t1\n"
    )


def _limits(promise: Promise) -> str:
    heading = f"{'Limit':<25} {'Soft Limit':<20} {'Hard Limit':<20} {'Units':<10}\n"
    rows = (f"{_NAMES[name]:<25} {value:<20} {value:<20} \n" for name, value in promise.rlimits)
    return heading + "".join(rows)


def _mountinfo(promise: Promise) -> Iterator[str]:
    for number, mount in enumerate(sorted(promise.mounts, key=lambda mount: mount.point)):
        yield f"{100 + number} 99 0:{number} {_mount(mount)}"


def _mount(mount: MountPromise) -> str:
    if mount.masked:
        return f"/null {mount.point} ro,relatime - devtmpfs devtmpfs rw"
    access = "ro" if mount.read_only else "rw"
    options = ",".join([access, *sorted(mount.options)])
    fstype = mount.fstype or "ext4"
    specials = [access]
    if mount.size_bytes is not None:
        specials.append(f"size={mount.size_bytes // 1024}k")
    if mount.inodes is not None:
        specials.append(f"nr_inodes={mount.inodes}")
    return f"/ {mount.point} {options} - {fstype} {fstype} {','.join(specials)}"
