"""Files, devices and descriptors: what is there, and what can be made."""

from __future__ import annotations

import posixpath
from typing import Final

from sandboxrun.checks.attempt import Attempt, Observation
from sandboxrun.checks.judging import failed, judged_by, listed, lists, refused
from sandboxrun.checks.probe import (
    Attempts,
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
from sandboxrun.checks.probes.mounts import writable_cgroup_root
from sandboxrun.checks.probes.privileges import STATUS, status_of
from sandboxrun.checks.surroundings import Surroundings

WALK: Final = Attempt("walk", (), 180.0)
_DESCRIPTORS: Final = Attempt("descriptors")
_OFFERED: Final = ("/tmp", "/dev/shm", "/dev/mqueue")
"""Where a command may leave files besides the workspace."""
_DEVICES: Final = frozenset(
    {"full", "null", "random", "tty", "urandom", "zero"}
    | {"core", "fd", "ptmx", "stderr", "stdin", "stdout"}
    | {"mqueue", "pts", "shm", "console"}
)
_NODES: Final = frozenset({"1:3", "1:5", "1:7", "1:8", "1:9", "5:0", "5:2"})
"""null, zero, full, random, urandom, tty and ptmx: major and minor."""
_STANDARD: Final = frozenset({"0", "1", "2"})
_SYSTEM: Final = (
    "/",
    "/bin",
    "/etc",
    "/lib",
    "/opt",
    "/root",
    "/sbin",
    "/srv",
    "/usr",
    "/usr/bin",
    "/usr/local",
    "/var",
    "/var/lib",
    "/var/log",
    "/home",
    "/boot",
    "/mnt",
    "/.sandboxrun",
)
_DISKS: Final = (("b", "8", "0"), ("b", "254", "0"), ("b", "259", "0"), ("c", "1", "1"))
"""sda, vda, nvme0n1, and the memory of the machine."""
_ENGINE_SOCKETS: Final = tuple(
    posixpath.join(directory, name)
    for directory in ("/run", "/var/run")
    for name in (
        "docker.sock",
        "podman/podman.sock",
        "containerd/containerd.sock",
        "crio/crio.sock",
        "dbus/system_bus_socket",
        "systemd/private",
    )
)


def rows_of(found: Observation, *kinds: str) -> list[list[str]]:
    """Return what a walk found of some kinds: kind, path, mode, uid, device."""
    rows = [line.split("\t") for line in found.text.splitlines()]
    return [row for row in rows if row[0] in kinds]


def below(path: str, *directories: str) -> bool:
    """Tell whether ``path`` is one of ``directories`` or below it."""
    return any(path == each or path.startswith(f"{each}/") for each in directories)


def walked(*kinds: str, what: str) -> Judge:
    """Return a judge that finds nothing of these kinds outside the workspace right."""

    def judge(found: Observation, seen: Seen) -> Verdict:
        own = seen.around.mount_at
        wrong = [row[1] for row in rows_of(found, *kinds) if not below(row[1], own)]
        if found.cut:
            return opened("there is more than can be told")
        return opened(listed(wrong)) if wrong else held(f"no {what}")

    return judged_by(judge)


def _writable(found: Observation, seen: Seen) -> Verdict:
    rows = rows_of(found, "writable-directory", "writable-file")
    wrong = [row[1] for row in rows if not below(row[1], *_OFFERED, seen.around.mount_at)]
    return opened(listed(wrong)) if wrong else held("only what is offered for it")


def _devices(found: Observation, _: Seen) -> Verdict:
    wrong = [
        f"{row[1]} ({row[4]})"
        for row in rows_of(found, "block", "character")
        if row[0] == "block" or (row[4] not in _NODES and not below(row[1], "/dev/pts"))
    ]
    return opened(listed(wrong)) if wrong else held("only harmless ones")


def _device_names(found: Observation, _: Seen) -> Verdict:
    names = set(found.text.split())
    more = sorted(names - _DEVICES)
    return opened(listed(more)) if more else held(f"{len(names)} known names")


def _set_id(attempts: tuple[Attempt, ...], seen: Seen) -> Verdict:
    rows = [row[1] for row in rows_of(seen(attempts[0]), "setid", "capability")]
    if rows and status_of(seen).get("NoNewPrivs") != "1":
        return opened(listed(rows))
    return held(f"{len(rows)} programs, none with an effect")


def _descriptors(found: Observation, _: Seen) -> Verdict:
    rows = [line.split(" ", 2) for line in found.text.splitlines()]
    wrong = [
        " ".join(row) for row in rows if row[0] not in _STANDARD or row[1] not in {"pipe", "socket"}
    ]
    return opened(listed(wrong)) if wrong or not rows else held("0, 1 and 2, all pipes")


def _no_way_back(found: Observation, _: Seen) -> Verdict:
    rows = [line.split(" ", 2) for line in found.text.splitlines()]
    wrong = [" ".join(row) for row in rows if row[1] in {"directory", "file", "device"}]
    return opened(listed(wrong)) if wrong else held("none")


def _inside(found: Observation, seen: Seen) -> Verdict:
    where = found.text
    return held(where) if below(where, seen.around.mount_at) else opened(where or "nowhere")


def _counted(found: Observation, _: Seen) -> Verdict:
    return opened(listed(found.text.splitlines())) if found.value else held("none")


def _host_paths(around: Surroundings) -> tuple[Attempt, ...]:
    if around.canaries is None:
        return ()
    paths = [around.canaries.file, around.canaries.directory, around.state_dir, around.checkout]
    paths.append(around.engine.url.removeprefix("unix://"))
    return tuple(Attempt("stat", (path,)) for path in paths if path.startswith("/"))


def _absent(attempts: tuple[Attempt, ...], seen: Seen) -> Verdict:
    if not attempts:
        return not_applicable("the engine is on another machine, where no canary is")
    return failed(attempts, seen)


def _cgroup_root(attempts: tuple[Attempt, ...], seen: Seen) -> Verdict:
    return failed(attempts, seen)


def _probe(
    name: str,
    severity: Severity,
    promise: str,
    judge: Judge,
    attempts: tuple[Attempt, ...] | Attempts,
    excuses: tuple[Excuse, ...] = (),
) -> Probe:
    return Probe(
        id=f"fs.{name}",
        group=Group.FILES,
        severity=severity,
        promise=promise,
        attempts=attempts,
        judge=judge,
        excuses=excuses,
    )


_REMOTE: Final = Excuse(
    lambda around: around.host is None, "the engine is on another machine, where no canary is"
)
_CGROUP_ROOT: Final = Excuse(
    writable_cgroup_root,
    "crun on cgroup v1 leaves the tmpfs above the controllers writable, and Podman cannot be told "
    "to mount it read-only; it holds 1 MiB, counts as memory, and goes with the container",
)
_E, _D, _H, _L = Severity.ESCAPE, Severity.DOS, Severity.HARDENING, Severity.LEAK
FILES: Final = (
    _probe(
        "system_dirs_unwritable",
        _H,
        "No file can be made in a system directory.",
        failed,
        tuple(Attempt("create", (each,)) for each in _SYSTEM),
    ),
    _probe(
        "writable_places",
        _D,
        "Files can be made in the workspace, /tmp, /dev/shm and /dev/mqueue, and nowhere else.",
        judged_by(_writable),
        (WALK,),
    ),
    _probe(
        "cgroup_tmpfs",
        _D,
        "No file can be made beside the cgroup controllers, nor a cgroup.",
        _cgroup_root,
        tuple(
            Attempt(verb, (path,))
            for verb in ("create", "mkdir")
            for path in ("/sys/fs/cgroup", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/pids")
        ),
        (_CGROUP_ROOT,),
    ),
    _probe("dev_nodes", _E, "Only harmless device nodes exist.", judged_by(_devices), (WALK,)),
    _probe(
        "dev_contents",
        _E,
        "/dev holds only what is known.",
        judged_by(_device_names),
        lists("/dev"),
    ),
    _probe(
        "dev_unwritable",
        _D,
        "No file can be made in /dev.",
        failed,
        (Attempt("create", ("/dev",)),),
    ),
    _probe(
        "mknod",
        _E,
        "No node of a disk or of the machine's memory can be made and opened.",
        failed,
        tuple(
            Attempt("mknod", (directory, *disk))
            for directory in ("/tmp", "/dev/shm", ".")
            for disk in _DISKS
        ),
    ),
    _probe(
        "suid_ineffective",
        _H,
        "No set-id program and no file capability raises privileges.",
        _set_id,
        (WALK, STATUS),
    ),
    _probe(
        "file_capabilities",
        _H,
        "No file can be given capabilities.",
        refused,
        (Attempt("capability", (".",)), Attempt("capability", ("/tmp",))),
    ),
    _probe(
        "chown",
        _H,
        "No file can be given to root.",
        refused,
        (Attempt("chown", (".", "0")), Attempt("chown", ("/tmp", "0"))),
    ),
    _probe(
        "overlay_attributes",
        _E,
        "Nobody inside can write the attributes overlayfs is steered by.",
        failed,
        (
            Attempt("xattr", (".", "trusted.overlay.redirect")),
            Attempt("xattr", (".", "trusted.overlay.opaque")),
        ),
    ),
    _probe(
        "dotdot_root",
        _E,
        "'..' does not lead above the root.",
        judged_by(_counted),
        (Attempt("above"),),
    ),
    _probe(
        "leaked_descriptors",
        _E,
        "No descriptor is inherited but three pipes (CVE-2024-21626).",
        judged_by(_descriptors),
        (_DESCRIPTORS,),
    ),
    _probe(
        "descriptors_lead_out",
        _E,
        "No inherited descriptor is a file or a directory.",
        judged_by(_no_way_back),
        (_DESCRIPTORS,),
    ),
    _probe(
        "cwd_inside",
        _E,
        "The working directory is in the workspace.",
        judged_by(_inside),
        (Attempt("cwd"),),
    ),
    _probe(
        "init_unwritable",
        _E,
        "Neither the init's program nor a runtime's can be opened for writing (CVE-2019-5736).",
        failed,
        (
            Attempt("open", ("/proc/1/exe", "w")),
            Attempt("open", ("/.sandboxrun/sandboxrun-init", "w")),
            Attempt("open", ("/.sandboxrun/seccomp.json", "w")),
            Attempt("create", ("/.sandboxrun/etc",)),
        ),
    ),
    _probe(
        "immutable_etc",
        _H,
        "The files mounted over /etc cannot be written.",
        failed,
        tuple(
            Attempt("open", (f"/etc/{name}", "w"))
            for name in ("hostname", "hosts", "resolv.conf", "passwd", "group", "shadow")
        ),
    ),
    _probe(
        "engine_sockets",
        _E,
        "No socket of an engine or of the system's bus is at its usual place.",
        failed,
        tuple(Attempt("unix", (path,)) for path in _ENGINE_SOCKETS),
    ),
    _probe(
        "unix_sockets",
        _E,
        "No unix socket is in the file system.",
        walked("socket", what="socket"),
        (WALK,),
    ),
    _probe(
        "host_paths",
        _E,
        "Canary files, the state directory, the checkout and the engine's socket are not there.",
        _absent,
        _host_paths,
        (_REMOTE,),
    ),
)
