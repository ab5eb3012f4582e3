"""Warm slots on real engines: used once, by exactly the run they fit, and gone afterwards."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest
from run_bench import Bench

from sandboxrun.engine.protocol import EngineKind
from sandboxrun.model.limits import Limits
from sandboxrun.model.outcome import Outcome
from sandboxrun.model.status import Status

ENGINES = [
    pytest.param((EngineKind.DOCKER, None), id="docker-crun", marks=pytest.mark.docker),
    pytest.param((EngineKind.DOCKER, "runc"), id="docker-runc", marks=pytest.mark.docker),
    pytest.param((EngineKind.PODMAN, None), id="podman", marks=pytest.mark.podman),
]
pytestmark = [
    pytest.mark.engine,
    pytest.mark.parametrize("bench", ENGINES, indirect=True, scope="module"),
]


@pytest.fixture
def workspace(bench: Bench, request: pytest.FixtureRequest) -> Iterator[str]:
    name = f"w{abs(hash(request.node.nodeid)) % 10**8}"
    bench.portal.call(bench.runner.workspaces.create, name)
    ready(bench)
    yield name
    bench.portal.call(bench.runner.idle)
    if name in {each.name for each in bench.portal.call(bench.runner.workspaces.list)}:
        bench.portal.call(bench.runner.workspaces.remove, name)


def ready(bench: Bench) -> None:
    """Wait until the last run is put away and the next slot is there."""
    bench.portal.call(bench.runner.idle)


def succeeded(outcome: Outcome, *, cold: bool) -> str:
    assert outcome.status is Status.SUCCEEDED, outcome
    assert outcome.started_cold is cold, outcome
    return outcome.preview.text


def waiting(bench: Bench) -> list[dict[str, object]]:
    """Return what the engine knows of the containers that wait for a command."""
    label = f"label=sandboxrun.installation={bench.installation}"
    ids = bench.docker(
        "ps", "-q", "--no-trunc", "--filter", label, "--filter", "label=sandboxrun.slot"
    ).stdout.split()
    found = [json.loads(bench.docker("inspect", each.decode()).stdout)[0] for each in ids]
    return [each for each in found if each["Id"] in bench.runner.kept_ready]


def test_a_new_workspace_is_warm_and_each_run_has_a_container_of_its_own(
    bench: Bench, workspace: str
) -> None:
    seen = []
    for number in range(3):
        [slot] = [each for each in waiting(bench) if workspace_of(bench, each) == workspace]
        seen.append(slot["Id"])
        command = f"echo {number} >> f; cat f"
        text = succeeded(bench.run(command, workspace=workspace), cold=False)
        assert text.split() == [str(each) for each in range(number + 1)]
        ready(bench)
        assert bench.docker("inspect", str(slot["Id"])).returncode != 0
    assert len(set(seen)) == 3


def workspace_of(bench: Bench, container: dict[str, object]) -> str | None:
    """Return whose slot a container is, by asking the runner."""
    for workspace_id, slot in bench.runner._tools.slots._idle.items():
        if slot.sandbox.container == container["Id"]:
            for each in bench.portal.call(bench.runner.workspaces.list):
                if each.workspace_id == workspace_id:
                    return each.name
    return None


def test_what_a_call_brings_travels_in_its_request(bench: Bench, workspace: str) -> None:
    outcome = bench.run(
        'echo "$GREETING $PWD"; cat; [ "$TOKEN" = secret-value ] && echo known',
        workspace=workspace,
        env={"GREETING": "hello"},
        secrets={"TOKEN": "secret-value"},
        cwd="/tmp",
        stdin=b"from stdin\n",
    )
    assert succeeded(outcome, cold=False).split("\n") == ["hello /tmp", "from stdin", "known", ""]
    ready(bench)
    timed = bench.run("sleep 60", workspace=workspace, timeout_seconds=0.5)
    assert (timed.status, timed.started_cold) == (Status.TIMED_OUT, False)
    ready(bench)
    assert succeeded(bench.run("env; ps -e", workspace=workspace), cold=False).count("TOKEN") == 0


def test_other_limits_go_cold_and_are_the_next_prediction(bench: Bench, workspace: str) -> None:
    fewer = Limits(pids=64)
    succeeded(bench.run("true", workspace=workspace, limits=fewer), cold=True)
    ready(bench)
    text = succeeded(
        bench.run("cat /proc/self/limits >/dev/null; echo ok", workspace=workspace, limits=fewer),
        cold=False,
    )
    assert text == "ok\n"


def test_restore_and_fork_are_seen_by_the_next_command(bench: Bench, workspace: str) -> None:
    first = bench.run("echo one > f", workspace=workspace)
    ready(bench)
    succeeded(bench.run("echo two > f", workspace=workspace), cold=False)
    ready(bench)
    workspaces = bench.runner.workspaces
    bench.portal.call(workspaces.restore, workspace, first.snapshot_after)
    assert bench.run("cat f", workspace=workspace).preview.text == "one\n"
    ready(bench)
    bench.portal.call(workspaces.fork, workspace, f"{workspace}-fork")
    ready(bench)
    assert succeeded(bench.run("cat f", workspace=f"{workspace}-fork"), cold=False) == "one\n"
    ready(bench)
    bench.portal.call(workspaces.remove, f"{workspace}-fork")


def test_a_state_that_moved_on_elsewhere_makes_a_slot_useless(bench: Bench, workspace: str) -> None:
    done = bench.cli("exec", "-w", workspace, "echo elsewhere > f")
    assert done.returncode == 0, done.stderr
    assert succeeded(bench.run("cat f", workspace=workspace), cold=True) == "elsewhere\n"


def test_read_only_runs_get_read_only_slots(bench: Bench, workspace: str) -> None:
    bench.run("echo kept > f", workspace=workspace)
    ready(bench)
    bench.run("cat f", workspace=workspace, read_only=True)
    ready(bench)
    outcome = bench.run("cat f; echo no > f", workspace=workspace, read_only=True)
    assert outcome.started_cold is False
    assert outcome.status is Status.FAILED
    assert "Read-only file system" in outcome.preview.text
    ready(bench)
    succeeded(bench.run("echo yes > f", workspace=workspace), cold=True)


def test_a_slot_and_a_namespace_that_died_are_not_used(bench: Bench, workspace: str) -> None:
    for each in bench.runner.kept_ready:
        bench.docker("kill", each)
    assert succeeded(bench.run("echo lives", workspace=workspace), cold=True) == "lives\n"
    ready(bench)
    assert succeeded(bench.run("echo again", workspace=workspace), cold=False) == "again\n"


def test_a_namespace_belongs_to_one_workspace(bench: Bench, workspace: str) -> None:
    other = f"{workspace}-other"
    bench.portal.call(bench.runner.workspaces.create, other)
    spaces: dict[str, set[str]] = {workspace: set(), other: set()}
    for _ in range(3):
        for name, seen in spaces.items():
            ready(bench)
            seen.add(bench.run("readlink /proc/self/ns/net", workspace=name).preview.text)
    assert not spaces[workspace] & spaces[other]
    assert all(len(seen) <= 2 for seen in spaces.values())
    ready(bench)
    bench.portal.call(bench.runner.workspaces.remove, other)
    ready(bench)


def test_two_runs_at_once_never_share_a_namespace(bench: Bench, workspace: str) -> None:
    command = "readlink /proc/self/ns/net; sleep 0.5"

    async def both() -> list[Outcome]:
        first = await bench.runner.start(command, workspace=workspace, read_only=True)
        second = await bench.runner.start(command, workspace=workspace, read_only=True)
        return [await first.outcome(), await second.outcome()]

    for _ in range(3):
        texts = [each.preview.text for each in bench.portal.call(both)]
        assert len(set(texts)) == 2, texts
        ready(bench)


def test_a_workspace_with_a_slot_can_be_removed(bench: Bench, workspace: str) -> None:
    bench.portal.call(bench.runner.workspaces.remove, workspace)
    ready(bench)
    assert bench.leftovers() == []


def test_a_policy_attached_to_the_workspace_makes_its_slot_useless(
    bench: Bench, workspace: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    succeeded(bench.run("true", workspace=workspace), cold=False)
    ready(bench)
    policy = tmp_path_factory.mktemp("policy") / "narrow.toml"
    shipped = Path(str(files("sandboxrun").joinpath("_data/policies/rollout.toml"))).read_text()
    policy.write_text(shipped.replace('name = "rollout"', 'name = "narrow"'))
    for arguments in (("policy", "attach", workspace, str(policy)), ("consent", "give", workspace)):
        done = bench.cli(*arguments)
        assert done.returncode == 0, done.stderr
    succeeded(bench.run("true", workspace=workspace), cold=True)


def test_nothing_is_left_when_runs_and_slots_are_put_away(bench: Bench) -> None:
    assert bench.leftovers() == []
