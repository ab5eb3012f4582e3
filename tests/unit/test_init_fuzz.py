"""The fuzz target builds and takes its corpus; long fuzzing is `make -C images/init fuzz`."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(shutil.which("clang") is None, reason="libFuzzer comes with clang")
def test_the_corpus_passes_the_parsers(tmp_path: Path) -> None:
    sources = ROOT / "images" / "init"
    target = tmp_path / "fuzz-request"
    make = ["make", "-s", "-C", sources, f"FUZZ_TARGET={target}", target]
    subprocess.run(make, check=True)
    corpus = ROOT / "tests" / "corpus" / "init_request"
    assert len(list(corpus.iterdir())) >= 7
    (tmp_path / "new").mkdir()
    subprocess.run(
        [target, "-runs=2000", "-seed=1", tmp_path / "new", corpus], check=True, cwd=tmp_path
    )
