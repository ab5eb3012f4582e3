"""Runs in a broken container, as root with its capabilities: plants there what must not be there.

Then it becomes the program it is given, with the same standard input, or, as `--parent`, stays its
parent: then it is a PID 1 that signals end.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import pty
import shutil
import subprocess
import sys
import termios
from pathlib import Path

LIBC = ctypes.CDLL(None, use_errno=True)
MS_REMOUNT, MS_BIND, MS_REC, MS_SHARED = 32, 4096, 16384, 1 << 20
PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE = 47, 2
CAP_NET_RAW = 13
KEEP = 10
"""A descriptor no shell uses."""


def mount(source: str, target: str, fstype: str | None, flags: int, data: str = "") -> None:
    kind = None if fstype is None else fstype.encode()
    if LIBC.mount(source.encode(), target.encode(), kind, ctypes.c_ulong(flags), data.encode()):
        sys.stderr.write(f"mount {target}: {os.strerror(ctypes.get_errno())}\n")


def plant_files(token: str) -> None:
    Path("/root/.ssh").mkdir(exist_ok=True)
    Path("/root/.ssh/id_rsa").write_text(token)
    Path("/run/secrets").mkdir(parents=True, exist_ok=True)
    Path("/run/secrets/password").write_text("x")
    Path("/.sandboxrun/etc").mkdir(parents=True, exist_ok=True)
    Path("/.sandboxrun/sandboxrun-init").write_text("")
    program = Path("/usr/local/bin/raises")
    shutil.copy("/bin/true", program)
    program.chmod(0o4755)
    os.mknod("/dev/unknown", 0o60666, os.makedev(7, 99))
    Path("/dev/mqueue/of-others").touch()
    LIBC.shmget(7, 4096, 0o1600)


def plant_mounts() -> None:
    mount("debugfs", "/sys/kernel/debug", "debugfs", 0)
    mount("securityfs", "/sys/kernel/security", "securityfs", 0)
    mount("", "/sys", None, MS_REMOUNT)
    mount("", "/sys", None, MS_REMOUNT | MS_BIND)
    mount("", "/dev/shm", None, MS_REMOUNT | MS_BIND)
    mount("memory", "/mnt", "cgroup", 0, "memory")
    mount("/mnt", "/sys/fs/cgroup/memory", None, MS_BIND)
    mount("", "/", None, MS_REC | MS_SHARED)


def raise_capabilities() -> None:
    """Put one capability into the inheritable and ambient sets."""
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    data = (ctypes.c_uint32 * 6)()
    LIBC.capget(header, data)
    data[2] |= 1 << CAP_NET_RAW
    LIBC.capset(header, data)
    LIBC.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_NET_RAW, 0, 0)


def take_terminal() -> None:
    """Make a new terminal the controlling one, and standard error."""
    other_end, terminal = pty.openpty()
    os.set_inheritable(other_end, True)  # noqa: FBT003 - the os module's own signature
    if os.getpid() == os.getsid(0) or os.fork() == 0:
        if os.getpid() != os.getsid(0):
            os.setsid()
        fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
        os.dup2(terminal, 2)
        return
    os.wait()
    sys.exit(0)


def main() -> int:
    token, program, *options = sys.argv[1:]
    if "--parent" in options:
        return subprocess.run([program], check=False).returncode
    plant_files(token)
    plant_mounts()
    raise_capabilities()
    take_terminal()
    for number, path in ((KEEP, "/etc"), (KEEP + 1, "/etc/passwd")):
        os.dup2(os.open(path, os.O_RDONLY), number)
        os.set_inheritable(number, True)  # noqa: FBT003 - the os module's own signature
    os.execv(program, [program])  # noqa: S606 - there is nothing a shell could read
    return 1


if __name__ == "__main__":
    sys.exit(main())
