"""The parts of workspaces that need nothing: merge policy, mount options, mount points, tars."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandboxrun.errors import EngineError, UsageError, WorkspaceLimitError
from sandboxrun.workspace.merge import DEPTH_CAP, how_many
from sandboxrun.workspace.seed import check_mount, from_archive, from_directory
from sandboxrun.workspace.store import mount_options


@given(st.lists(st.integers(0, 10_000), min_size=2, max_size=60))
def test_a_deep_stack_gets_shallow_and_a_shallow_one_is_left(sizes: list[int]) -> None:
    count = how_many(tuple(sizes))
    if len(sizes) < DEPTH_CAP:
        assert count == 0
    else:
        assert 2 <= count <= len(sizes) - 2
        assert len(sizes) - count + 1 < DEPTH_CAP


def test_a_path_is_merged_a_logarithmic_number_of_times() -> None:
    sizes, moved = [1, 1], 0
    for _ in range(2000):
        count = how_many(tuple(sizes))
        if count:
            moved += sum(sizes[:count])
            sizes = [sum(sizes[:count]), *sizes[count:]]
        sizes = [1, *sizes]
    assert moved < 2000 * 12


def test_mount_options_fit_or_say_so() -> None:
    lowers = tuple(f"{number:08x}" for number in range(17))
    options = mount_options("/var/lib/docker/volumes/sandboxrun-0123456789/_data", lowers, "up")
    assert "redirect_dir=on,index=off,metacopy=off,nosuid,nodev" in options
    assert options.count(":") == 16
    with pytest.raises(WorkspaceLimitError):
        mount_options("/" + "x" * 300, lowers, "up")
    for path in ("/a,b", "/a:b", '/a"b', "/a\\b"):
        with pytest.raises(EngineError):
            mount_options(path, lowers, "up")


@pytest.mark.parametrize(
    "path", ["", "x", "/", "/a/../b", "/a/", "/usr/x", "/proc", "/a,b", "/a\n"]
)
def test_mount_points_that_are_refused(path: str) -> None:
    with pytest.raises(UsageError):
        check_mount(path)


def test_mount_points_that_are_fine() -> None:
    for path in ("/workspace", "/testbed", "/home/user/repo", "/opt/x"):
        check_mount(path)


def archive(*members: tarfile.TarInfo) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for member in members:
            tar.addfile(member, io.BytesIO(b"x" * member.size))
    return buffer.getvalue()


def member(
    name: str, kind: bytes = tarfile.REGTYPE, link: str = "", size: int = 0
) -> tarfile.TarInfo:
    found = tarfile.TarInfo(name)
    found.type, found.linkname, found.size, found.mode = kind, link, size, 0o6755
    return found


def unpack(data: bytes, into: Path) -> int:
    fd = os.open(into, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return from_archive(data)(fd, os.getuid())
    finally:
        os.close(fd)


def test_an_archive_cannot_lead_outside(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    for each in (root, outside):
        each.mkdir()
    for name in ("../x", "top/../../x", "/etc/x"):
        with pytest.raises(UsageError):
            unpack(archive(member(name, size=1)), root)
    through = archive(
        member("top/link", tarfile.SYMTYPE, str(outside)), member("top/link/x", size=1)
    )
    with pytest.raises(UsageError, match="Not a directory"):
        unpack(through, root)
    assert list(outside.iterdir()) == []


def test_an_archive_keeps_what_it_may(tmp_path: Path) -> None:
    top = member("top", tarfile.DIRTYPE)
    data = archive(
        top, member("top/f", size=3), member("top/h", tarfile.LNKTYPE, "top/f"),
        member("top/s", tarfile.SYMTYPE, "f"), member("top/null", tarfile.CHRTYPE),
    )  # fmt: skip
    assert unpack(data, tmp_path) == 3
    assert (tmp_path / "f").read_bytes() == b"xxx"
    assert (tmp_path / "f").stat().st_mode & 0o7777 == 0o755
    assert (tmp_path / "f").stat().st_nlink == 2
    assert (tmp_path / "s").readlink() == Path("f")
    assert not (tmp_path / "null").exists()


def test_a_source_that_is_no_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        from_directory(tmp_path / "absent")
