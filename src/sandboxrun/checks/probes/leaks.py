"""What can be learnt about the host and about others. What stays open is a closed list."""

from __future__ import annotations

import re
from typing import Final

from sandboxrun.checks.attempt import Attempt, Observation
from sandboxrun.checks.judging import hidden, judged_by, listed, lists, nothing_found, reads
from sandboxrun.checks.probe import (
    Excuse,
    Group,
    Judge,
    Probe,
    Seen,
    Severity,
    Verdict,
    held,
    not_applicable,
    opened,
)
from sandboxrun.engine.dialect import dialect_for

_VISIBLE: Final = Attempt("visible", (), 60.0)
_CONTAINER_ID: Final = re.compile(r"[0-9a-f]{12,64}")
_SHARED_KERNEL: Final = "the kernel is shared, and programs cannot do without the file"
_OWN_PROC: Final = frozenset(
    {"mounts", "net", "self", "thread-self", "sysvipc", "sys", "bus", "fs", "irq", "tty", "driver"}
)
"""Of one's own namespaces, or directories that are read-only and looked into by other probes."""
_KNOWN_PROC: Final = frozenset(
    {"cgroups", "cpuinfo", "devices", "execdomains", "filesystems", "kallsyms", "loadavg"}
    | {"meminfo", "misc", "stat", "uptime", "version", "vmstat", "crypto"}
)
"""Facts about the machine that are the same for all its sandboxes, or kept because programs need
them. Documented in docs/threat-model.md."""
_KNOWN_SYS: Final = frozenset(
    {"/sys/devices/system", "/sys/fs/cgroup", "/sys/kernel/mm", "/sys/class/net"}
    | {"/sys/devices/virtual/net", "/sys/devices/virtual/mem", "/sys/devices/virtual/tty"}
    | {"/sys/devices/virtual/vc", "/sys/devices/virtual/vtconsole", "/sys/devices/virtual/misc"}
    | {f"/sys/kernel/{name}" for name in ("address_bits", "cpu_byteorder", "fscaps", "profiling")}
    | {f"/sys/kernel/{name}" for name in ("rcu_expedited", "rcu_normal", "uevent_seqnum", "notes")}
    | {f"/sys/kernel/{name}" for name in ("uevent_helper", "kexec_loaded", "kexec_crash_loaded")}
    | {f"/sys/kernel/{name}" for name in ("kexec_crash_size", "vmcoreinfo", "cgroup", "reboot")}
    | {
        f"/sys/kernel/{kind}_count"
        for kind in ("hardlockup", "softlockup", "oops", "warn", "rcu_stall")
    }
    | {
        f"/sys/devices/{name}"
        for name in ("breakpoint", "cpu", "faux", "kprobe", "msr", "software")
    }
    | {
        f"/sys/devices/{name}"
        for name in ("tracepoint", "uprobe", "isa", "intel_pt", "power", "i915")
    }
)


_BUS: Final = re.compile(r"/sys/devices/(pci[0-9a-f]{4}|LNXSYSTM):[0-9a-f]{2}$")
"""Judged by a probe of its own."""


def shared_cgroup_namespace() -> Excuse:
    """Return the excuse of engines that do not give a cgroup namespace when asked for one."""
    return Excuse(
        lambda around: not dialect_for(around.engine).private_cgroup_namespace,
        "Podman before 5.6 on cgroup v1 ignores the wish for a cgroup namespace",
    )


def _generic_hostname(found: Observation, seen: Seen) -> Verdict:
    name, host = found.text.strip(), seen.around.host
    if host is None:
        return not_applicable("the engine is on another machine")
    return opened(f"{name}, the host's") if name == host.hostname else held(name)


def _no_addresses(found: Observation, _: Seen) -> Verdict:
    shown = [line for line in found.text.splitlines() if not line.startswith("0000000000000000 ")]
    return opened(listed(shown)) if shown else held("all zero")


def _own_cgroup(found: Observation, _: Seen) -> Verdict:
    outside = [line for line in found.text.splitlines() if not line.endswith(":/")]
    return opened(listed(outside)) if outside else held("/")


def _other_cgroups(attempts: tuple[Attempt, ...], seen: Seen) -> Verdict:
    shown = [
        f"{each.arguments[0]}/{name}"
        for each in attempts
        for name in seen(each).text.split()
        if _CONTAINER_ID.search(name) or name in {"docker", "libpod_parent", "machine", "kubepods"}
    ]
    return opened(listed(shown)) if shown else held("none")


def _resolvers(found: Observation, _: Seen) -> Verdict:
    wrong = [
        line
        for line in found.text.splitlines()
        if line.split()[:1] and line.split()[0] in {"nameserver", "search", "domain"}
    ]
    return opened(listed(wrong)) if wrong else held("none named")


def _hosts(found: Observation, seen: Seen) -> Verdict:
    names = {word for line in found.text.splitlines() for word in line.partition("#")[0].split()}
    known = {"127.0.0.1", "::1", "localhost", "ip6-localhost", "ip6-loopback", "sandbox"}
    host = seen.around.host
    own = names - known
    foreign = own & ({host.hostname, *host.addresses} if host is not None else own)
    return opened(listed(sorted(foreign))) if foreign else held(f"{len(names)} words")


def _shown(attempts: tuple[Attempt, ...], seen: Seen) -> Verdict:
    """Judge what nobody hides: it is open wherever it can be read."""
    return hidden(attempts, seen)


def _engine_paths(found: Observation, _: Seen) -> Verdict:
    paths = set(re.findall(r"(?:upperdir|workdir)=([^,:\s]+)", found.text))
    return opened(listed(sorted(paths))) if paths else held("no path of the engine")


def _closed_list(found: Observation, _: Seen) -> Verdict:
    known = _KNOWN_SYS | {f"/proc/{name}" for name in _OWN_PROC | _KNOWN_PROC}
    unknown = [
        line for line in found.text.splitlines() if line not in known and not _BUS.match(line)
    ]
    if unknown or found.cut:
        return opened(listed(unknown))
    return held(f"{found.value} known places")


def _probe(
    name: str,
    promise: str,
    judge: Judge,
    *attempts: Attempt,
    excuses: tuple[Excuse, ...] = (),
    severity: Severity = Severity.LEAK,
) -> Probe:
    return Probe(
        id=f"info.{name}",
        group=Group.LEAKS,
        severity=severity,
        promise=promise,
        attempts=attempts,
        judge=judge,
        excuses=excuses,
    )


def _documented(name: str, promise: str, *attempts: Attempt, reason: str = _SHARED_KERNEL) -> Probe:
    return _probe(name, promise, _shown, *attempts, excuses=(Excuse(lambda _: True, reason),))


_REMOTE: Final = Excuse(lambda around: around.host is None, "the engine is on another machine")
LEAKS: Final = (
    _probe(
        "hostname_generic",
        "The hostname is not the host's.",
        judged_by(_generic_hostname),
        *reads("/proc/sys/kernel/hostname"),
        excuses=(_REMOTE,),
    ),
    _probe(
        "kallsyms",
        "Kernel addresses are hidden.",
        judged_by(_no_addresses),
        *reads("/proc/kallsyms"),
    ),
    _probe(
        "kernel_cmdline",
        "The kernel's command line is hidden.",
        hidden,
        *reads("/proc/cmdline", "/proc/bootconfig"),
    ),
    _probe(
        "kernel_config", "The kernel's configuration is hidden.", hidden, *reads("/proc/config.gz")
    ),
    _probe(
        "diskstats",
        "Disk statistics are hidden.",
        hidden,
        *reads("/proc/diskstats", "/proc/partitions"),
    ),
    _probe(
        "disks",
        "The host's disks are hidden.",
        hidden,
        *lists("/sys/block", "/sys/class/block", "/sys/dev/block", "/sys/devices/virtual/block"),
        *lists("/sys/devices/virtual/bdi"),
    ),
    _probe(
        "file_systems",
        "What the kernel tells of each mounted file system is hidden.",
        hidden,
        *lists(*(f"/sys/fs/{name}" for name in ("ext4", "xfs", "btrfs", "f2fs", "erofs", "fuse"))),
    ),
    _probe(
        "dmi",
        "Maker and serial numbers are hidden.",
        hidden,
        *lists("/sys/devices/virtual/dmi", "/sys/class/dmi/id"),
    ),
    _probe(
        "hardware",
        "The host's devices are hidden.",
        hidden,
        *lists("/sys/bus", "/sys/class", "/sys/devices/virtual", "/sys/devices/platform"),
        *lists("/sys/devices/pnp0", "/sys/hypervisor", "/sys/power"),
    ),
    _probe(
        "buses",
        "The host's devices on its buses are hidden.",
        hidden,
        *lists("/sys/devices/pci0000:00", "/sys/devices/LNXSYSTM:00"),
        excuses=(
            Excuse(
                lambda around: dialect_for(around.engine).masks_by_option,
                "Podman takes masked paths joined by colons, and these have one",
            ),
        ),
    ),
    _probe(
        "modules",
        "The kernel's modules are hidden.",
        hidden,
        *reads("/proc/modules"),
        *lists("/sys/module"),
    ),
    _probe(
        "interrupts",
        "Interrupt counts are hidden in /sys, too.",
        hidden,
        *lists("/sys/kernel/irq"),
    ),
    _probe("locks", "Locks on files of others are hidden.", hidden, *reads("/proc/locks")),
    _probe(
        "pressure",
        "How busy the machine is with others is hidden.",
        hidden,
        *lists("/proc/pressure"),
    ),
    _probe(
        "memory_map",
        "The machine's memory and its allocations are hidden.",
        hidden,
        *reads("/proc/buddyinfo", "/proc/zoneinfo", "/proc/iomem", "/proc/ioports", "/proc/swaps"),
    ),
    _probe(
        "key_users", "Users and their number of keys are hidden.", hidden, *reads("/proc/key-users")
    ),
    _probe(
        "cgroup_path",
        "The path of the cgroup is hidden.",
        judged_by(_own_cgroup),
        *reads("/proc/self/cgroup"),
        excuses=(shared_cgroup_namespace(),),
    ),
    _probe(
        "other_cgroups",
        "No cgroup of another container is visible.",
        _other_cgroups,
        *lists(
            "/sys/fs/cgroup",
            "/sys/fs/cgroup/memory",
            "/sys/fs/cgroup/pids",
            "/sys/fs/cgroup/systemd",
        ),
    ),
    _probe(
        "sysv_ipc",
        "No System V object of others is visible.",
        nothing_found("object"),
        Attempt("sysv"),
    ),
    _probe(
        "message_queues", "No message queue of others is visible.", hidden, *lists("/dev/mqueue")
    ),
    _probe(
        "resolv_conf",
        "No resolver and no search domain of the host.",
        judged_by(_resolvers),
        *reads("/etc/resolv.conf"),
    ),
    _probe(
        "hosts_file",
        "Neither the host's name nor its addresses.",
        judged_by(_hosts),
        *reads("/etc/hosts"),
    ),
    _probe(
        "closed_list",
        "Nothing else of the kernel's is readable than what is documented.",
        judged_by(_closed_list),
        _VISIBLE,
    ),
    _documented("meminfo", "The host's memory is hidden.", *reads("/proc/meminfo", "/proc/vmstat")),
    _documented(
        "cpuinfo",
        "The host's processors are hidden.",
        *reads("/proc/cpuinfo"),
        *lists("/sys/devices/system/cpu"),
    ),
    _documented("loadavg", "The host's load is hidden.", *reads("/proc/loadavg", "/proc/stat")),
    _documented("uptime", "How long the host has run is hidden.", *reads("/proc/uptime")),
    _documented("version", "The kernel's version is hidden.", *reads("/proc/version")),
    _documented(
        "counters",
        "Counters of the whole machine among the kernel's settings are hidden.",
        *reads("/proc/sys/fs/file-nr", "/proc/sys/fs/inode-nr", "/proc/sys/kernel/random/boot_id"),
        *reads("/proc/sys/kernel/pty/nr"),
        reason="runtimes mount /proc/sys read-only above any mask below it",
    ),
    _probe(
        "mountinfo_paths",
        "The engine's directories do not show in the list of mounts.",
        judged_by(_engine_paths),
        *reads("/proc/self/mountinfo"),
        excuses=(
            Excuse(lambda _: True, "overlayfs shows where its layers are; they cannot be reached"),
        ),
    ),
)
