"""The managed engine's life: brought up, killed, brought up again, brought down; nothing left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import anyio
import pytest
from subjects import Subject
from tiny_image import TAG, ensure_tiny_image
from typer.testing import CliRunner

from sandboxrun.engine import managed as managed_module
from sandboxrun.engine import managed_layout
from sandboxrun.engine.connect import EngineSearch, open_engine
from sandboxrun.engine.daemon_process import mounts_below
from sandboxrun.engine.daemon_record import DaemonRecord, bears, read_record
from sandboxrun.engine.docker import connect
from sandboxrun.engine.managed import ManagedEngine
from sandboxrun.engine.protocol import EngineKind, Phase
from sandboxrun.errors import EngineError, EngineUnavailableError, InstallError
from sandboxrun.interfaces.cli.engine import app

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can start the managed engine"),
]
KINDS = [
    pytest.param(EngineKind.DOCKER, marks=pytest.mark.docker),
    pytest.param(EngineKind.PODMAN, marks=pytest.mark.podman),
]


@pytest.fixture(params=KINDS, ids=lambda kind: kind.value)
def managed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ManagedEngine]:
    found = ManagedEngine.of(tmp_path, request.param)
    try:
        found._daemon()
    except InstallError as fault:
        pytest.skip(fault.message)
    yield found
    found.down()


@pytest.fixture
def docker(tmp_path: Path) -> Iterator[ManagedEngine]:
    found = ManagedEngine.of(tmp_path)
    yield found
    found.down()


def record_of(managed: ManagedEngine) -> DaemonRecord:
    record = read_record(managed.layout.record)
    assert record is not None
    return record


def living_in(record: DaemonRecord) -> list[int]:
    return [pid for pid in processes() if bears(pid, record.mark)]


def processes() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]


async def start_waiting_container(url: str) -> tuple[str, int]:
    engine = await connect(url)
    subject = Subject(engine, await ensure_tiny_image(engine), await engine.describe(), None)
    container = await engine.create(subject.spec("wait"))
    await engine.start(container)
    state = await engine.inspect(container)
    assert state is not None
    assert state.phase is Phase.RUNNING
    await engine.aclose()
    return container, process_of(container)


def process_of(container: str) -> int:
    for pid in processes():
        try:
            text = Path(f"/proc/{pid}/cgroup").read_text()
            if container in text and Path(f"/proc/{pid}/cmdline").read_bytes():
                return pid
        except (FileNotFoundError, ProcessLookupError):
            continue
    raise AssertionError("the container has no process")


def gone(pid: int) -> bool:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] in "ZX":
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.02)
    return False


async def state_and_image(url: str, container: str) -> tuple[Phase | None, bool]:
    engine = await connect(url)
    state = await engine.inspect(container)
    image = await engine.inspect_image(TAG)
    await engine.aclose()
    return (None if state is None else state.phase), image is not None


def test_a_whole_life(managed: ManagedEngine) -> None:
    assert not managed.was_started()
    assert managed.down() is False
    url = managed.up()
    first = record_of(managed)
    assert managed.is_running()
    assert managed.up() == url
    assert record_of(managed) == first
    _, process = anyio.run(start_waiting_container, url)
    assert managed.down() is True
    assert gone(process)
    assert living_in(first) == []
    assert not managed.layout.run.exists()
    assert mounts_below(Path("/proc/self/mountinfo").read_text(), managed.layout.base) == []
    assert managed.down() is False
    assert managed.up() == url
    assert record_of(managed) != first
    assert anyio.run(state_and_image, url, "nobody") == (None, True)


def test_it_is_restarted_when_it_died(managed: ManagedEngine) -> None:
    url = managed.up()
    first = record_of(managed)
    container, process = anyio.run(start_waiting_container, url)
    os.kill(first.pid, signal.SIGKILL)
    assert gone(first.pid)
    assert managed.was_started()
    assert not managed.is_running()
    assert managed.up() == url
    assert record_of(managed).pid != first.pid
    # What ran is over: its engine is gone, nobody may go on unwatched.
    assert gone(process)
    assert living_in(first) == []
    phase, image = anyio.run(state_and_image, url, container)
    assert phase is not Phase.RUNNING
    assert image


def test_starting_twice_at_once_starts_one(managed: ManagedEngine) -> None:
    with ThreadPoolExecutor(4) as pool:
        urls = list(pool.map(lambda _: ManagedEngine(managed.layout).up(), range(4)))
    assert set(urls) == {managed.url}
    assert len([pid for pid in living_in(record_of(managed)) if pid == record_of(managed).pid]) == 1
    assert managed.layout.log.read_text().count("Starting up") <= 1


def test_a_long_state_directory(tmp_path: Path) -> None:
    managed = ManagedEngine.of(tmp_path / ("x" * 100))
    try:
        anyio.run(start_waiting_container, managed.up())
    finally:
        assert managed.down()
    assert not managed.layout.run.exists()


def test_a_machine_without_cgroup_mounts(docker: ManagedEngine) -> None:
    code = (
        "import sys; from pathlib import Path; from sandboxrun.engine.managed import ManagedEngine;"
        "print(ManagedEngine.of(Path(sys.argv[1])).up())"
    )
    shell = 'umount -R /sys/fs/cgroup && exec "$@"'
    state = str(docker.layout.base.parent.parent)
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", shell, "sh", sys.executable, "-c", code, state],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert done.stdout.strip() == docker.url
    anyio.run(start_waiting_container, docker.url)
    mounts = Path(f"/proc/{record_of(docker).pid}/mountinfo").read_text()
    assert " - cgroup " in mounts or " - cgroup2 " in mounts


def test_a_daemon_that_fails_says_why(docker: ManagedEngine) -> None:
    docker.layout.base.mkdir(parents=True)
    docker.layout.data.mkdir()
    (docker.layout.data / "overlay2").write_text("in the way")
    (docker.layout.data / "vfs").write_text("in the way")
    with pytest.raises(EngineUnavailableError, match="end of its log"):
        docker.up()
    assert not docker.is_running()


def test_what_is_missing_is_named(docker: ManagedEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(managed_layout, "SEARCH_PATH", "/nowhere")
    with pytest.raises(InstallError, match="dockerd") as fault:
        docker.up()
    assert "docker.io" in fault.value.advice


def test_only_root_starts_it(docker: ManagedEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(managed_module.os, "geteuid", lambda: 1000)
    with pytest.raises(EngineUnavailableError, match="root"):
        docker.up()


def test_opening_starts_the_managed_engine(
    docker: ManagedEngine,
) -> None:
    async def opened() -> str:
        search = EngineSearch(state_dir=docker.layout.base.parent.parent, engine=docker.url)
        engine = await open_engine(search)
        await engine.aclose()
        return engine.url

    assert anyio.run(opened) == docker.url
    assert docker.is_running()


def test_the_command_line(docker: ManagedEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SANDBOXRUN_STATE_DIR", str(docker.layout.base.parent.parent))
    runner = CliRunner()
    up = runner.invoke(app, ["up", "--json"], catch_exceptions=False)
    assert up.exit_code == 0
    status = runner.invoke(app, ["status", "--json"], catch_exceptions=False)
    assert json.loads(status.stdout) == json.loads(up.stdout)
    document = json.loads(status.stdout)
    assert document["url"] == docker.url
    assert (document["engine"], document["managed"], document["running"]) == ("docker", True, True)
    assert {"version", "api_version", "runtime"} <= document.keys()
    assert "Docker" in runner.invoke(app, ["status"]).stdout
    assert "stopped: docker" in runner.invoke(app, ["down"]).stdout
    assert "no managed engine" in runner.invoke(app, ["down"]).stdout
    absent = runner.invoke(app, ["status", "--json", "--engine", docker.url])
    assert absent.exit_code == EngineError.exit_status
    assert json.loads(absent.stdout)["running"] is False
