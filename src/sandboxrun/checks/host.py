"""What the engine's host is, as this machine's kernel says. Blocking; only reads."""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path
from typing import Final

from sandboxrun.checks.surroundings import Host

NAMESPACES: Final = ("cgroup", "ipc", "mnt", "net", "pid", "uts")
"""Kinds of namespace every container has of its own."""
_ADDRESS: Final = re.compile(r"\|-- (\S+)")
_MANDATORY: Final = ("apparmor", "selinux", "smack", "tomoyo")


def look_at_host() -> Host:
    """Return this machine's facts. What cannot be read is empty."""
    return Host(
        hostname=socket.gethostname(),
        boot_id=_text("/proc/sys/kernel/random/boot_id").strip(),
        addresses=_addresses(),
        namespaces={kind: str(Path(f"/proc/self/ns/{kind}").readlink()) for kind in NAMESPACES},
        security_modules=tuple(
            name
            for name in _text("/sys/kernel/security/lsm").strip().split(",")
            if name in _MANDATORY
        ),
        cpus=os.cpu_count() or 1,
        memory_bytes=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
    )


def _addresses() -> tuple[str, ...]:
    four = host_addresses(_text("/proc/net/fib_trie"))
    six = [
        socket.inet_ntop(socket.AF_INET6, bytes.fromhex(fields[0]))
        for fields in map(str.split, _text("/proc/net/if_inet6").splitlines())
        if fields[-1] != "lo" and fields[3] == "00"
    ]
    return (*four, *six)


def host_addresses(fib_trie: str) -> tuple[str, ...]:
    """Return the machine's own IPv4 addresses, without loopback, from /proc/net/fib_trie."""
    found: set[str] = set()
    address = ""
    for line in fib_trie.splitlines():
        match = _ADDRESS.search(line)
        if match is not None:
            address = match[1]
        elif "host LOCAL" in line and not address.startswith("127."):
            found.add(address)
    return tuple(sorted(found))


def _text(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""  # Not every kernel has every file.
