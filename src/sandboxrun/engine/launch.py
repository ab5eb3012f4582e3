"""Start one daemon in a mount namespace of its own; run as ``python -I -m sandboxrun.engine.launch``.

Arguments: the record to write, the log to append to, a directory to mark the namespace at, the
directories to hide, ``--`` and the daemon's argv. The daemon is its own session and nobody's child, so it outlives whoever asked for
it. Its namespace shows it the cgroup file systems an OCI runtime can use, whatever the machine
has mounted: crun refuses a hybrid of both versions, and a machine without an init system may have
none. Exits with 0 once the daemon's program has been executed, with 1 and a reason otherwise.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import secrets
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NoReturn

from sandboxrun.engine.daemon_record import this_process

_CLONE_NEWNS: Final = 0x0002_0000
_MS_NOSUID: Final = 2
_MS_NODEV: Final = 4
_MS_NOEXEC: Final = 8
_MS_REC: Final = 0x4000
_MS_SLAVE: Final = 0x8_0000
_MNT_DETACH: Final = 2
_INERT: Final = _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
_CGROUPS: Final = "/sys/fs/cgroup"
_UNIFIED: Final = "/sys/fs/cgroup/unified"
_NEEDED: Final = frozenset({"cpu", "memory", "pids"})


def main(arguments: Sequence[str]) -> int:
    """Start the daemon and return the exit status."""
    separator = arguments.index("--")
    record, log, marked, *hidden = arguments[:separator]
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.close(reader)
        _become(arguments[separator + 1 :], Path(record), Path(log), (marked, *hidden), writer)
    os.close(writer)
    with os.fdopen(reader, "r") as fault:
        reason = fault.read()
    if reason:
        sys.stderr.write(reason)
        return 1
    return 0


def _become(
    argv: Sequence[str], record: Path, log: Path, covered: Sequence[str], fault: int
) -> NoReturn:
    try:
        os.setsid()
        # Forked once more, it is no session leader and can never acquire a terminal.
        if os.fork() != 0:
            os._exit(0)
        os.set_inheritable(fault, False)  # noqa: FBT003 - the os module's own signature
        mark = f"sandboxrun-{secrets.token_hex(16)}"
        _enter_namespace(covered, mark)
        _redirect(log)
        _raise_open_files()
        record.write_text(json.dumps(this_process(mark).as_json()))
        os.execv(argv[0], list(argv))  # noqa: S606 - an argv, no shell
    except OSError as error:
        os.write(fault, f"{argv[0]}: {error}".encode())
    os._exit(1)


def _redirect(log: Path) -> None:
    target = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(target, 1)
    os.dup2(target, 2)


def _raise_open_files() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _enter_namespace(covered: Sequence[str], mark: str) -> None:
    kernel = _Kernel()
    kernel.unshare_mounts()
    # Slave, not private: what the host unmounts later is unmounted here as well.
    kernel.mount("none", "/", None, _MS_REC | _MS_SLAVE)
    _provide_cgroups(kernel)
    for path in covered:
        Path(path).mkdir(parents=True, exist_ok=True)
        kernel.mount(mark, path, "tmpfs", _INERT, "mode=0711")


def _provide_cgroups(kernel: _Kernel) -> None:
    mounted = cgroup_mounts(Path("/proc/self/mountinfo").read_text())
    if "cgroup" in mounted.values():
        if mounted.get(_UNIFIED) == "cgroup2":
            kernel.unmount(_UNIFIED)
    elif not mounted:
        _mount_cgroups(kernel)


def cgroup_mounts(mountinfo: str) -> dict[str, str]:
    """Return mount point and type of the cgroup file systems below /sys/fs/cgroup."""
    found = {}
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        point, fstype = before.split(" ")[4], after.split(" ", 1)[0]
        if fstype in {"cgroup", "cgroup2"} and f"{point}/".startswith(f"{_CGROUPS}/"):
            found[point] = fstype
    return found


def _mount_cgroups(kernel: _Kernel) -> None:
    kernel.mount("cgroup2", _CGROUPS, "cgroup2", _INERT)
    if set(Path(_CGROUPS, "cgroup.controllers").read_text().split()) >= _NEEDED:
        return
    # The controllers belong to version 1 on this machine.
    kernel.unmount(_CGROUPS)
    kernel.mount("cgroup", _CGROUPS, "tmpfs", _INERT, "mode=755")
    for name in controllers(Path("/proc/cgroups").read_text()):
        directory = Path(_CGROUPS, name)
        directory.mkdir()
        kernel.mount("cgroup", str(directory), "cgroup", _INERT, name)


def controllers(proc_cgroups: str) -> list[str]:
    """Return the enabled controllers in /proc/cgroups."""
    rows = [line.split() for line in proc_cgroups.splitlines() if not line.startswith("#")]
    return [name for name, _, _, enabled in rows if enabled == "1"]


class _Kernel:
    """The three system calls Python does not have."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)

    def unshare_mounts(self) -> None:
        self._check("unshare", self._libc.unshare(_CLONE_NEWNS))

    def mount(
        self, source: str, target: str, fstype: str | None, flags: int, options: str = ""
    ) -> None:
        kind = None if fstype is None else fstype.encode()
        result = self._libc.mount(
            source.encode(), target.encode(), kind, ctypes.c_ulong(flags), options.encode()
        )
        self._check(f"mount {target}", result)

    def unmount(self, target: str) -> None:
        self._check(f"umount {target}", self._libc.umount2(target.encode(), _MNT_DETACH))

    @staticmethod
    def _check(what: str, result: int) -> None:
        if result != 0:
            code = ctypes.get_errno()
            raise OSError(code, f"{what}: {os.strerror(code)}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
