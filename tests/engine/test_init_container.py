"""The init in real containers.

Needs a Docker-compatible engine and an image with bash and coreutils:
SANDBOXRUN_TEST_DOCKER=unix:///… pytest tests/engine/test_init_container.py
"""

from __future__ import annotations

import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "unit"))
from init_process import (
    ENV,
    InitProcess,
    Result,
    built_init,
    exact_order,
    request_for,
    run_request,
    talk,
)

from real_engine import engine_url
from sandboxrun.config import DEFAULT_IMAGE
from sandboxrun.init.posture import Posture
from sandboxrun.init.records import ExitKind
from sandboxrun.init.session import PostureReceived
from sandboxrun.model.ordering import Ordering

IMAGE = DEFAULT_IMAGE
MIB = 1024 * 1024
pytestmark = [
    pytest.mark.engine,
    pytest.mark.docker,
]


@pytest.fixture(scope="module")
def binary() -> Iterator[Path]:
    with built_init() as path:
        yield path


@pytest.fixture(params=["crun", "runc"])
def runtime(request: pytest.FixtureRequest) -> str:
    known = _docker("info", "--format", "{{range $name, $_ := .Runtimes}}{{$name}} {{end}}")
    if request.param not in known.split():
        pytest.skip(f"the engine has no {request.param}")
    return str(request.param)


def _docker(*arguments: str) -> str:
    command = ["docker", "-H", engine_url(), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@contextmanager
def _container(binary: Path, runtime: str, *options: str) -> Iterator[InitProcess]:
    name = f"init-test-{uuid.uuid4().hex[:12]}"
    create = [
        *("create", "-i", "--name", name, "--runtime", runtime, "--network", "none"),
        *("--user", "2000001:2000001", "--cap-drop", "ALL", "--read-only"),
        *("--security-opt", "no-new-privileges", "--log-driver", "none", "--ipc", "private"),
        *("--memory", "128m", "--memory-swap", "128m", "--pids-limit", "64"),
        *("--cpus", "1.5", "--ulimit", "nofile=512:512", "--hostname", "sandbox"),
        *("-v", f"{binary.parent}:/.sandboxrun:ro", "--entrypoint", "/.sandboxrun/init"),
    ]
    _docker(*create, *options, IMAGE)
    try:
        with talk(["docker", "-H", engine_url(), "start", "-ai", name]) as process:
            yield process
    finally:
        _docker("rm", "-f", name)


def _run(
    binary: Path, runtime: str, command: str, *, deadline_ms: int = 60_000, exact: bool = False
) -> Result:
    with _container(binary, runtime) as process:
        ordering = Ordering.EXACT if exact else Ordering.ARRIVAL
        request = request_for(command, deadline_ms=deadline_ms, ordering=ordering, env=ENV)
        return run_request(process, request)


def _posture(process: InitProcess) -> Posture:
    event = process.result.events[0]
    assert isinstance(event, PostureReceived)
    return event.posture


def test_the_posture_tells_what_the_engine_did(binary: Path, runtime: str) -> None:
    with _container(binary, runtime) as process:
        posture = _posture(process)
    assert posture.capabilities.effective == posture.capabilities.bounding == 0
    assert posture.no_new_privs
    assert posture.seccomp_mode == 2
    assert posture.uids.real == 2000001
    assert posture.hostname == "sandbox"
    root, init = posture.mount("/"), posture.mount("/.sandboxrun")
    assert root is not None
    assert init is not None
    assert "ro" in root.options
    assert "ro" in init.options
    assert posture.cgroup.memory_bytes == 128 * MIB
    assert posture.cgroup.swap_bytes == 0
    assert posture.cgroup.pids == 64
    assert isinstance(posture.cgroup.cpu_quota_us, int)
    assert posture.cgroup.cpu_period_us is not None
    assert posture.cgroup.cpu_quota_us / posture.cgroup.cpu_period_us == 1.5
    nofile = posture.rlimit("nofile")
    assert nofile is not None
    assert (nofile.soft, nofile.hard) == (512, 512)
    assert {descriptor.number for descriptor in posture.descriptors} == {0, 1, 2}


def test_a_run(binary: Path, runtime: str) -> None:
    result = _run(binary, runtime, "echo out; echo err >&2; sleep 1000 & exit 5")
    assert result.code == 5
    assert result.stream("stdout") == b"out\n"
    assert result.stream("stderr") == b"err\n"
    assert result.record.leftover == 1
    assert result.record.oom_kills == 0
    assert result.record.peak_memory is not None
    assert 0 < result.record.peak_memory < 128 * MIB


@exact_order
def test_exact_order_under_the_engines_own_filter(binary: Path, runtime: str) -> None:
    command = "for ((i = 0; i < 10000; i += 2)); do echo $i; echo $((i + 1)) >&2; done"
    result = _run(binary, runtime, command, exact=True)
    assert result.record.ordering is Ordering.EXACT
    assert [int(line) for line in result.output.split()] == list(range(10_000))


@exact_order
def test_exact_order_loses_nothing_to_signals(binary: Path, runtime: str) -> None:
    command = (
        "trap : USR1; (exec 2>/dev/null; while :; do kill -USR1 $$ || exit; done) & "
        "for ((i = 0; i < 3000; i++)); do echo $i >&2; done"
    )
    result = _run(binary, runtime, command, exact=True)
    assert result.stream("stderr").split() == [b"%d" % number for number in range(3000)]
    assert result.record.unguarded == 0


def test_out_of_memory_of_a_child_is_told_and_the_init_survives(binary: Path, runtime: str) -> None:
    result = _run(binary, runtime, "tail /dev/zero; echo $?")
    assert result.output.splitlines()[-1] == b"137"
    assert result.record.oom_kills == 1
    assert result.code == 0


def test_a_saturated_pids_limit_does_not_stop_the_init(binary: Path, runtime: str) -> None:
    bomb = "f() { f | f & f | f & }; f; sleep 0.5; echo alive"
    start = time.monotonic()
    result = _run(binary, runtime, bomb, deadline_ms=5_000)
    assert result.record.kind in {ExitKind.EXITED, ExitKind.DEADLINE, ExitKind.SIGNALED}
    assert result.record.leftover > 0 or result.record.kind is not ExitKind.EXITED
    assert time.monotonic() - start < 60


def test_a_dead_orchestrator_leaves_no_slot(binary: Path, runtime: str) -> None:
    with _container(binary, runtime) as process:
        name = str(process.process.args[-1])  # type: ignore[index]
        assert _docker("inspect", "--format", "{{.State.Running}}", name) == "true"
        process.process.kill()
        process.process.wait()
        assert _docker("wait", name) == "114"
