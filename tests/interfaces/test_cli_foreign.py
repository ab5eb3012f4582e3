"""What a deleted state directory leaves on the engine is found again, and only that is removed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import CommandLine, cleaned, command_line_at, installed

pytestmark = [pytest.mark.engine, pytest.mark.docker]


@pytest.fixture(scope="module")
def sandboxrun(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    with installed(tmp_path_factory) as command_line:
        yield command_line


@pytest.fixture
def other(tmp_path: Path) -> Iterator[CommandLine]:
    command_line = command_line_at(tmp_path / "other", tmp_path)
    with cleaned(command_line):
        yield command_line


def listed(sandboxrun: CommandLine, installation: str) -> dict[str, Any] | None:
    rows = sandboxrun.json("gc")["foreign"]
    found = [row for row in rows if row["installation"] == installation]
    return found[0] if found else None


def test_a_living_installation_is_never_touched(
    sandboxrun: CommandLine, other: CommandLine
) -> None:
    assert other("workspace", "create", "kept").returncode == 0
    assert listed(sandboxrun, other.installation) is None
    done = sandboxrun("gc", "--foreign", other.installation)
    assert done.returncode == 2
    assert str(other.state).encode() in done.stderr
    assert other("exec", "-w", "kept", "true").returncode == 0


def test_what_a_deleted_one_left_is_listed_and_removed_when_named(
    sandboxrun: CommandLine, other: CommandLine
) -> None:
    assert other("workspace", "create", "lost").returncode == 0
    name, volumes = other.installation, other.volumes()
    shutil.rmtree(other.state)
    row = listed(sandboxrun, name)
    assert row is not None
    assert (row["gone"], row["volumes"]) == (True, volumes)
    assert row["state"].endswith(f":{other.state}")
    told = sandboxrun("gc").stdout.decode()
    assert f"{name}  0 containers and 1 volume; its state directory" in told
    assert f"Removed 0 containers and 1 volume of {name}." in (
        sandboxrun("gc", "--foreign", name).stdout.decode()
    )
    assert listed(sandboxrun, name) is None
    assert sandboxrun("gc", "--foreign", name).returncode == 2
    assert sandboxrun("gc", "--foreign", sandboxrun.installation).returncode == 2


def test_a_run_that_goes_on_shows_that_it_lives(
    sandboxrun: CommandLine, other: CommandLine
) -> None:
    assert other("exec", "true").returncode == 0
    name, elsewhere = other.installation, other.state.with_name("moved")
    with other.running("exec", "sleep 60") as (process, _):
        other.state.rename(elsewhere)
        assert listed(sandboxrun, name) is None
        done = sandboxrun("gc", "--foreign", name)
        assert done.returncode == 2
        assert f"The process {process.pid} uses it".encode() in done.stderr
        elsewhere.rename(other.state)
        process.terminate()
        process.communicate(timeout=60)
