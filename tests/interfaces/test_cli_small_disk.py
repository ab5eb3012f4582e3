"""A state directory on a disk that fills up: said in one line, and what ended is recorded."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import CommandLine, cleaned, command_line_at

pytestmark = [
    pytest.mark.engine,
    pytest.mark.docker,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs a mount"),
]

MIB = 1024 * 1024
FIREHOSE = "head -c 30000000 /dev/zero | tr '\\0' 'a\\n'; echo the end"


@pytest.fixture
def sandboxrun(tmp_path: Path) -> Iterator[CommandLine]:
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m,mode=700", "tmpfs", place], check=True)
    try:
        command_line = command_line_at(place / "s", tmp_path)
        with cleaned(command_line):
            yield command_line
    finally:
        subprocess.run(["umount", place], check=True)


def fill(state: Path, *, leave: int) -> Path:
    """Take all space of the disk but ``leave`` bytes."""
    filler = state.parent / "filler"
    with filler.open("ab", buffering=0) as file:
        found = os.fstatvfs(file.fileno())
        file.write(bytes(max(found.f_bavail * found.f_frsize - leave, 0)))
    return filler


def test_output_that_does_not_fit_is_no_success(sandboxrun: CommandLine) -> None:
    assert sandboxrun("exec", "true").returncode == 0
    done = sandboxrun("exec", FIREHOSE)
    assert done.returncode == 125
    assert b"not all of its output could be written down" in done.stderr
    assert b"No space left" in done.stderr
    assert b"Traceback" not in done.stderr
    assert len(done.stdout) < 8 * MIB
    (row, _) = sandboxrun.json("runs", "list")
    shown = sandboxrun.json("runs", "show", row["run_id"])["outcome"]
    assert (shown["status"], shown["exit_code"]) == ("engine_failed", 0)
    assert shown["preview"]["total_bytes"] == 30_000_000 + len("the end\n")
    assert shown["preview"]["text"].endswith("the end\n")


def test_a_run_does_not_begin_on_a_full_disk_and_gc_makes_room(sandboxrun: CommandLine) -> None:
    assert sandboxrun("exec", "true").returncode == 0
    assert sandboxrun("exec", FIREHOSE).returncode == 125
    for arguments in (("exec", "true"), ("exec", "--json", "true")):
        done = sandboxrun(*arguments)
        assert done.returncode == 125
        assert b"No space left" in done.stderr
        assert b"Traceback" not in done.stderr
    assert json.loads(done.stdout)["error"]["exit_status"] == 125
    assert sandboxrun("gc", "--runs-days", "0").returncode == 0
    assert sandboxrun("exec", "echo again").stdout == b"again\n"


def test_an_end_that_cannot_be_recorded_is_no_success(sandboxrun: CommandLine) -> None:
    assert sandboxrun("exec", "true").returncode == 0
    with sandboxrun.running("exec", "--json", "sleep 2; echo done") as (process, _):
        filler = fill(sandboxrun.state, leave=0)
        stdout, stderr = process.communicate(timeout=60)
    outcome = json.loads(stdout)
    assert (outcome["status"], process.returncode) == ("engine_failed", 125), outcome
    assert "could not be recorded" in outcome["reason"]
    assert b"Traceback" not in stderr
    for arguments in (("exec", "true"), ("runs", "list"), ("gc",)):
        assert b"Traceback" not in sandboxrun(*arguments).stderr
    filler.unlink()
    assert sandboxrun("exec", "true").returncode == 0
    statuses = {row["run_id"]: row["status"] for row in sandboxrun.json("runs", "list")}
    assert statuses[outcome["run_id"]] == "lost"
