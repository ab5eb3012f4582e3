"""The disk is waited for once before a launch, and not at all before an outcome."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent

_SCRIPT = """
import ctypes, json, pathlib, sys
import anyio
from sandboxrun.state.runs import Runs
from tests.state_samples import intent, new_run, opened, receipt

count = ctypes.CDLL(None).sync_count

async def main():
    steps = []
    async with opened(pathlib.Path(sys.argv[1])) as (store, log):
        for _ in range(50):
            at = [count()]
            run = new_run()
            await Runs(store).insert(run, durable=False)
            at.append(count())
            await log.intent(intent(run.run_id, store.owner))
            at.append(count())
            await log.settle(receipt(run.run_id, "{}"), outcome_json="{}")
            at.append(count())
            await log.make_durable()
            at.append(count())
            steps.append([after - before for before, after in zip(at, at[1:])])
    print(json.dumps(steps))

anyio.run(main)
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_one_sync_before_launch_and_none_before_the_outcome(tmp_path: Path) -> None:
    library = tmp_path / "syncs.so"
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-o", str(library), str(HERE / "syncs.c"), "-ldl"], check=True
    )
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, str(tmp_path / "s")],
        check=True,
        stdout=subprocess.PIPE,
        cwd=HERE.parents[1],
        env={**os.environ, "LD_PRELOAD": str(library)},
    )
    steps = json.loads(done.stdout)
    assert len(steps) == 50
    for insert, intent, settle, make_durable in steps:
        assert (insert, intent, settle) == (0, 1, 0)
        # The log of the database, and the anchor beside it.
        assert make_durable == 2
