"""The compiled init that is part of the package."""

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
    known = _MACHINES.get(machine)
    if known is None:
        raise InstallError(
            f"sandboxrun has no init for {machine!r} machines.",
            advice=f"It runs on {', '.join(sorted(set(_MACHINES.values())))}.",
        )
    resource = resources.files("sandboxrun") / "_data" / "init" / known / BINARY_NAME
    if not resource.is_file():
        raise InstallError(
            f"This installation of sandboxrun contains no init for {known}.",
            advice="Install a wheel for that machine, or build from source on it (a C compiler and "
            "a static libc are needed).",
        )
    content = resource.read_bytes()
    return InitBinary(machine=known, content=content, sha256=hashlib.sha256(content).hexdigest())
