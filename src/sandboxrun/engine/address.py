"""Where an engine answers: the two kinds of address the driver speaks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from sandboxrun.errors import ConfigurationError

MAX_SOCKET_PATH: Final = 107
"""Longest path of a unix socket on Linux, in bytes (unix(7): 108 with the final NUL)."""
DEFAULT_PORT: Final = 2375
TLS_PORT: Final = 2376


@dataclass(frozen=True, slots=True)
class UnixAddress:
    """A unix socket."""

    path: str

    @property
    def url(self) -> str:
        """The address as a URL."""
        return f"unix://{self.path}"


@dataclass(frozen=True, slots=True)
class TcpAddress:
    """A TCP port, without encryption. Only for a trusted network."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """The address as a URL."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"tcp://{host}:{self.port}"


def parse_address(url: str) -> UnixAddress | TcpAddress:
    """Return the address ``url`` names.

    Raises `ConfigurationError` for other schemes, for a path that is relative or longer than the
    kernel accepts, and for a port that is not one.
    """
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return UnixAddress(_socket_path(url.removeprefix("unix://")))
    if parts.scheme in {"tcp", "http"}:
        try:
            port = parts.port
        except ValueError as error:
            raise ConfigurationError(f"Engine address {url!r}: {error}.") from error
        if parts.hostname and parts.path in {"", "/"}:
            return TcpAddress(parts.hostname, DEFAULT_PORT if port is None else port)
    raise ConfigurationError(
        f"Engine address {url!r} cannot be used.",
        advice="Give unix:///path/of/socket or tcp://host:port. For ssh:// or TLS, forward the "
        "engine's socket (ssh -L) and give the local one.",
    )


def _socket_path(path: str) -> str:
    if not path.startswith("/") or "\0" in path:
        raise ConfigurationError(f"Engine address unix://{path}: the path must be absolute.")
    if len(path.encode()) > MAX_SOCKET_PATH:
        raise ConfigurationError(
            f"The socket path {path!r} has {len(path.encode())} bytes; the kernel accepts "
            f"{MAX_SOCKET_PATH}.",
            advice="Use a shorter path, or a symbolic link to its directory.",
        )
    return path
