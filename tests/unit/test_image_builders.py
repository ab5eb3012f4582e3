"""The pure parts of both builders."""

from __future__ import annotations

import io
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandboxrun.image.apt_host import HostApt
from sandboxrun.image.apt_sources import DEBIAN_KEYRING, AptSource
from sandboxrun.image.build import Builder, HostFacts, choose_builder
from sandboxrun.image.debootstrap import bootstrap_argv, image_changes, newest_date
from sandboxrun.image.dockerfile import build_context, render_dockerfile
from sandboxrun.image.progress import Meter, Progress, Stage
from sandboxrun.image.recipe import load_recipe

MIRROR = AptSource("http://mirror.example/debian", "bookworm", ("main",))
SECURITY = replace(MIRROR, uri="http://mirror.example/security", suite="bookworm-security")


def _members(context: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(context)) as tar:
        return {
            member.name: opened.read()
            for member in tar
            if (opened := tar.extractfile(member)) is not None
        }


def test_the_context_holds_the_recipe_the_host_and_the_dockerfile_alone() -> None:
    recipe = load_recipe()
    host = HostApt(files={"apt.conf": b"x", "keyrings/host-0.gpg": b"k"})
    members = _members(build_context(recipe, host))
    assert members == {
        "Dockerfile": render_dockerfile().encode(),
        **{f"recipe/{name}": content for name, content in recipe.files.items()},
        "recipe/host/apt.conf": b"x",
        "recipe/host/keyrings/host-0.gpg": b"k",
    }
    assert build_context(recipe, host) == build_context(load_recipe(), host)


def test_the_dockerfile_ends_in_a_stage_of_its_own_with_nothing_of_the_build() -> None:
    build, final = render_dockerfile().split("FROM scratch\n")
    # ARG BUILD stands before the packages: each build must fetch them anew.
    assert "ARG BASE=debian:bookworm-slim\nFROM ${BASE} AS build\nARG BUILD\n" in build
    assert [line.split()[0] for line in final.splitlines()] == ["COPY", "ENV", "WORKDIR", "CMD"]
    assert final.endswith('WORKDIR /workspace\nCMD ["/bin/bash"]\n')


def test_labels_are_quoted_for_the_engine() -> None:
    assert image_changes({"b": 'say "x"', "a": "1"})[-2:] == (
        'LABEL a="1"',
        'LABEL b="say \\"x\\""',
    )


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        ((), (f"--keyring={DEBIAN_KEYRING}", "bookworm", "/t")),
        ((SECURITY, MIRROR), (f"--keyring={DEBIAN_KEYRING}", "bookworm", "/t", MIRROR.uri)),
        (
            (replace(MIRROR, signed_by="/k.gpg"),),
            ("--keyring=/k.gpg", "bookworm", "/t", MIRROR.uri),
        ),
        (
            (replace(MIRROR, options=(("trusted", "yes"),)),),
            ("--no-check-gpg", "bookworm", "/t", MIRROR.uri),
        ),
    ],
)
def test_debootstrap_uses_the_hosts_mirror_and_trusts_what_the_host_trusts(
    sources: tuple[AptSource, ...], expected: tuple[str, ...]
) -> None:
    argv = bootstrap_argv(HostApt(sources=sources), Path("/t"))
    assert argv[argv.index("--variant=minbase") + 1 :] == expected


def test_the_newest_date_is_taken_and_nonsense_passed_over() -> None:
    dates = "Sat, 11 Jul 2026 10:16:37 UTC\nSun, 29 Nov 2026 00:53:13 UTC\nsoon\n\n"
    assert newest_date(dates) == 1795913593
    assert newest_date("") is None


@settings(deadline=None)
@given(st.text(max_size=100))
def test_any_text_has_a_newest_date_or_none(text: str) -> None:
    newest = newest_date(text)
    assert newest is None or isinstance(newest, int)


@settings(deadline=None)
@given(root=st.booleans(), debian=st.booleans(), tools=st.booleans())
def test_debootstrap_is_chosen_only_where_all_of_it_can_work(
    *, root: bool, debian: bool, tools: bool
) -> None:
    chosen = choose_builder(HostFacts(root=root, debian=debian, tools=tools))
    assert (chosen is Builder.DEBOOTSTRAP) == (root and debian and tools)


@settings(deadline=None)
@given(st.lists(st.sampled_from([*Stage, None]), max_size=60), st.integers(1, 2000))
def test_progress_never_goes_back_and_never_ends_early(
    steps: list[Stage | None], lines: int
) -> None:
    reports: list[Progress] = []
    meter = Meter(reports.append)
    for step in steps:
        if step is None:
            for _ in range(lines):
                meter.line("x")
        else:
            meter.enter(step, "y")
    fractions = [report.fraction for report in reports]
    assert fractions == sorted(fractions)
    assert all(0 <= fraction <= 1 for fraction in fractions)
