"""Negative controls: every probe can fail.

Each is seen open in a deliberately broken container, or, where nothing on this machine can open it,
on made-up observations (`fabricated`).
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio
import pytest
from answering_network import TCP_PORTS
from broken import (
    ALL_CAPABILITIES,
    HOST_NAMESPACES,
    UNCONFINED,
    Docker,
    inspect_state,
    one_container,
    probe_directory,
)
from fabricated import FABRICATED

from real_engine import engine_url
from sandboxrun.checks.attempt import Attempt, Observation, encode_attempts, parse_observations
from sandboxrun.checks.canary import placed_canaries
from sandboxrun.checks.catalogue import PROBES
from sandboxrun.checks.host import look_at_host
from sandboxrun.checks.probe import Probe, Seen, State
from sandboxrun.checks.scenarios import SCENARIOS, Scenario
from sandboxrun.checks.subject import PROGRAM_NAME, Subjects
from sandboxrun.checks.surroundings import Surroundings
from sandboxrun.engine.docker import connect
from sandboxrun.engine.protocol import EngineInfo
from sandboxrun.model.limits import MIB, Limits

pytestmark = [pytest.mark.engine, pytest.mark.docker]
HERE = Path(__file__).parent
PROGRAM = f"/probe/{PROGRAM_NAME}"
SENDING = {"tcp", "udp", "dns", "broadcast"}
"""Attempts that would leave the machine where there is a network: they get one that answers itself."""
LEAST = Limits(
    cpus=0.25,
    memory_bytes=32 * MIB,
    pids=8,
    disk_bytes=MIB,
    tmp_bytes=MIB,
    shm_bytes=MIB,
    tmp_inodes=64,
    open_files=512,
)
"""So small that whatever is unlimited goes beyond them at once."""


@dataclass
class Opened:
    """Which probes were seen open, and where first."""

    where: dict[str, str] = field(default_factory=dict)

    def judge(self, control: str, probes: Iterable[Probe], seen: Seen) -> None:
        for probe in probes:
            if probe.verdict(seen).state is State.OPEN:
                self.where.setdefault(probe.id, control)


def attempts_of(probes: Iterable[Probe], around: Surroundings) -> list[Attempt]:
    return list(dict.fromkeys(each for probe in probes for each in probe.attempts_in(around)))


def local(probe: Probe, around: Surroundings) -> bool:
    """Tell whether nothing of it leaves the machine, whatever the network."""
    return probe.id in {"net.host_tcp", "net.host_udp"} or not any(
        each.verb in SENDING for each in probe.attempts_in(around)
    )


@pytest.fixture(scope="module")
def docker() -> Iterator[Docker]:
    docker = Docker(engine_url())
    yield docker
    docker.remove_all()
    assert inspect_state(docker) == []


@pytest.fixture(scope="module")
def info(docker: Docker) -> EngineInfo:
    async def describe() -> EngineInfo:
        engine = await connect(docker.url)
        try:
            return await engine.describe()
        finally:
            await engine.aclose()

    return anyio.run(describe)


def surroundings(info: EngineInfo, **more: object) -> Surroundings:
    known: dict[str, object] = {
        "engine": info,
        "runtime": "crun",
        "limits": LEAST,
        "host": look_at_host(),
        "canaries": None,
        "now": time.time(),
        "state_dir": str(HERE),
        "checkout": str(HERE),
    }
    return Surroundings(**(known | more))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def opened(docker: Docker, info: EngineInfo) -> Opened:
    found = Opened()
    with_the_hosts_namespaces(docker, info, found)
    with_things_planted(docker, info, found)
    with_a_network(docker, info, found)
    with_an_init_that_dies(docker, info, found)
    without_limits(docker, info, found)
    without_a_container(docker, info, found)
    return found


def with_the_hosts_namespaces(docker: Docker, info: EngineInfo, found: Opened) -> None:
    """Root, every capability, no filter, the host's namespaces, its socket and a directory.

    Not scanned for the token: that would read the environments of everything on this machine.
    """
    with placed_canaries() as placed:
        canaries = placed.canaries
        around = surroundings(info, canaries=canaries)
        probes = [
            probe
            for probe in PROBES
            if not probe.resource and local(probe, around) and probe.id != "sec.canary"
        ]
        seen = docker.probe(
            attempts_of(probes, around),
            *HOST_NAMESPACES,
            *UNCONFINED,
            *ALL_CAPABILITIES,
            *("-v", f"{canaries.directory}:{canaries.directory}", "-w", "/tmp"),
            *("-v", f"{docker.url.removeprefix('unix://')}:/var/run/docker.sock"),
        )
        around = replace(around, reached=placed.reached())
    found.judge("the host's namespaces", probes, Seen(seen, around))


def with_things_planted(docker: Docker, info: EngineInfo, found: Opened) -> None:
    """Namespaces of its own, and in them whatever must not be there (`planted`)."""
    with placed_canaries() as placed:
        token = placed.canaries.token
        around = surroundings(info, canaries=placed.canaries)
        probes = [
            probe
            for probe in PROBES
            if not (probe.resource or probe.alone) and local(probe, around)
        ]
        # Hanging up terminals is one of the attempts: what is about terminals comes before.
        terminals = [probe for probe in probes if probe.id in {"proc.terminal", "proc.tiocsti"}]
        seen: dict[Attempt, Observation] = {}
        for some in (probes, terminals):
            seen |= docker.probe(
                attempts_of(some, around),
                *("--network=none", "--ipc=private", "--cgroupns=host", "--shm-size=256m"),
                *UNCONFINED,
                *ALL_CAPABILITIES,
                *("--group-add=27", "-v", f"{HERE}:/tests:ro", "-w", "/tmp"),
                *("-e", "AWS_SECRET_ACCESS_KEY=x", "-e", "http_proxy=http://x"),
                *("-e", "SSH_AUTH_SOCK=/x", "-e", f"CANARY={token}"),
                *("--add-host", f"{look_at_host().hostname}:192.0.2.1"),
                command=("python3", "/tests/planted.py", token, PROGRAM),
            )
    found.judge("things planted", probes, Seen(seen, around))


def with_a_network(docker: Docker, info: EngineInfo, found: Opened) -> None:
    """Make every address answer: they are all on the container's own loopback."""
    around = surroundings(info)
    probes = [
        probe
        for probe in PROBES
        if probe.id == "net.ping" or (not probe.resource and not local(probe, around))
    ]
    attempts = attempts_of(probes, around)
    addresses = {
        each.arguments[0]
        for each in attempts
        if each.verb in SENDING and each.arguments and not each.arguments[0].startswith("127.")
    }
    assert {int(each.arguments[1]) for each in attempts if each.verb == "tcp"} <= set(TCP_PORTS)
    seen = docker.probe(
        attempts,
        *("--network=none", "--cap-add=NET_ADMIN", *UNCONFINED, "-v", f"{HERE}:/tests:ro"),
        command=("python3", "/tests/answering_network.py", PROGRAM, *sorted(addresses)),
    )
    found.judge("a network that answers", probes, Seen(seen, around))


def with_an_init_that_dies(docker: Docker, info: EngineInfo, found: Opened) -> None:
    around = surroundings(info)
    probes = [probe for probe in PROBES if probe.alone]
    for probe in probes:
        seen = docker.probe(
            list(probe.attempts_in(around)),
            *("--network=none", "-v", f"{HERE}:/tests:ro"),
            command=("python3", "/tests/planted.py", "", PROGRAM, "--parent"),
        )
        found.judge("an init that dies", [probe], Seen(seen, around))


def without_limits(docker: Docker, info: EngineInfo, found: Opened) -> None:
    around = surroundings(info)
    for probe in PROBES:
        if probe.resource and probe.id not in FABRICATED:
            seen = docker.probe(list(probe.attempts_in(around)), "--network=none", "-w", "/var/tmp")
            found.judge("no limits", [probe], Seen(seen, around))


def without_a_container(docker: Docker, info: EngineInfo, found: Opened) -> None:
    """No engine gives a container the host's mount namespace. It is read, and nothing else."""
    del docker
    around = surroundings(info)
    (probe,) = (probe for probe in PROBES if probe.id == "proc.mnt_namespace")
    attempts = probe.attempts_in(around)
    assert {each.verb for each in attempts} == {"readlink"}
    with probe_directory() as directory:
        done = subprocess.run(
            [str(directory / PROGRAM_NAME)],
            input=encode_attempts(attempts),
            capture_output=True,
            check=True,
        )
    seen = dict(zip(attempts, parse_observations(done.stdout, len(attempts)), strict=True))
    found.judge("no container", [probe], Seen(seen, around))


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.id)
def test_every_probe_can_fail(probe: Probe, info: EngineInfo, opened: Opened) -> None:
    fabrication = FABRICATED.get(probe.id)
    if fabrication is None:
        assert probe.id in opened.where, "it is open in no broken container"
        return
    # What can be opened needs no making up.
    assert probe.id not in opened.where
    around = surroundings(info)
    assert probe.verdict(fabrication.seen(probe, around)).state is State.OPEN


def test_nothing_is_made_up_for_what_does_not_exist() -> None:
    assert set(FABRICATED) <= {probe.id for probe in PROBES}


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.id)
def test_an_attempt_without_an_answer_keeps_no_promise(probe: Probe, info: EngineInfo) -> None:
    with placed_canaries() as placed:
        around = surroundings(info, canaries=placed.canaries)
        attempts = probe.attempts_in(around)
        assert attempts
        for end in ("timeout", "signal 11", "unknown", "no process"):
            seen = Seen(dict.fromkeys(attempts, Observation(end=end, value=-1)), around)
            assert probe.verdict(seen).state in {State.OPEN, State.UNTESTED}


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.id)
def test_every_scenario_can_fail(docker: Docker, scenario: Scenario) -> None:
    with one_container(docker) as container:
        verdict = anyio.run(scenario.play, Subjects(container, container))
    assert verdict.state is State.OPEN, verdict.detail
