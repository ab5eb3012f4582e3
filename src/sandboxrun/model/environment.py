"""The environment a command gets: nothing but what is named here, allowed or asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_BASE = {
    "LANG": "C.UTF-8",
    "LOGNAME": "agent",
    "PATH": DEFAULT_PATH,
    "SHELL": "/bin/bash",
    "TERM": "dumb",
    "USER": "agent",
}


def command_environment(
    image_env: Iterable[str],
    allowed: Iterable[str],
    additions: Mapping[bytes, bytes],
    *,
    home: str,
) -> tuple[tuple[bytes, bytes], ...]:
    """Return the complete environment, sorted by name.

    ``image_env`` holds ``NAME=value``; of it, PATH and the ``allowed`` names are taken.
    """
    wanted = {*allowed, "PATH"}
    base = {**_BASE, "HOME": home, "PATH": f"{home}/.local/bin:{DEFAULT_PATH}"}
    environment = {name.encode(): value.encode() for name, value in base.items()}
    for entry in image_env:
        name, separator, value = entry.partition("=")
        if separator and name in wanted:
            text = f"{home}/.local/bin:{value}" if name == "PATH" else value
            environment[name.encode()] = text.encode("utf-8", "surrogateescape")
    environment |= additions
    return tuple(sorted(environment.items()))
