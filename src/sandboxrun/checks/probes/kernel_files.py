"""/proc and /sys: what steers the kernel cannot be written, what tells of the host is hidden."""

from __future__ import annotations

from typing import Final

from sandboxrun.checks.attempt import Attempt
from sandboxrun.checks.judging import hidden, lists, opens, reads, unopened
from sandboxrun.checks.probe import Group, Judge, Probe, Severity

_KERNEL: Final = "/proc/sys/kernel"


def _probe(name: str, severity: Severity, promise: str, judge: Judge, *attempts: Attempt) -> Probe:
    return Probe(
        id=f"fs.{name}",
        group=Group.FILES,
        severity=severity,
        promise=promise,
        attempts=attempts,
        judge=judge,
    )


def _unwritable(name: str, promise: str, *paths: str) -> Probe:
    return _probe(name, Severity.ESCAPE, promise, unopened, *opens("w", *paths))


_E, _L = Severity.ESCAPE, Severity.LEAK
KERNEL_FILES: Final = (
    _unwritable(
        "core_pattern", "The handler of core dumps cannot be set.", f"{_KERNEL}/core_pattern"
    ),
    _unwritable(
        "kernel_programs",
        "No program the kernel runs can be named.",
        f"{_KERNEL}/modprobe",
        f"{_KERNEL}/hotplug",
        f"{_KERNEL}/poweroff_cmd",
        "/sys/kernel/uevent_helper",
        "/proc/sys/kernel/usermodehelper/bset",
    ),
    _unwritable(
        "sysctl",
        "No setting of the kernel can be written.",
        "/proc/sys/vm/overcommit_memory",
        "/proc/sys/vm/drop_caches",
        "/proc/sys/vm/panic_on_oom",
        "/proc/sys/fs/file-max",
        "/proc/sys/fs/protected_symlinks",
        "/proc/sys/fs/suid_dumpable",
        f"{_KERNEL}/panic",
        f"{_KERNEL}/randomize_va_space",
        f"{_KERNEL}/unprivileged_bpf_disabled",
        f"{_KERNEL}/kptr_restrict",
        f"{_KERNEL}/dmesg_restrict",
        f"{_KERNEL}/pid_max",
        f"{_KERNEL}/threads-max",
        f"{_KERNEL}/yama/ptrace_scope",
        f"{_KERNEL}/ns_last_pid",
        "/proc/sys/user/max_user_namespaces",
    ),
    _unwritable(
        "sysctl_own",
        "Nor a setting of a namespace of one's own.",
        "/proc/sys/net/ipv4/ip_forward",
        "/proc/sys/net/core/somaxconn",
        f"{_KERNEL}/hostname",
        f"{_KERNEL}/shmmax",
        f"{_KERNEL}/sem",
        "/proc/sys/fs/mqueue/queues_max",
    ),
    _unwritable("sysrq", "The kernel's emergency keys are out of reach.", "/proc/sysrq-trigger"),
    _unwritable(
        "binfmt_misc",
        "No interpreter can be registered.",
        "/proc/sys/fs/binfmt_misc/register",
        "/proc/sys/fs/binfmt_misc/status",
    ),
    _unwritable(
        "proc_hardware",
        "Interrupts, buses and memory types cannot be set.",
        "/proc/irq/default_smp_affinity",
        "/proc/mtrr",
        "/proc/bus/pci/00/00.0",
        "/proc/acpi/wakeup",
        "/proc/scsi/scsi",
    ),
    _unwritable(
        "timer",
        "No statistics of timers can be started.",
        "/proc/timer_stats",
        "/proc/latency_stats",
    ),
    _unwritable(
        "sys_tunables",
        "Nothing in /sys can be written.",
        "/sys/kernel/mm/transparent_hugepage/enabled",
        "/sys/kernel/mm/ksm/run",
        "/sys/kernel/profiling",
        "/sys/kernel/kexec_crash_size",
        "/sys/power/state",
        "/sys/power/mem_sleep",
        "/sys/module/kernel/parameters/panic",
        "/sys/devices/system/cpu/cpu1/online",
        "/sys/class/net/lo/mtu",
        "/sys/bus/pci/rescan",
        "/sys/kernel/security/apparmor/profiles",
    ),
    _unwritable(
        "cgroup_release_agent",
        "No program runs when a cgroup empties (CVE-2022-0492).",
        "/sys/fs/cgroup/release_agent",
        "/sys/fs/cgroup/memory/release_agent",
        "/sys/fs/cgroup/devices/release_agent",
        "/sys/fs/cgroup/memory/notify_on_release",
        "/sys/fs/cgroup/cpu/release_agent",
    ),
    _unwritable(
        "cgroup_limits",
        "No limit of the cgroup can be written.",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/pids/pids.max",
        "/sys/fs/cgroup/devices/devices.allow",
        "/sys/fs/cgroup/cpu/cpu.cfs_quota_us",
        "/sys/fs/cgroup/memory/cgroup.procs",
        "/sys/fs/cgroup/freezer/freezer.state",
        "/sys/fs/cgroup/memory.max",
        "/sys/fs/cgroup/pids.max",
        "/sys/fs/cgroup/cpu.max",
        "/sys/fs/cgroup/cgroup.procs",
        "/sys/fs/cgroup/cgroup.subtree_control",
        "/sys/fs/cgroup/cgroup.kill",
        "/sys/fs/cgroup/cgroup.freeze",
    ),
    _probe(
        "kernel_memory",
        _E,
        "The machine's memory is out of reach.",
        unopened,
        *opens("r", "/proc/kcore", "/dev/mem", "/dev/kmem", "/dev/port", "/proc/kpagecount"),
        *opens("r", "/proc/kpageflags", "/proc/kpagecgroup", "/proc/page_owner"),
    ),
    _probe(
        "kernel_log",
        _L,
        "The kernel's log is out of reach.",
        unopened,
        *opens("r", "/proc/kmsg", "/dev/kmsg"),
    ),
    _probe("proc_keys", _L, "The kernel's keys are hidden.", hidden, *reads("/proc/keys")),
    _probe(
        "proc_timer_list", _L, "The list of timers is hidden.", hidden, *reads("/proc/timer_list")
    ),
    _probe(
        "proc_sched",
        _L,
        "The scheduler's statistics are hidden.",
        hidden,
        *reads("/proc/sched_debug", "/proc/schedstat"),
        *lists("/sys/kernel/debug/sched"),
    ),
    _probe(
        "proc_devices",
        _L,
        "Hardware listings are hidden.",
        hidden,
        *lists("/proc/scsi", "/proc/acpi", "/proc/asound"),
    ),
    _probe(
        "proc_interrupts",
        _L,
        "Interrupt counts, which time keystrokes, are hidden.",
        hidden,
        *reads("/proc/interrupts", "/proc/softirqs"),
    ),
    _probe(
        "sys_sensors",
        _L,
        "Power and heat, which betray what others compute, are hidden.",
        hidden,
        *lists("/sys/devices/virtual/powercap", "/sys/class/powercap/intel-rapl:0"),
        *lists("/sys/devices/system/cpu/cpu0/thermal_throttle"),
    ),
    _probe(
        "debugfs",
        _L,
        "Neither debugfs nor tracefs shows anything.",
        hidden,
        *lists("/sys/kernel/debug", "/sys/kernel/tracing", "/sys/kernel/debug/tracing"),
    ),
    _probe("firmware", _L, "The firmware's tables are hidden.", hidden, *lists("/sys/firmware")),
    _probe(
        "security_fs",
        _L,
        "The security modules' files are hidden.",
        hidden,
        *lists("/sys/kernel/security", "/sys/fs/selinux", "/sys/fs/bpf", "/sys/fs/pstore"),
    ),
    _probe(
        "slab",
        _L,
        "The kernel's allocations, and its map of memory, are hidden.",
        hidden,
        *reads("/proc/slabinfo", "/proc/vmallocinfo", "/proc/pagetypeinfo"),
    ),
)
