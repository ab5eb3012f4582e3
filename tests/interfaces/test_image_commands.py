"""`sandboxrun image` as a caller sees it: JSON, exit statuses, what is left behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from real_engine import engine_url
from sandboxrun.errors import ImageUnusableError
from sandboxrun.image.recipe import load_recipe
from sandboxrun.interfaces.cli.image import app

pytestmark = [pytest.mark.engine, pytest.mark.docker, pytest.mark.timeout(900)]


def _run(state: Path, *arguments: str, status: int = 0) -> Any:
    env = {"SANDBOXRUN_STATE_DIR": str(state), "SANDBOXRUN_ENGINE": engine_url()}
    result = CliRunner().invoke(app, [*arguments, "--json"], env=env)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == status
    return json.loads(result.stdout)


def test_an_image_of_this_recipe_is_not_built_twice(tmp_path: Path) -> None:
    first = _run(tmp_path, "build", "--if-missing")
    again = _run(tmp_path, "build", "--if-missing")
    assert (again["built"], again["builder"], again["image"]) == (False, None, first["image"])
    assert again["recipe"] == load_recipe().digest
    listed = {row["image"]: row for row in _run(tmp_path, "list")}
    assert listed[first["image"]]["current"] is True
    assert first["tag"] in listed[first["image"]]["tags"]


def test_the_workspace_image_is_usable_and_lacks_nothing(tmp_path: Path) -> None:
    built = _run(tmp_path, "build", "--if-missing")
    report = _run(tmp_path, "check")
    assert report == {
        "reference": built["tag"],
        "image": built["image"],
        "usable": True,
        "exec_form": True,
        "lacks": [],
    }


def test_an_unknown_image_is_a_fault_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(ImageUnusableError, match="no image nothing/here:0"):
        _run(tmp_path, "check", "nothing/here:0")
