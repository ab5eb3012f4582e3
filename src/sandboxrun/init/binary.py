"""The compiled programs that are part of the package: the init, and the one that probes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib import resources
from types import MappingProxyType
from typing import Final

from sandboxrun.errors import InstallError

BINARY_NAME: Final = "sandboxrun-init"
_MACHINES: Final = MappingProxyType(
    {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}
)


@dataclass(frozen=True, slots=True)
class InitBinary:
    """One init: the machine it runs on (as in `uname -m`), its bytes and their SHA-256 (hex)."""

    machine: str
    content: bytes
    sha256: str


def packaged_binary(machine: str) -> InitBinary:
    """Return the init for ``machine``, named as by `uname -m` or by an engine ("amd64").

    Raises `InstallError` when the package has none.
    """
    content = packaged_program("init", BINARY_NAME, machine)
    return InitBinary(
        machine=_MACHINES[machine], content=content, sha256=hashlib.sha256(content).hexdigest()
    )


def packaged_program(part: str, name: str, machine: str) -> bytes:
    """Return the program ``name`` of the directory ``part`` for ``machine``.

    Raises `InstallError` when the package has none.
    """
    known = _MACHINES.get(machine)
    if known is None:
        raise InstallError(
            f"sandboxrun has no {name} for {machine!r} machines.",
            advice=f"It runs on {', '.join(sorted(set(_MACHINES.values())))}.",
        )
    resource = resources.files("sandboxrun") / "_data" / part / known / name
    if not resource.is_file():
        raise InstallError(
            f"This installation of sandboxrun contains no {name} for {known}.",
            advice="Install a wheel for that machine, or build from source on it (a C compiler and "
            "a static libc are needed).",
        )
    return resource.read_bytes()
