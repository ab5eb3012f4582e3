"""What is said of an image, judged from facts and gathered from a file system in memory."""

from __future__ import annotations

import io
import posixpath
import tarfile
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandboxrun.engine.protocol import ImageInfo
from sandboxrun.errors import EngineError
from sandboxrun.image.check import (
    ImageProbe,
    PathKind,
    PathStat,
    evaluate,
    gather,
    join_link,
)
from sandboxrun.image.look import parse_stat
from sandboxrun.image.requirements import REQUIREMENTS, Severity

NAMES = [requirement.name for requirement in REQUIREMENTS]
PROGRAM = PathStat(PathKind.FILE, 0o755)
DIRECTORY = PathStat(PathKind.DIRECTORY, 0o755)
INFO = ImageInfo(
    id="sha256:" + "0" * 64,
    tags=("any:1",),
    os="linux",
    architecture="amd64",
    env=(),
    labels={"sandboxrun.image": "workspace"},
    size_bytes=1,
    created="2026-01-01T00:00:00Z",
    user="",
    volumes=(),
)


def _complete() -> ImageProbe:
    return ImageProbe(INFO, "x86_64", {name: f"/usr/bin/{name}" for name in NAMES}, None)


def _link(target: str) -> PathStat:
    return PathStat(PathKind.SYMLINK, 0o777, target)


async def _find(files: Mapping[str, PathStat], name: str, info: ImageInfo = INFO) -> str | None:
    async def look(path: str) -> PathStat | None:
        assert posixpath.normpath(path) == path
        return files.get(path)

    return (await gather(info, "amd64", look)).found[name]


def test_a_complete_image_lacks_nothing() -> None:
    report = evaluate(_complete())
    assert (report.usable, report.exec_form, report.lacks) == (True, True, ())


def test_without_bash_only_programs_can_run() -> None:
    probe = _complete()
    report = evaluate(replace(probe, found={**probe.found, "bash": None}))
    assert (report.usable, report.exec_form) == (False, True)
    assert [(lack.name, lack.severity) for lack in report.lacks] == [("bash", Severity.SHELL)]


@settings(deadline=None)
@given(st.sets(st.sampled_from(NAMES)))
def test_each_absent_thing_is_named_once_and_only_bash_decides(absent: set[str]) -> None:
    probe = _complete()
    found = {name: None if name in absent else path for name, path in probe.found.items()}
    report = evaluate(replace(probe, found=found))
    assert sorted(lack.name for lack in report.lacks) == sorted(absent)
    assert report.usable == ("bash" not in absent)
    assert report.exec_form
    order = [tuple(Severity).index(lack.severity) for lack in report.lacks]
    assert order == sorted(order)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"info": replace(INFO, os="windows")}, "os"),
        ({"info": replace(INFO, architecture="arm64")}, "architecture"),
        ({"engine_architecture": "aarch64"}, "architecture"),
        ({"workspace": _link("/etc")}, "workspace"),
        ({"workspace": PROGRAM}, "workspace"),
    ],
)
def test_what_no_command_can_run_on_is_fatal(change: dict[str, object], name: str) -> None:
    report = evaluate(replace(_complete(), **change))  # type: ignore[arg-type]
    assert (report.usable, report.exec_form) == (False, False)
    assert (report.lacks[0].name, report.lacks[0].severity) == (name, Severity.FATAL)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"volumes": ("/var/lib/data",)}, "volumes"),
        ({"labels": {}}, "passwd"),
    ],
)
def test_what_only_works_less_well_is_a_note(change: dict[str, object], name: str) -> None:
    report = evaluate(replace(_complete(), info=replace(INFO, **change)))  # type: ignore[arg-type]
    assert report.usable
    assert [(lack.name, lack.severity) for lack in report.lacks] == [(name, Severity.NOTE)]


def test_a_workspace_directory_of_the_image_is_a_note_for_podman() -> None:
    report = evaluate(replace(_complete(), workspace=DIRECTORY))
    assert report.usable
    assert [(lack.name, lack.severity) for lack in report.lacks] == [("workspace", Severity.NOTE)]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"/usr/bin/git": PROGRAM}, "/usr/bin/git"),
        ({"/usr/local/bin/git": PROGRAM, "/usr/bin/git": PROGRAM}, "/usr/local/bin/git"),
        ({"/usr/bin/git": _link("../lib/git"), "/usr/lib/git": PROGRAM}, "/usr/bin/git"),
        ({"/usr/bin/git": _link("/opt/git"), "/opt/git": PROGRAM}, "/usr/bin/git"),
        ({"/bin/git": _link("../../../opt/git"), "/opt/git": PROGRAM}, "/bin/git"),
        ({"/usr/bin/git": _link("/opt/git")}, None),
        ({"/usr/bin/git": _link("git")}, None),
        ({"/usr/bin/git": _link("a"), "/usr/bin/a": _link("git")}, None),
        ({"/usr/bin/git": _link("")}, None),
        ({"/usr/bin/git": DIRECTORY}, None),
        ({"/usr/bin/git": PathStat(PathKind.FILE, 0o750)}, None),
        ({"/opt/bin/git": PROGRAM}, None),
    ],
)
async def test_a_program_is_found_as_a_stranger_would_find_it(
    files: dict[str, PathStat], found: str | None
) -> None:
    assert await _find(files, "git") == found


@pytest.mark.anyio
async def test_the_images_own_path_is_searched_and_relative_entries_passed_over() -> None:
    info = replace(INFO, env=("A=b", "PATH=.:/opt/bin/::bin:/opt/bin"))
    files = {"/opt/bin/git": PROGRAM, "/usr/bin/jq": PROGRAM}
    assert await _find(files, "git", info) == "/opt/bin/git"
    assert await _find(files, "jq", info) is None


@pytest.mark.anyio
async def test_files_that_are_read_need_not_be_executable() -> None:
    readable = {"/etc/gitconfig": PathStat(PathKind.FILE, 0o644)}
    assert await _find(readable, "gitconfig") == "/etc/gitconfig"
    secret = {"/etc/gitconfig": PathStat(PathKind.FILE, 0o600)}
    assert await _find(secret, "gitconfig") is None


@settings(deadline=None)
@given(
    st.text("ab/.", min_size=1, max_size=12).map(lambda path: "/" + path),
    st.text("ab/.", min_size=1, max_size=12),
)
def test_no_link_leads_above_the_root(path: str, target: str) -> None:
    joined = join_link(path, target)
    assert joined.startswith("/")
    assert not {"..", ".", ""} & set(joined[1:].split("/")) or joined == "/"
    if not target.startswith("/") and "." not in path + target and "//" not in path + target:
        assert joined == posixpath.normpath(posixpath.join(posixpath.dirname(path), target))


def _tar(*members: tarfile.TarInfo) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for member in members:
            tar.addfile(member)
    return packed.getvalue()


@settings(deadline=None)
@given(
    st.sampled_from(
        [
            (tarfile.REGTYPE, PathKind.FILE),
            (tarfile.DIRTYPE, PathKind.DIRECTORY),
            (tarfile.SYMTYPE, PathKind.SYMLINK),
            (tarfile.FIFOTYPE, PathKind.OTHER),
            (tarfile.CHRTYPE, PathKind.OTHER),
        ]
    ),
    st.integers(0, 0o7777),
    st.text("abc/.", min_size=1, max_size=90),
)
def test_the_first_member_is_what_the_path_is(
    kind: tuple[bytes, PathKind], mode: int, target: str
) -> None:
    member = tarfile.TarInfo("bash")
    member.type, member.mode, member.linkname = kind[0], mode, target
    seen = parse_stat(_tar(member, tarfile.TarInfo("second")))
    assert seen == PathStat(kind[1], mode, target if kind[1] is PathKind.SYMLINK else None)


@settings(deadline=None)
@given(st.binary(max_size=2000))
def test_an_archive_of_any_bytes_is_read_or_refused(data: bytes) -> None:
    try:
        seen = parse_stat(data)
    except EngineError:
        return
    assert isinstance(seen.kind, PathKind)


@settings(deadline=None)
@given(st.integers(0, 511), st.integers(0, 255))
def test_a_damaged_header_is_read_or_refused(position: int, value: int) -> None:
    member = tarfile.TarInfo("bash")
    damaged = bytearray(_tar(member))
    damaged[position] = value
    try:
        parse_stat(bytes(damaged))
    except EngineError:
        return
