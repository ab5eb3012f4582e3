"""The recipe: the package list, the uid pool, the digest that names them all."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandboxrun.errors import ConfigurationError
from sandboxrun.image import pool
from sandboxrun.image.recipe import LABEL_RECIPE, load_recipe, parse_packages, recipe_from
from sandboxrun.model.uids import UID_COUNT, UID_FIRST

NAMES = st.from_regex(re.compile(r"[a-z0-9][a-z0-9+.-]{1,20}", re.ASCII), fullmatch=True)
PROMISED = (
    *("bash", "coreutils", "findutils", "grep", "sed", "gawk", "git", "python3", "python3-venv"),
    *("python3-pip", "jq", "ripgrep", "patch", "file", "less", "make", "tar", "gzip", "xz-utils"),
    *("zstd", "ca-certificates"),
)


@settings(deadline=None)
@given(st.lists(NAMES, min_size=1, max_size=20, unique=True), st.data())
def test_a_list_gives_its_names_whatever_surrounds_them(
    names: list[str], data: st.DataObject
) -> None:
    around = st.sampled_from(["", "\n", "# a comment\n", "   \n", "\t# bash\n"])
    after = st.sampled_from(["", "  ", " # why", "#why"])
    text = "".join(f"{data.draw(around)} {name}{data.draw(after)}\n" for name in names)
    assert parse_packages(text) == tuple(names)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# nothing\n",
        "bash\nbash\n",
        "bash coreutils\n",
        "-o\n",
        "--allow-downgrades\n",
        "Bash\n",
        "bash;id\n",
        "a\n",
        "$(id)\n",
    ],
)
def test_a_list_that_could_mean_something_else_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError):
        parse_packages(text)


@settings(deadline=None)
@given(st.text(max_size=200))
def test_no_text_yields_a_name_that_apt_takes_for_an_option(text: str) -> None:
    try:
        names = parse_packages(text)
    except ConfigurationError:
        return
    assert all(re.fullmatch(r"[a-z0-9][a-z0-9+.-]+", name, re.ASCII) for name in names)


def test_the_shipped_list_has_what_is_promised() -> None:
    assert set(PROMISED) <= set(load_recipe().packages)


def test_every_uid_of_the_pool_has_one_passwd_and_one_group_line() -> None:
    users = [line.split(":") for line in pool.passwd_entries().splitlines()]
    groups = [line.split(":") for line in pool.group_entries().splitlines()]
    expected = [str(uid) for uid in range(UID_FIRST, UID_FIRST + UID_COUNT)]
    assert [user[2] for user in users] == expected
    assert [user[3] for user in users] == expected
    assert [group[2] for group in groups] == expected
    assert {tuple(user[:2] + user[4:]) for user in users} == {
        ("agent", "x", "agent", "/workspace/.home", "/bin/bash")
    }
    assert {tuple(group[:2] + group[3:]) for group in groups} == {("agent", "x", "")}


@pytest.mark.parametrize("name", ["packages.txt", "install.sh", "finish.sh", "gitconfig"])
def test_any_change_of_a_file_changes_the_digest_and_no_file_may_lack(
    name: str, tmp_path: Path
) -> None:
    for file, content in load_recipe().files.items():
        (tmp_path / file).write_bytes(content)
    before = recipe_from(tmp_path)
    assert before.digest == load_recipe().digest
    with (tmp_path / name).open("ab") as file_to_change:
        file_to_change.write(b"# changed\n")
    after = recipe_from(tmp_path)
    assert after.digest != before.digest
    assert after.packages_digest == before.packages_digest
    assert after.labels("1")[LABEL_RECIPE] == after.digest
    (tmp_path / name).unlink()
    with pytest.raises(ConfigurationError, match=name):
        recipe_from(tmp_path)


def test_the_packages_digest_is_of_the_names_not_of_their_order(tmp_path: Path) -> None:
    for file, content in load_recipe().files.items():
        (tmp_path / file).write_bytes(content)
    digests = set()
    for text in ("bash\njq\n", "# sorted\njq\nbash\n"):
        (tmp_path / "packages.txt").write_text(text)
        digests.add(recipe_from(tmp_path).packages_digest)
    assert len(digests) == 1
