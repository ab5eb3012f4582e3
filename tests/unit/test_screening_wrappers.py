"""The delegation table: each entry's own examples."""

from __future__ import annotations

import shlex

import pytest

from sandboxrun.screening import Facts, screen
from sandboxrun.screening.judging.tables import RAISERS
from sandboxrun.screening.judging.wrappers import WRAPPERS

_DELEGATING = sorted(name for name in WRAPPERS if name not in RAISERS and name != "coverage")


def _runs_sudo(facts: Facts) -> bool:
    names = (command.words[0].text or "" for command in facts.commands)
    return any(name.rpartition("/")[2] == "sudo" for name in names)


@pytest.mark.parametrize("name", _DELEGATING)
def test_the_inner_command_of_the_example_is_found(name: str) -> None:
    example = WRAPPERS[name].match
    facts = screen(example)
    assert _runs_sudo(facts), example
    assert "privilege.raise" in {finding.code for finding in facts.findings}


@pytest.mark.parametrize("name", sorted(name for name in WRAPPERS if name not in RAISERS))
def test_a_word_that_is_only_text_is_not_a_command(name: str) -> None:
    example = WRAPPERS[name].not_match
    assert shlex.split(example)
    assert not _runs_sudo(screen(example)), example
