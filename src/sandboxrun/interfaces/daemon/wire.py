"""What a command line and the daemon say to each other. Sans-IO, and imports nothing.

The command line sends one request, with its standard streams as descriptors. The daemon answers
`DECLINED`, and then has done nothing; or `ACCEPTED` and, at the end, the exit status. Until then
the command line may send `CANCEL` at any time, and its end of stream means the same.
"""

from __future__ import annotations

SOCKET = "daemon.sock"
"""Below the state directory."""
HELLO = b"sandboxrun/1 "
DECLINED = b"d"
ACCEPTED = b"a"
CANCEL = b"c"
LARGEST = 16 * 1024 * 1024
"""Bytes of a request; the kernel allows a command line about an eighth of it."""
_HEAD = len(HELLO) + 10


def request(arguments: list[bytes], cwd: bytes, environment: list[bytes]) -> bytes:
    """Return the request of a command line. No part can hold a NUL: the kernel sees to that."""
    parts = [cwd, b"%d" % len(arguments), *arguments, *environment]
    payload = b"\0".join(parts)
    return HELLO + b"%010d" % len(payload) + payload


def missing(data: bytes) -> int:
    """Return how many bytes of a request are missing; 0 if it is whole.

    Raises `ValueError` for what is no request.
    """
    if data[: len(HELLO)] != HELLO[: len(data)]:
        raise ValueError("not a request of a command line")
    if len(data) < _HEAD:
        return _HEAD - len(data)
    size = data[len(HELLO) : _HEAD]
    if not size.isdigit() or int(size) > LARGEST or len(data) > _HEAD + int(size):
        raise ValueError("a request of an impossible size")
    return _HEAD + int(size) - len(data)


def parse(data: bytes) -> tuple[list[bytes], bytes, list[bytes]]:
    """Return arguments, directory and environment of a whole request. Raises `ValueError`."""
    cwd, count, *rest = data[_HEAD:].split(b"\0")
    if not count.isdigit() or int(count) > len(rest):
        raise ValueError("a request whose count is wrong")
    return rest[: int(count)], cwd, rest[int(count) :]


def verdict(status: int) -> bytes:
    """Return how the daemon tells the exit status."""
    return b"%d\n" % status


def status_of(data: bytes) -> int | None:
    """Return the exit status in what came behind `ACCEPTED`; None if there is none."""
    text = data.strip()
    return int(text) if data.endswith(b"\n") and text.isdigit() else None
