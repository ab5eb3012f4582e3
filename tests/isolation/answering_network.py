"""Runs in a broken container: a network in which every address that probes try answers.

Nothing leaves the container: the addresses are given to its own loopback.
"""

from __future__ import annotations

import ctypes
import fcntl
import ipaddress
import selectors
import socket
import struct
import subprocess
import sys
from pathlib import Path

SIOCSIFADDR = 0x8916
SIOCADDRT = 0x890B
RTF_UP = 1
TCP_PORTS = (53, 80, 443, 2375, 2376, 2377, 4243, 6443, 8080, 10250, 10255)
UDP_PORTS = (53, 443)


def enable_ipv6() -> None:
    for which in ("all", "lo"):
        Path(f"/proc/sys/net/ipv6/conf/{which}/disable_ipv6").write_text("0")
    Path("/proc/sys/net/ipv4/ping_group_range").write_text("0 2000000")


def add_address(index: int, text: str) -> None:
    address = ipaddress.ip_address(text)
    if address.version == 4:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
            name = f"lo:{index}".encode()
            wanted = struct.pack("16sHH4s8x", name, socket.AF_INET, 0, address.packed)
            fcntl.ioctl(control, SIOCSIFADDR, wanted)
        return
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as control:
        loopback = socket.if_nametoindex("lo")
        fcntl.ioctl(control, SIOCSIFADDR, struct.pack("16sII", address.packed, 128, loopback))


def add_default_route() -> None:
    """Send whatever has no other way, broadcasts included, to loopback."""
    device = ctypes.create_string_buffer(b"lo")
    anywhere = struct.pack("H14x", socket.AF_INET)
    route = struct.pack(
        "@L16s16s16sHhLPhPLLH",
        *(0, anywhere, anywhere, anywhere, RTF_UP, 0, 0, 0, 0),
        *(ctypes.addressof(device), 0, 0, 0),
    )
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, SIOCADDRT, route)


def listeners() -> selectors.DefaultSelector:
    selector = selectors.DefaultSelector()
    for kind, ports in ((socket.SOCK_STREAM, TCP_PORTS), (socket.SOCK_DGRAM, UDP_PORTS)):
        for port in ports:
            listener = socket.socket(socket.AF_INET6, kind)
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            listener.bind(("::", port))
            if kind == socket.SOCK_STREAM:
                listener.listen(64)
            selector.register(listener, selectors.EVENT_READ, kind)
    return selector


def main() -> int:
    program, *addresses = sys.argv[1:]
    enable_ipv6()
    for index, text in enumerate(addresses):
        add_address(index, text)
    add_default_route()
    selector = listeners()
    child = subprocess.Popen([program], stdin=sys.stdin)
    while child.poll() is None:
        for key, _ in selector.select(timeout=0.05):
            if key.data == socket.SOCK_STREAM:
                key.fileobj.accept()[0].close()  # type: ignore[union-attr]
            else:
                data, sender = key.fileobj.recvfrom(2048)  # type: ignore[union-attr]
                key.fileobj.sendto(data, sender)  # type: ignore[union-attr]
    return child.returncode


if __name__ == "__main__":
    sys.exit(main())
