"""Tools of the system: their failures, their ends, and the directory they work in."""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from sandboxrun.errors import ImageBuildError, InstallError
from sandboxrun.image.process import run_tool, tool_output
from sandboxrun.image.tree import build_directory

pytestmark = pytest.mark.anyio
ENV = {"PATH": "/usr/bin:/bin"}


def _is_there(path: Path) -> bool:
    return path.exists()


def _names(path: Path) -> list[str]:
    return [entry.name for entry in path.iterdir()]


async def test_lines_of_both_streams_arrive_even_the_last_without_newline() -> None:
    lines: list[str] = []
    script = "echo one; echo two >&2; printf '\\377three'"
    await run_tool(("sh", "-c", script), env=ENV, on_line=lines.append)
    assert lines == ["one", "two", "\ufffdthree"]


async def test_a_failed_tool_is_told_with_its_status_and_last_lines() -> None:
    script = "for i in $(seq 100); do echo line $i; done; exit 7"
    with pytest.raises(ImageBuildError, match=r"status 7:\n(?s:.)*line 100$") as failed:
        await run_tool(("sh", "-c", script), env=ENV, on_line=lambda _: None)
    assert "line 50\n" not in str(failed.value)


async def test_an_absent_tool_is_named() -> None:
    with pytest.raises(InstallError, match="no-such-tool"):
        await run_tool(("no-such-tool",), env=ENV, on_line=lambda _: None)


async def test_a_tool_sees_only_the_environment_it_is_given() -> None:
    lines: list[str] = []
    await run_tool(("env",), env={"PATH": "/usr/bin:/bin", "A": "b"}, on_line=lines.append)
    assert sorted(lines) == ["A=b", "PATH=/usr/bin:/bin"]


async def test_cancelling_ends_the_tool_before_it_returns() -> None:
    pids: list[int] = []
    with anyio.CancelScope() as scope:

        def note(line: str) -> None:
            pids.append(int(line))
            scope.cancel()

        await run_tool(("sh", "-c", "echo $$; exec sleep 1000"), env=ENV, on_line=note)
    assert scope.cancelled_caught
    (pid,) = pids
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_output_of_a_failed_tool_never_looks_complete() -> None:
    received = b""
    script = "printf half; echo reason >&2; exit 3"
    async with tool_output(("sh", "-c", script), env=ENV) as chunks:
        received += await anext(chunks)
        with pytest.raises(ImageBuildError, match="status 3: reason"):
            await anext(chunks)
    assert received == b"half"


async def test_whole_output_arrives_unchanged() -> None:
    received = bytearray()
    async with tool_output(("head", "-c", "3000000", "/dev/zero"), env=ENV) as chunks:
        async for chunk in chunks:
            received += chunk
    assert received == bytes(3_000_000)


async def test_output_nobody_reads_to_its_end_is_given_up() -> None:
    with anyio.fail_after(30):
        async with tool_output(("yes",), env=ENV) as chunks:
            async for _ in chunks:
                break


async def test_the_directory_goes_with_its_body_even_when_cancelled(tmp_path: Path) -> None:
    parent = tmp_path / "state" / "build"
    before = os.umask(0o077)
    try:
        with anyio.CancelScope() as scope:
            async with build_directory(parent) as tree:
                assert stat.S_IMODE(tree.stat().st_mode) == 0o755
                (tree / "dir").mkdir(mode=0)
                (tree / "link").symlink_to("/")
                scope.cancel()
                await anyio.sleep_forever()
    finally:
        os.umask(before)
    assert scope.cancelled_caught
    assert _names(parent) == []
    assert stat.S_IMODE(parent.parent.stat().st_mode) == 0o700


async def test_directories_of_dead_builders_are_removed_and_of_living_ones_kept(
    tmp_path: Path,
) -> None:
    script = (
        "import sys, anyio; from pathlib import Path;"
        "from sandboxrun.image.tree import build_directory\n"
        "async def main():\n"
        "    async with build_directory(Path(sys.argv[1])) as tree:\n"
        "        print(tree, flush=True); await anyio.sleep_forever()\n"
        "anyio.run(main)\n"
    )
    builder = subprocess.Popen(  # noqa: ASYNC220 - killed, never waited for by the loop
        [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    with contextlib.closing(builder.stdout) if builder.stdout else contextlib.nullcontext() as out:
        assert out is not None
        tree = Path((await anyio.to_thread.run_sync(out.readline)).strip())
        async with build_directory(tmp_path):
            assert _is_there(tree)
        builder.kill()
        await anyio.to_thread.run_sync(builder.wait)
        assert _is_there(tree)
        async with build_directory(tmp_path):
            assert not _is_there(tree.parent)
    assert _names(tmp_path) == []
