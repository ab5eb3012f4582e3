# ruff: noqa: PTH113, PTH114
"""Stacks of overlay layers against plain directories, under random histories."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.workspace_model import STEPS, Sheaf, Step, describe, differences, without_times

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="overlay mounts need root"),
    pytest.mark.timeout(600),
]
RUNS = st.lists(st.lists(STEPS, min_size=1, max_size=8), min_size=1, max_size=5)
SETTINGS = settings(
    max_examples=int(os.environ.get("SANDBOXRUN_TEST_EXAMPLES", "60")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)


def fork_model(model: Path, copy: Path) -> None:
    """Copy a tree as overlayfs treats it across layers: hard links are split."""
    shutil.copytree(model, copy, symlinks=True, copy_function=_copy)


def _copy(source: str, target: str) -> None:
    if os.path.isfile(source) or os.path.islink(source):
        shutil.copy2(source, target, follow_symlinks=False)
    else:
        os.mkfifo(target)
        shutil.copystat(source, target)


@given(runs=RUNS)
@SETTINGS
def test_effects_equal_a_full_comparison(runs: list[list[Step]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        sheaf = Sheaf(Path(directory))
        before = sheaf.tree()
        for steps in runs:
            old = sheaf.stack
            with sheaf.writing() as point:
                for step in steps:
                    step.apply(point)
                live = describe(point)
            after = sheaf.tree()
            assert after == live, "a sealed layer shows what the run saw"
            assert sheaf.changes(old, sheaf.stack) == differences(before, after)
            before = after


@given(runs=RUNS, back=st.integers(0, 5))
@SETTINGS
def test_snapshots_stay_and_any_two_compare(runs: list[list[Step]], back: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        sheaf = Sheaf(Path(directory))
        kept = [(sheaf.stack, sheaf.tree())]
        for number, steps in enumerate(runs):
            if number == len(runs) - 1:
                # A restore: the last run starts from an older state, as a fork would.
                sheaf.stack = kept[back % len(kept)][0]
            with sheaf.writing() as point:
                for step in steps:
                    step.apply(point)
            kept.append((sheaf.stack, sheaf.tree()))
        for stack, tree in kept:
            assert sheaf.tree(stack) == tree
        for one_stack, one in kept:
            for other_stack, other in kept:
                assert sheaf.changes(one_stack, other_stack) == differences(one, other)


@given(runs=RUNS, cut=st.integers(2, 5), more=st.lists(STEPS, max_size=8))
@SETTINGS
def test_merged_layers_mean_the_same(runs: list[list[Step]], cut: int, more: list[Step]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        sheaf = Sheaf(Path(directory))
        for steps in runs:
            with sheaf.writing() as point:
                for step in steps:
                    step.apply(point)
        before, tree = sheaf.stack, sheaf.tree()
        sheaf.merge(min(cut, len(runs)))
        assert sheaf.tree() == tree
        assert sheaf.changes(before, sheaf.stack) == differences(tree, tree)
        old = sheaf.stack
        with sheaf.writing() as point:
            for step in more:
                step.apply(point)
        after = sheaf.tree()
        assert sheaf.changes(old, sheaf.stack) == differences(tree, after)
        sheaf.merge(2)
        assert sheaf.tree() == after


@given(runs=RUNS)
@SETTINGS
def test_a_workspace_is_like_a_plain_directory(runs: list[list[Step]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        sheaf = Sheaf(Path(directory) / "sheaf")
        model = Path(directory) / "model"
        model.mkdir()
        os.chown(model, 1234, 1234)
        for number, steps in enumerate(runs):
            with sheaf.writing() as point:
                for step in steps:
                    step.apply(point)
            for step in steps:
                step.apply(model)
            assert without_times(sheaf.tree()) == without_times(describe(model))
            split = Path(directory) / f"model{number}"
            fork_model(model, split)
            os.chown(split, 1234, 1234)
            model = split
