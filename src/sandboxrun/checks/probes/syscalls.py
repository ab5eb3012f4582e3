"""System calls that are refused, whichever entry they are made through."""

from __future__ import annotations

from typing import Final

from sandboxrun.checks.attempt import Attempt
from sandboxrun.checks.judging import calls, listed, refused
from sandboxrun.checks.probe import Excuse, Group, Probe, Seen, Severity, Verdict, held, opened
from sandboxrun.checks.surroundings import Surroundings

_NAMESPACES: Final = ("user", "mnt", "net", "pid", "uts", "ipc", "cgroup", "time")


def _foreign(around: Surroundings) -> bool:
    return around.engine.architecture not in {"x86_64", "amd64"}


_NO_FOREIGN_ENTRY: Final = (Excuse(_foreign, "this machine has no 32-bit or x32 entry"),)


def _unanswered(attempts: tuple[Attempt, ...], seen: Seen) -> Verdict:
    """Another ABI is shut when its simplest call does not even answer."""
    answered = [f"{each}: {seen(each)}" for each in attempts if not seen(each).refused]
    return opened(listed(answered)) if answered else held(str(seen(attempts[0])))


def _call(name: str, severity: Severity, promise: str, *names: str) -> Probe:
    return Probe(
        id=f"sys.{name}",
        group=Group.SYSCALLS,
        severity=severity,
        promise=promise,
        attempts=calls(*(names or (name,))),
        judge=refused,
    )


def _probe(name: str, severity: Severity, promise: str, *attempts: Attempt) -> Probe:
    return Probe(
        id=f"sys.{name}",
        group=Group.SYSCALLS,
        severity=severity,
        promise=promise,
        attempts=attempts,
        judge=refused,
    )


def _entry(name: str, severity: Severity, promise: str, *attempts: Attempt) -> Probe:
    return Probe(
        id=f"sys.{name}",
        group=Group.SYSCALLS,
        severity=severity,
        promise=promise,
        attempts=attempts,
        judge=_unanswered,
        excuses=_NO_FOREIGN_ENTRY,
    )


_E, _S, _L, _D = Severity.ESCAPE, Severity.SURFACE, Severity.LEAK, Severity.DOS

SYSCALLS: Final = (
    _probe(
        "mount",
        _E,
        "No file system can be mounted.",
        Attempt("mount", ("/tmp", "tmpfs")),
        Attempt("mount", ("/tmp", "proc")),
        Attempt("mount", ("/tmp", "cgroup")),
        *calls("mount"),
    ),
    _probe("remount", _E, "No mount can be made writable.", Attempt("remount", ("/",))),
    _call("umount", _E, "Nothing can be unmounted, so nothing hidden comes to light.", "umount2"),
    _call("pivot_root", _E, "The root cannot be changed.", "pivot_root", "chroot"),
    _call(
        "fsopen",
        _E,
        "The newer mount calls are refused.",
        "fsopen",
        "fsconfig",
        "fsmount",
        "fspick",
    ),
    _call("open_tree", _E, "Mounts cannot be cloned or moved.", "open_tree", "move_mount"),
    _call("mount_setattr", _E, "Mount options cannot be changed.", "mount_setattr"),
    _call(
        "listmount",
        _L,
        "Mounts cannot be enumerated by the kernel's ids.",
        "listmount",
        "statmount",
    ),
    _probe(
        "unshare",
        _S,
        "No new namespace can be entered by unshare.",
        *calls("unshare_none"),
        *(Attempt("unshare", (kind,)) for kind in _NAMESPACES),
    ),
    _probe(
        "clone_namespaces",
        _S,
        "No process can be made in a new namespace.",
        *(Attempt("clone", (kind,)) for kind in _NAMESPACES if kind != "time"),
    ),
    _probe(
        "clone3",
        _S,
        "clone3, whose flags no filter can see, is refused.",
        *calls("clone3_plain"),
        *(Attempt("clone3", (kind,)) for kind in ("user", "mnt", "net")),
    ),
    _probe(
        "setns",
        _E,
        "No namespace can be joined.",
        *(Attempt("setns", (f"/proc/self/ns/{kind}",)) for kind in ("net", "mnt", "pid", "user")),
    ),
    _call("bpf", _S, "No program and no map for the kernel.", "bpf", "bpf_map"),
    _probe("perf_event_open", _S, "No performance events.", Attempt("perf")),
    _call("userfaultfd", _S, "No handling of page faults."),
    _call("io_uring", _S, "No io_uring.", "io_uring_setup", "io_uring_enter", "io_uring_register"),
    _call("aio", _D, "No kernel AIO, whose slots are a budget of the whole host.", "io_setup"),
    _call(
        "keys",
        _L,
        "No keys of the kernel: keyrings know no containers.",
        "add_key",
        "request_key",
        "keyctl",
        "keyctl_join",
        "keyctl_persistent",
    ),
    _probe(
        "open_by_handle_at",
        _E,
        "No file by its handle, which leads out of a bind mount.",
        Attempt("handle", ("/etc/hosts",)),
        Attempt("handle", ("/.sandboxrun",)),
        *calls("name_to_handle_at"),
    ),
    _call("kexec", _E, "No other kernel.", "kexec_load", "kexec_file_load"),
    _call(
        "modules",
        _E,
        "No kernel modules.",
        "init_module",
        "finit_module",
        "delete_module",
        "create_module",
    ),
    _call("reboot", _E, "No reboot."),
    _call("swap", _E, "No swap files.", "swapon", "swapoff"),
    _call("clock", _E, "No clock can be set.", "settimeofday", "clock_settime", "clock_adjtime"),
    _call("names", _E, "Neither host nor domain name can be set.", "sethostname", "setdomainname"),
    _call("acct", _E, "No process accounting."),
    _call("quotactl", _S, "No quotas.", "quotactl"),
    _call("syslog", _L, "No kernel log.", "syslog"),
    _call("fanotify", _L, "No fanotify, which sees other mounts' files.", "fanotify_init"),
    _call("kcmp", _L, "No comparison of kernel objects.", "kcmp"),
    _call("lookup_dcookie", _L, "No paths by cookie.", "lookup_dcookie"),
    _call("pidfd_getfd", _E, "No descriptor can be taken from another process.", "pidfd_getfd"),
    _call("process_vm_writev", _E, "No writing into another process.", "process_vm_writev"),
    _call(
        "process_madvise",
        _D,
        "No memory advice for others, and no hurrying of their end.",
        "process_madvise",
        "process_mrelease",
    ),
    _call(
        "memory_policy",
        _S,
        "No placing of memory on nodes.",
        "mbind",
        "set_mempolicy",
        "get_mempolicy",
        "migrate_pages",
        "move_pages",
        "set_mempolicy_home_node",
    ),
    _call("memfd_secret", _S, "No memory that the kernel itself cannot see.", "memfd_secret"),
    _probe(
        "personality",
        _S,
        "No other personality, so no fixed addresses.",
        *calls("personality"),
        Attempt("wide", ("personality",)),
    ),
    _call(
        "obsolete",
        _S,
        "No obsolete calls.",
        "nfsservctl",
        "remap_file_pages",
        "uselib",
        "ustat",
        "sysfs",
        "_sysctl",
    ),
    _call("modify_ldt", _S, "No segments of one's own.", "modify_ldt"),
    _call("ports", _E, "No I/O ports.", "iopl", "ioperm"),
    _call("vhangup", _D, "No hanging up of terminals.", "vhangup"),
    _probe("realtime", _D, "No real-time scheduling.", Attempt("realtime")),
    _probe(
        "af_alg",
        _E,
        "No kernel crypto sockets (CVE-2026-31431).",
        Attempt("socket", ("38", "5", "0")),
        Attempt("wide", ("alg",)),
    ),
    _probe(
        "vsock",
        _E,
        "No sockets to the hypervisor.",
        Attempt("socket", ("40", "1", "0")),
        Attempt("socket", ("40", "2", "0")),
        Attempt("wide", ("vsock",)),
    ),
    _probe(
        "mptcp",
        _S,
        "No MPTCP, also not with bits above the 32 the kernel looks at.",
        Attempt("socket", ("2", "1", "262")),
        Attempt("socket", ("10", "1", "262")),
        Attempt("wide", ("mptcp",)),
    ),
    _entry("ia32", _S, "The 32-bit entry is shut.", Attempt("int80")),
    _entry(
        "ia32_sockets",
        _E,
        "No AF_ALG and no AF_VSOCK through the 32-bit entry.",
        Attempt("int80-socket", ("38", "5")),
        Attempt("int80-socketcall", ("38", "5")),
        Attempt("int80-socketcall", ("40", "1")),
    ),
    _entry("x32", _S, "The x32 entry is shut.", Attempt("x32")),
)
