"""The volume of all workspaces is removed behind our back: what was in it is lost, nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from command_line import CommandLine, installed

pytestmark = [pytest.mark.engine, pytest.mark.docker]


@pytest.fixture
def sandboxrun(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    with installed(tmp_path_factory) as command_line:
        yield command_line


def test_only_what_was_in_it_is_lost(sandboxrun: CommandLine) -> None:
    for name in ("one", "two"):
        assert sandboxrun("workspace", "create", name).returncode == 0
        assert sandboxrun("exec", "-w", name, "echo kept > file").returncode == 0
    (store,) = sandboxrun.volumes("label=sandboxrun.role=store")
    sandboxrun.docker("volume", "rm", store)

    assert sandboxrun("exec", "echo here").stdout == b"here\n"
    assert [row["name"] for row in sandboxrun.json("workspace", "list")] == ["one", "two"]
    for arguments in (("exec", "-w", "one"), ("exec", "--read-only", "-w", "one")):
        lost = sandboxrun(*arguments, "--json", "cat file")
        outcome = json.loads(lost.stdout)
        assert (lost.returncode, outcome["status"]) == (121, "workspace_lost")
        assert store in outcome["reason"]
        assert "workspace remove" in outcome["reason"]

    assert sandboxrun("workspace", "create", "three").returncode == 0
    assert sandboxrun("exec", "-w", "three", "echo new > file; cat file").stdout == b"new\n"
    assert sandboxrun("workspace", "remove", "one").returncode == 0
    assert sandboxrun("exec", "-w", "two", "true").returncode == 121
    assert sandboxrun("workspace", "remove", "two").returncode == 0
    assert sandboxrun("workspace", "create", "one").returncode == 0
    assert sandboxrun("exec", "-w", "one", "ls file").returncode == 2
    assert sandboxrun("exec", "-w", "three", "cat file").stdout == b"new\n"
