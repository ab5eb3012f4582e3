"""The state directory: what is refused, what survives being swapped, and its locks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sandboxrun.errors import StateError
from sandboxrun.state.directory import StateDirectory

pytestmark = pytest.mark.anyio


def test_it_is_made_for_its_owner_only(tmp_path: Path) -> None:
    with StateDirectory.open(tmp_path / "a" / "b") as directory:
        assert directory.path.stat().st_mode & 0o7777 == 0o700
        for below in (directory.runs, directory.engine, directory.spool, directory.audit):
            assert below.stat().st_mode & 0o7777 == 0o700


def test_the_installation_keeps_its_id(tmp_path: Path) -> None:
    with StateDirectory.open(tmp_path / "s") as first:
        pass
    with StateDirectory.open(tmp_path / "s") as second:
        assert second.installation_id == first.installation_id
    with StateDirectory.open(tmp_path / "other") as other:
        assert other.installation_id != first.installation_id
    assert not list((tmp_path / "s").glob("inst-*"))


def test_a_symbolic_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to("real")
    with pytest.raises(StateError, match="symbolic link") as refused:
        StateDirectory.open(tmp_path / "link")
    assert "SANDBOXRUN_STATE_DIR" in refused.value.advice
    assert not list((tmp_path / "real").iterdir())


def test_a_dangling_symbolic_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nowhere")
    with pytest.raises(StateError, match="symbolic link"):
        StateDirectory.open(tmp_path / "link")
    assert not (tmp_path / "nowhere").exists()


def test_a_symbolic_link_among_its_parents_is_resolved_once(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with StateDirectory.open(tmp_path / "link" / "s") as directory:
        assert directory.path == tmp_path / "real" / "s"


@pytest.mark.parametrize("name", ["runs", "engine", "spool", "locks", "audit"])
def test_a_symbolic_link_inside_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "s").mkdir(mode=0o700)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "s" / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StateError, match=f"{name} is not a directory"):
        StateDirectory.open(tmp_path / "s")
    assert not list((tmp_path / "elsewhere").iterdir())


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777, 0o1777, 0o720])
def test_what_others_may_write_is_refused(tmp_path: Path, mode: int) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s").chmod(mode)
    with pytest.raises(StateError, match=f"mode {mode:04o}") as refused:
        StateDirectory.open(tmp_path / "s")
    assert "chmod 700" in refused.value.advice
    assert not list((tmp_path / "s").iterdir())


def test_what_others_may_only_read_is_used(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir(mode=0o755)
    with StateDirectory.open(tmp_path / "s") as directory:
        assert directory.runs.stat().st_mode & 0o7777 == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_the_directory_of_another_user_is_refused(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir(mode=0o700)
    os.chown(tmp_path / "s", 12345, 12345)
    with pytest.raises(StateError, match="belongs to uid 12345") as refused:
        StateDirectory.open(tmp_path / "s")
    assert "SANDBOXRUN_STATE_DIR" in refused.value.advice


def test_a_file_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("mine")
    with pytest.raises(StateError, match="not a directory"):
        StateDirectory.open(tmp_path / "s")
    assert (tmp_path / "s").read_text() == "mine"


def test_a_file_among_its_parents_is_refused(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("mine")
    with pytest.raises(StateError):
        StateDirectory.open(tmp_path / "f" / "s")


def test_a_swap_after_opening_has_no_effect(tmp_path: Path) -> None:
    with StateDirectory.open(tmp_path / "s") as directory:
        (tmp_path / "s").rename(tmp_path / "moved")
        (tmp_path / "trap" / "locks").mkdir(parents=True)
        (tmp_path / "s").symlink_to("trap")
        held = directory.try_lock("x", exclusive=True)
        assert held is not None
        os.close(held)
    assert (tmp_path / "moved" / "locks" / "x").exists()
    assert not list((tmp_path / "trap" / "locks").iterdir())


async def test_an_exclusive_lock_excludes_and_names_its_holder(tmp_path: Path) -> None:
    with StateDirectory.open(tmp_path / "s") as directory:
        async with directory.lock("x", exclusive=True, wait_seconds=0):
            assert directory.lock_holders("x") == (os.getpid(),)
            with pytest.raises(StateError, match=f"pid {os.getpid()}"):
                async with directory.lock("x", exclusive=False, wait_seconds=0.05):
                    pass
        async with directory.lock("x", exclusive=True, wait_seconds=0):
            pass


async def test_shared_locks_share(tmp_path: Path) -> None:
    with StateDirectory.open(tmp_path / "s") as directory:
        async with (
            directory.lock("x", exclusive=False, wait_seconds=0),
            directory.lock("x", exclusive=False, wait_seconds=0),
        ):
            assert directory.try_lock("x", exclusive=True) is None


def test_a_killed_holder_leaves_no_lock(tmp_path: Path) -> None:
    script = (
        "import sys, pathlib; from sandboxrun.state.directory import StateDirectory;"
        "d = StateDirectory.open(pathlib.Path(sys.argv[1]));"
        "d.try_lock('x', exclusive=True); print('held', flush=True); sys.stdin.read()"
    )
    with (
        StateDirectory.open(tmp_path / "s") as directory,
        subprocess.Popen(
            [sys.executable, "-c", script, str(tmp_path / "s")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as holder,
    ):
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert directory.try_lock("x", exclusive=True) is None
        assert directory.lock_holders("x") == (holder.pid,)
        holder.kill()
        holder.wait()
        held = directory.try_lock("x", exclusive=True)
        assert held is not None
        os.close(held)


def test_a_lock_cannot_be_named_out_of_its_directory(tmp_path: Path) -> None:
    with StateDirectory.open(tmp_path / "s") as directory, pytest.raises(ValueError, match="name"):
        directory.try_lock("../x", exclusive=True)


def test_opening_and_closing_leaks_no_descriptor(tmp_path: Path) -> None:
    def count() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    with StateDirectory.open(tmp_path / "s"):
        pass
    before = count()
    for _ in range(5):
        with StateDirectory.open(tmp_path / "s"):
            pass
        (tmp_path / "s").chmod(0o777)
        with pytest.raises(StateError):
            StateDirectory.open(tmp_path / "s")
        (tmp_path / "s").chmod(0o700)
    assert count() == before
