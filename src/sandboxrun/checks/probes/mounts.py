"""What is mounted inside, from where, and with which flags."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from sandboxrun.checks.attempt import Attempt
from sandboxrun.checks.judging import listed
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
from sandboxrun.checks.surroundings import Surroundings
from sandboxrun.engine.dialect import CGROUP_V2
from sandboxrun.engine.protocol import EngineKind
from sandboxrun.errors import ProtocolError
from sandboxrun.init.proc import Mount, parse_mountinfo

MOUNTS: Final = Attempt("read", ("/proc/self/mountinfo",))
_ETC: Final = frozenset({"/etc/hostname", "/etc/hosts", "/etc/resolv.conf"})
_PODMAN_ETC: Final = frozenset({"/etc/passwd", "/etc/group"})
_BLOCK: Final = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs"})
"""File systems on a disk: what is mounted of them is the host's."""
_DATA: Final = _BLOCK | {"tmpfs", "overlay"}
_KERNELS: Final = re.compile(r"/(proc|sys|dev)(/|$)")
_SHARED: Final = "shared:"


def mounts_of(seen: Seen) -> tuple[Mount, ...]:
    """Return the mounts inside; none where they could not be read."""
    try:
        return parse_mountinfo(seen(MOUNTS).text)
    except ProtocolError:
        return ()


def _known(judge: Judge) -> Judge:
    """Return a judge that does not trust a list which is missing or cut."""

    def judge_known(attempts: tuple[Attempt, ...], seen: Seen) -> Verdict:
        if not mounts_of(seen) or seen(MOUNTS).cut:
            return opened("the mounts cannot be read")
        return judge(attempts, seen)

    return judge_known


def _described(mounts: Iterable[Mount]) -> str:
    return listed(f"{each.point} ({each.fstype} {each.root})" for each in mounts)


def _root_read_only(_: tuple[Attempt, ...], seen: Seen) -> Verdict:
    root = next((each for each in mounts_of(seen) if each.point == "/"), None)
    if root is None or "ro" not in root.options:
        return opened("the root is writable")
    return held(root.fstype)


def _expected(_: tuple[Attempt, ...], seen: Seen) -> Verdict:
    unexpected = [each for each in mounts_of(seen) if not _is_expected(each, seen.around)]
    return opened(_described(unexpected)) if unexpected else held("only ours and the kernel's")


def _is_expected(mount: Mount, around: Surroundings) -> bool:
    point = mount.point
    if point in {"/", "/.sandboxrun", around.mount_at} | _ETC:
        return True
    if _KERNELS.match(point):
        return mount.fstype not in _BLOCK
    if around.engine.kind is EngineKind.PODMAN and point in _PODMAN_ETC:
        return True
    # A tmpfs shows nothing of the host; it may cover what the image declares a volume.
    return mount.fstype == "tmpfs" and {"nosuid", "nodev"} <= mount.options


def _host_files(_: tuple[Attempt, ...], seen: Seen) -> Verdict:
    wrong = [each for each in mounts_of(seen) if each.fstype in _BLOCK and "ro" not in each.options]
    return opened(_described(wrong)) if wrong else held("none is writable")


def _private(_: tuple[Attempt, ...], seen: Seen) -> Verdict:
    shared = [
        each
        for each in mounts_of(seen)
        if any(field.startswith(_SHARED) for field in each.propagation)
    ]
    return opened(_described(shared)) if shared else held("none is shared")


def _inert(_: tuple[Attempt, ...], seen: Seen) -> Verdict:
    writable = [each for each in mounts_of(seen) if "rw" in each.options and _takes_files(each)]
    wrong = [each for each in writable if not {"nosuid", "nodev"} <= each.options]
    return opened(_described(wrong)) if wrong else held(f"{len(writable)} mounts")


def _takes_files(mount: Mount) -> bool:
    kernels = mount.point.startswith(("/proc/", "/sys/")) or mount.point in {"/", "/dev"}
    return mount.fstype in _DATA and not kernels


def _shared_memory(_: tuple[Attempt, ...], seen: Seen) -> Verdict:
    found = next((each for each in mounts_of(seen) if each.point == "/dev/shm"), None)
    if found is None:
        return not_applicable("there is no /dev/shm")
    missing = {"nosuid", "nodev", "noexec"} - found.options
    return opened(f"without {listed(sorted(missing))}") if missing else held("nosuid,nodev,noexec")


def _cgroups(_: tuple[Attempt, ...], seen: Seen) -> Verdict:
    found = [each for each in mounts_of(seen) if each.fstype in {"cgroup", "cgroup2"}]
    if not found:
        return not_applicable("no cgroup file system is mounted")
    visible = {each.point: each for each in found}
    writable = [each for each in visible.values() if "ro" not in each.options]
    return opened(_described(writable)) if writable else held(f"{len(visible)}, all read-only")


def _covered_by_crun(around: Surroundings) -> bool:
    return around.runtime == "crun"


def writable_cgroup_root(around: Surroundings) -> bool:
    """Tell whether the tmpfs above the controllers cannot be made read-only here."""
    return (
        around.engine.kind is EngineKind.PODMAN
        and around.engine.cgroup_version < CGROUP_V2
        and around.runtime == "crun"
    )


def _probe(
    name: str,
    severity: Severity,
    promise: str,
    judge: Judge,
    excuses: tuple[Excuse, ...] = (),
) -> Probe:
    return Probe(
        id=f"fs.{name}",
        group=Group.FILES,
        severity=severity,
        promise=promise,
        attempts=(MOUNTS,),
        judge=_known(judge),
        excuses=excuses,
    )


MOUNT_PROBES: Final = (
    _probe(
        "rootfs_mounted_ro",
        Severity.HARDENING,
        "The root file system is mounted read-only.",
        _root_read_only,
    ),
    _probe(
        "unexpected_mounts",
        Severity.ESCAPE,
        "Nothing is mounted but the kernel's file systems, ours and the workspace.",
        _expected,
    ),
    _probe(
        "host_file_systems",
        Severity.ESCAPE,
        "No file system on a disk of the host is mounted writable.",
        _host_files,
    ),
    _probe("mount_propagation", Severity.ESCAPE, "No mount is shared with the host.", _private),
    _probe("cgroup_readonly", Severity.ESCAPE, "Every cgroup file system is read-only.", _cgroups),
    _probe(
        "writable_mounts_inert",
        Severity.HARDENING,
        "Where files can be made, neither set-id bits nor devices count.",
        _inert,
        (
            Excuse(
                _covered_by_crun,
                "crun drops a volume's nosuid and nodev; without capabilities and with "
                "no-new-privileges they have no effect",
            ),
        ),
    ),
    _probe("dev_shm_flags", Severity.HARDENING, "/dev/shm is for data only.", _shared_memory),
)
