"""What a build takes from the machine it runs on: package sources, keys, proxies.

It goes into ``/.build/host`` of the root being built and is removed before the image is finished:
no image names the machine that made it.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import anyio
import anyio.to_thread

from sandboxrun.image.apt_sources import (
    AptSource,
    choose,
    parse_deb822,
    parse_one_line,
    render,
)
from sandboxrun.image.recipe import RELEASE

KEYRINGS_IN_IMAGE = "/etc/apt/keyrings"
_APT_CONFIG_SECONDS = 10
"""`apt-config dump` only reads files; longer than this and it hangs."""
_DUMP_LINE = re.compile(r'(?P<name>[A-Za-z0-9:._/-]+) "(?P<value>[^"\n]*)";')
# How packages are reached and how stale an index may be; nothing about hooks or directories.
_CARRIED = re.compile(
    r"Acquire::(?:"
    r"(?:http|https|ftp)::(?:[^:]+::)?(?:Proxy|Timeout|Verify-Peer|Verify-Host)"
    r"|Check-Valid-Until|Check-Date|Retries|ForceIPv4|ForceIPv6)",
    re.IGNORECASE,
)
_CA_BUNDLE = "etc/ssl/certs/ca-certificates.crt"
_CA_BUNDLE_IN_BUILD = "/.build/host/ca-certificates.crt"


@dataclass(frozen=True, slots=True)
class HostApt:
    """The apt settings a build uses. Empty on a machine that isn't Debian's."""

    sources: tuple[AptSource, ...] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Content by path below ``/.build/host``."""
    proxies: tuple[tuple[str, str], ...] = ()
    """``http_proxy`` and its kin, for the package tools only; never part of an image."""


async def read_host_apt(
    proxies: Mapping[str, str], *, root: Path = Path("/"), apt_config: str = "apt-config"
) -> HostApt:
    """Read the apt settings of the machine whose file system is below ``root``.

    What can't be read is left out: a build without it uses the base's own sources. Nothing is
    left behind when cancelled.
    """
    return await anyio.to_thread.run_sync(_read, dict(proxies), root, apt_config)


def parse_apt_config(dump: str) -> str:
    """Return, as apt.conf text, the settings of an `apt-config dump` that a build needs."""
    kept: list[str] = []
    for line in dump.splitlines():
        matched = _DUMP_LINE.fullmatch(line.strip())
        if matched and matched["value"] and _CARRIED.fullmatch(matched["name"]):
            kept.append(f'{matched["name"]} "{matched["value"]}";\n')
    return "".join(kept)


def _read(proxies: dict[str, str], root: Path, apt_config: str) -> HostApt:
    sources = choose(_all_sources(root), release=RELEASE, host_release=_debian_codename(root))
    files: dict[str, bytes] = {}
    keyrings: list[str | None] = []
    for number, source in enumerate(sources):
        named = _keyring(source, root, number)
        if named is not None:
            files[f"keyrings/{named[0]}"] = named[1]
        keyrings.append(None if named is None else f"{KEYRINGS_IN_IMAGE}/{named[0]}")
    if sources:
        files["sources.list"] = render(sources, keyrings).encode()
    config = parse_apt_config(_dump(apt_config))
    bundle = root / _CA_BUNDLE
    if bundle.is_file() and any(source.uri.startswith("https:") for source in sources):
        files["ca-certificates.crt"] = bundle.read_bytes()
        config += f'Acquire::https::CAInfo "{_CA_BUNDLE_IN_BUILD}";\n'
    if config:
        files["apt.conf"] = config.encode()
    return HostApt(
        sources=sources,
        files=MappingProxyType(files),
        proxies=tuple(sorted((name, value) for name, value in proxies.items() if value)),
    )


def _all_sources(root: Path) -> Iterator[AptSource]:
    apt = root / "etc/apt"
    for path in (apt / "sources.list", *sorted(apt.glob("sources.list.d/*.list"))):
        yield from parse_one_line(_text(path))
    for path in sorted(apt.glob("sources.list.d/*.sources")):
        yield from parse_deb822(_text(path))


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _debian_codename(root: Path) -> str | None:
    release = os_release(root)
    return release.get("VERSION_CODENAME") if release.get("ID") == "debian" else None


def os_release(root: Path = Path("/")) -> dict[str, str]:
    """Return the fields of os-release(5) below ``root``, or nothing when there is none."""
    fields: dict[str, str] = {}
    for line in _text(root / "etc/os-release").splitlines():
        name, separator, value = line.partition("=")
        if separator and not name.startswith("#"):
            fields[name.strip()] = value.strip().strip("\"'")
    return fields


def _keyring(source: AptSource, root: Path, number: int) -> tuple[str, bytes] | None:
    key = source.own_keyring
    if key is None:
        return None
    if "BEGIN PGP" in key:
        return f"host-{number}.asc", key.encode()
    path = root / key.lstrip("/")
    try:
        return f"host-{number}{path.suffix}", path.read_bytes()
    except OSError:
        return None


def _dump(apt_config: str) -> str:
    try:
        dumped = subprocess.run(
            [apt_config, "dump"], capture_output=True, timeout=_APT_CONFIG_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return dumped.stdout.decode(errors="replace")
