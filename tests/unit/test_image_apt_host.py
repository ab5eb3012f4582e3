"""What a build takes from its host, read from real files."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandboxrun.image.apt_host import os_release, parse_apt_config, read_host_apt

pytestmark = pytest.mark.anyio

DUMP = """\
APT "";
APT::Architecture "amd64";
DPkg::Pre-Install-Pkgs:: "/usr/sbin/dpkg-preconfigure --apt || true";
APT::Update::Post-Invoke-Success:: "touch /var/lib/apt/periodic/update-success-stamp";
Acquire "";
Acquire::Check-Valid-Until "false";
Acquire::Languages "none";
Acquire::http "";
Acquire::http::Proxy "http://127.0.0.1:3142";
Acquire::http::Proxy::mirror.example "DIRECT";
Acquire::http::Proxy-Auto-Detect "/usr/local/bin/detect-proxy";
Acquire::http::mirror.example::Proxy "http://proxy.example:8080";
Acquire::https::Verify-Peer "true";
Acquire::Retries "";
Dir::Etc::sourceparts "/etc/apt/elsewhere";
"""


def _host(root: Path, sources: str, *, codename: str = "bookworm") -> Path:
    (root / "etc/apt/sources.list.d").mkdir(parents=True)
    (root / "etc/os-release").write_text(f'ID=debian\nVERSION_CODENAME="{codename}"\n')
    (root / "etc/apt/sources.list").write_text(sources)
    return root


def test_only_settings_of_fetching_are_carried() -> None:
    assert parse_apt_config(DUMP) == (
        'Acquire::Check-Valid-Until "false";\n'
        'Acquire::http::Proxy "http://127.0.0.1:3142";\n'
        'Acquire::http::mirror.example::Proxy "http://proxy.example:8080";\n'
        'Acquire::https::Verify-Peer "true";\n'
    )


@settings(deadline=None)
@given(st.text(max_size=200))
def test_nothing_that_runs_a_program_is_ever_carried(text: str) -> None:
    dump = f'{DUMP}Acquire::http::Proxy "{text}";\nDPkg::Post-Invoke:: "{text}";\n'
    for line in parse_apt_config(dump).splitlines():
        assert line.startswith("Acquire::")
        assert line.count('"') == 2
        assert line.endswith('";')


async def test_sources_proxies_and_keys_of_the_host_come_along(tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys/inhouse.gpg").write_bytes(b"key")
    root = _host(
        tmp_path, "deb [signed-by=/keys/inhouse.gpg] http://inhouse.example/debian trixie main\n",
        codename="trixie",
    )  # fmt: skip
    host = await read_host_apt(
        {"http_proxy": "http://p", "no_proxy": ""}, root=root, apt_config="/"
    )
    assert host.files["sources.list"] == (
        b"deb [signed-by=/etc/apt/keyrings/host-0.gpg] http://inhouse.example/debian bookworm main\n"
    )
    assert host.files["keyrings/host-0.gpg"] == b"key"
    assert host.proxies == (("http_proxy", "http://p"),)
    assert "apt.conf" not in host.files


async def test_an_https_mirror_brings_the_certificates_it_needs(tmp_path: Path) -> None:
    root = _host(tmp_path, "deb https://mirror.example/debian bookworm main\n")
    (root / "etc/ssl/certs").mkdir(parents=True)
    (root / "etc/ssl/certs/ca-certificates.crt").write_bytes(b"pem")
    host = await read_host_apt({}, root=root, apt_config="/")
    assert host.files["ca-certificates.crt"] == b"pem"
    assert host.files["apt.conf"] == (
        b'Acquire::https::CAInfo "/.build/host/ca-certificates.crt";\n'
    )


async def test_a_machine_that_is_not_debians_gives_nothing(tmp_path: Path) -> None:
    host = await read_host_apt({}, root=tmp_path, apt_config=str(tmp_path / "absent"))
    assert (host.sources, dict(host.files), host.proxies) == ((), {}, ())


def test_os_release_is_read_with_and_without_quotes(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/os-release").write_text("# c\nID=ubuntu\nID_LIKE=\"debian\"\nX='y=z'\nbad\n")
    assert os_release(tmp_path) == {"ID": "ubuntu", "ID_LIKE": "debian", "X": "y=z"}
