"""Which engine is chosen, and where the managed one keeps its files."""

from __future__ import annotations

import hashlib
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from engine_server import Server, serving

from sandboxrun.engine import connect as connect_module
from sandboxrun.engine import managed_podman
from sandboxrun.engine.connect import EngineChoice, EngineSearch, choose_engine
from sandboxrun.engine.daemon_process import mounts_below
from sandboxrun.engine.daemon_record import (
    DaemonRecord,
    is_alive,
    read_record,
    start_time,
    this_process,
)
from sandboxrun.engine.launch import cgroup_mounts, controllers
from sandboxrun.engine.managed import ManagedEngine, answers
from sandboxrun.engine.managed_layout import Layout
from sandboxrun.engine.protocol import EngineKind
from sandboxrun.errors import ConfigurationError

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with serving(tmp_path) as found:
        yield found


@pytest.fixture(autouse=True)
def no_system_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    real = connect_module._sockets
    monkeypatch.setattr(
        connect_module,
        "_sockets",
        lambda runtime: (path for path in real(runtime) if runtime and runtime in path.parents),
    )


def write_context(config: Path, name: str, host: str) -> Path:
    identity = hashlib.sha256(name.encode()).hexdigest()
    meta = config / "contexts" / "meta" / identity / "meta.json"
    meta.parent.mkdir(parents=True)
    meta.write_text(json.dumps({"Name": name, "Endpoints": {"docker": {"Host": host}}}))
    (config / "config.json").write_text(json.dumps({"currentContext": name}))
    return config / "contexts" / "tls" / identity


async def test_the_order(tmp_path: Path) -> None:
    config = tmp_path / "docker"
    config.mkdir()
    write_context(config, "far", "tcp://far:2375")
    everything = {
        "state_dir": tmp_path / "state",
        "engine": "unix:///named",
        "docker_host": "unix:///host",
        "docker_config": config,
    }
    assert await choose_engine(EngineSearch(**everything)) == EngineChoice(
        "unix:///named", "setting", None
    )
    del everything["engine"]
    assert (await choose_engine(EngineSearch(**everything))).source == "DOCKER_HOST"
    del everything["docker_host"]
    assert await choose_engine(EngineSearch(**everything)) == EngineChoice(
        "tcp://far:2375", "Docker context far", None
    )
    default = await choose_engine(EngineSearch(**everything, docker_context="default"))
    assert default.managed is not None
    with pytest.raises(ConfigurationError, match="nearby"):
        await choose_engine(EngineSearch(**everything, docker_context="nearby"))


async def test_a_context_with_tls_or_a_broken_file_is_refused(tmp_path: Path) -> None:
    tls = write_context(tmp_path, "far", "tcp://far:2376")
    tls.mkdir(parents=True)
    search = EngineSearch(state_dir=tmp_path / "state", docker_config=tmp_path)
    with pytest.raises(ConfigurationError, match="TLS"):
        await choose_engine(search)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        await choose_engine(search)


async def test_a_socket_that_answers_is_used(tmp_path: Path, server: Server) -> None:
    (tmp_path / "docker.sock").symlink_to(server.path)
    found = await choose_engine(
        EngineSearch(state_dir=tmp_path / "state", xdg_runtime_dir=tmp_path)
    )
    assert found.url == f"unix://{tmp_path}/docker.sock"
    assert found.managed is None


async def test_a_socket_nobody_answers_at_is_not_used(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(tmp_path / "docker.sock"))
    found = await choose_engine(
        EngineSearch(state_dir=tmp_path / "state", xdg_runtime_dir=tmp_path)
    )
    assert found.managed is not None
    assert found.source == "managed"


async def test_a_managed_engine_that_was_started_comes_before_sockets(
    tmp_path: Path, server: Server
) -> None:
    (tmp_path / "docker.sock").symlink_to(server.path)
    managed = ManagedEngine.of(tmp_path / "state", EngineKind.PODMAN)
    managed.layout.base.mkdir(parents=True)
    managed.layout.record.write_text("{}")
    found = await choose_engine(
        EngineSearch(state_dir=tmp_path / "state", xdg_runtime_dir=tmp_path)
    )
    assert found == EngineChoice(managed.url, "managed", managed)
    named = await choose_engine(EngineSearch(state_dir=tmp_path / "state", engine=managed.url))
    assert named.managed == managed


def test_a_long_state_directory_gets_a_short_socket() -> None:
    near = Layout(EngineKind.DOCKER, Path("/var/lib/sandboxrun/engine/docker"))
    assert near.socket == near.base / "run" / "engine.sock"
    far = Layout(EngineKind.DOCKER, Path("/var/lib") / ("x" * 90) / "docker")
    assert far.socket.is_relative_to("/run")
    assert len(str(far.run / "exec/containerd/containerd-debug.sock.ttrpc")) <= 107


@pytest.mark.parametrize("length", range(1, 120))
def test_podman_takes_the_run_root_whatever_the_state_directory(length: int) -> None:
    layout = Layout(EngineKind.PODMAN, Path("/") / ("x" * length) / "engine" / "podman")
    run_root = managed_podman.daemon(layout).argv[2].removeprefix("--runroot=")
    assert len(run_root) <= 50, "libpod refuses a longer one"


def test_a_process_is_its_pid_and_its_start(tmp_path: Path) -> None:
    record = this_process("m")
    path = tmp_path / "r"
    path.write_text(json.dumps(record.as_json()))
    assert read_record(path) == record
    assert is_alive(record)
    assert not is_alive(DaemonRecord(record.pid, record.start_time + 1, record.boot_id, "m"))
    assert not is_alive(DaemonRecord(record.pid, record.start_time, "another boot", "m"))
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    # A zombie has ended.
    assert start_time(child) is None
    os.waitpid(child, 0)
    assert start_time(child) is None


@pytest.mark.parametrize("text", ["", "{", "{}", '{"pid":1}', "[]", "null"])
def test_a_record_cut_short_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "r").write_text(text)
    assert read_record(tmp_path / "r") is None


HYBRID = """\
25 1 0:22 / /sys rw,nosuid - sysfs sysfs rw
30 25 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw
31 30 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
32 30 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
33 1 0:28 / /sys/fs/cgroupx rw - cgroup2 cgroup2 rw
34 1 0:29 / /data/a\\040b/c rw - ext4 /dev/x rw
"""


def test_reading_mounts() -> None:
    assert cgroup_mounts(HYBRID) == {
        "/sys/fs/cgroup/memory": "cgroup",
        "/sys/fs/cgroup/unified": "cgroup2",
    }
    assert mounts_below(HYBRID, Path("/data/a b")) == ["/data/a b/c"]
    assert mounts_below(HYBRID, Path("/data/a")) == []


def test_reading_controllers() -> None:
    text = "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpu\t2\t5\t1\nrdma\t0\t1\t0\npids\t8\t5\t1\n"
    assert controllers(text) == ["cpu", "pids"]


def test_answering(server: Server, tmp_path: Path) -> None:
    assert answers(server.path)
    assert not answers(tmp_path / "absent")
    server.replies["GET /_ping"] = [b"HTTP/1.0 500 X\r\n\r\n"]
    assert not answers(server.path)
