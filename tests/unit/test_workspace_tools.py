"""git and make stay right across runs, restores, forks and merges of layers."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.workspace_model import Sheaf

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="overlay mounts need root")
GIT = (
    "git", "-c", "core.checkStat=minimal", "-c", "core.trustctime=false", "-c", "user.name=x",
    "-c", "user.email=x@example.org", "-c", "safe.directory=*",
)  # fmt: skip
MAKEFILE = "out: in\n\t@echo built\n\t@cp in out\n"


def run(point: Path, *argv: str) -> str:
    return subprocess.run(argv, cwd=point, check=True, capture_output=True, text=True).stdout


@pytest.mark.skipif(shutil.which("git") is None, reason="no git")
def test_git_sees_no_change_that_is_none(tmp_path: Path) -> None:
    sheaf = Sheaf(tmp_path)
    with sheaf.writing() as point:
        run(point, *GIT, "init", "-q")
        for number in range(20):
            (point / f"d{number % 4}").mkdir(exist_ok=True)
            (point / f"d{number % 4}" / f"f{number}").write_text(str(number))
        run(point, *GIT, "add", "-A")
        run(point, *GIT, "commit", "-qm", "one")
    fork = sheaf.stack
    with sheaf.writing() as point:
        assert run(point, *GIT, "status", "--porcelain") == ""
        run(point, *GIT, "mv", "d0", "moved")
        assert run(point, *GIT, "status", "--porcelain").count("R  ") == 5
        run(point, *GIT, "commit", "-qm", "two")
    with sheaf.writing() as point:
        run(point, *GIT, "mv", "moved/f0", "d1/f0")
        run(point, *GIT, "commit", "-qm", "three")
    for count in (0, 2, 2):
        if count:
            sheaf.merge(count)
        with sheaf.writing() as point:
            assert run(point, *GIT, "diff-files", "--name-only") == "", "no stat entry is stale"
            assert run(point, *GIT, "status", "--porcelain") == ""
            assert run(point, *GIT, "fsck", "--strict") == ""
    sheaf.stack = fork
    with sheaf.writing() as point:
        assert run(point, *GIT, "diff-files", "--name-only") == ""
        assert run(point, *GIT, "status", "--porcelain") == ""
        assert run(point, *GIT, "log", "--format=%s").split() == ["one"]


@pytest.mark.skipif(shutil.which("make") is None, reason="no make")
def test_make_rebuilds_only_what_changed(tmp_path: Path) -> None:
    sheaf = Sheaf(tmp_path)
    with sheaf.writing() as point:
        (point / "Makefile").write_text(MAKEFILE)
        (point / "in").write_text("1")
        os.utime(point / "in", ns=(1, 1))
        assert "built" in run(point, "make")
    built = sheaf.stack
    with sheaf.writing() as point:
        assert "built" not in run(point, "make")
        (point / "in").write_text("2")
        assert "built" in run(point, "make")
    sheaf.merge(2)
    with sheaf.writing() as point:
        assert "built" not in run(point, "make")
    sheaf.stack = built
    with sheaf.writing() as point:
        assert "built" not in run(point, "make")
