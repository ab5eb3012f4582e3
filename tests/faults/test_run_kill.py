"""kill -9 of real runs at random moments: no torn state, one outcome each, nothing left."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest

from real_engine import engine_url
from sandboxrun import Runner, Settings
from sandboxrun.audit.reading import records_of, verify_store
from sandboxrun.model import labels
from sandboxrun.state.directory import StateDirectory
from sandboxrun.state.runs import Runs
from sandboxrun.state.store import open_store

pytestmark = [pytest.mark.engine, pytest.mark.docker]

SANDBOXRUN = str(Path(sys.executable).with_name("sandboxrun"))
COMMAND = "echo begun >> log; sleep 0.1; echo done >> log"


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return Settings(state_dir=tmp_path_factory.mktemp("state") / "s", engine=engine_url())


def _environment(settings: Settings) -> dict[str, str]:
    return os.environ | {
        "SANDBOXRUN_STATE_DIR": str(settings.state_dir),
        "SANDBOXRUN_ENGINE": str(settings.engine),
    }


def _cli(settings: Settings, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [SANDBOXRUN, *arguments], env=_environment(settings), capture_output=True, check=False
    )


def _start(settings: Settings, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [SANDBOXRUN, "exec", *arguments],
        env=_environment(settings),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


async def _look(settings: Settings) -> tuple[list[str], dict[str, str | None], bool]:
    """Reopen: return what is left in the engine, every run's status, whether the chain verifies."""
    async with Runner.open(settings) as runner:
        installation = (settings.state_dir / "installation").read_text().strip()
        engine = runner._tools.engine
        wanted = {labels.INSTALLATION: installation}
        left = [each.name for each in await engine.list_containers(wanted)]
        left += [
            volume.name
            for volume in await engine.list_volumes({**wanted, labels.ROLE: labels.ROLE_MOUNT})
        ]
    with StateDirectory.open(settings.state_dir) as directory:
        async with open_store(directory) as store:
            rows = await Runs(store).every(limit=10_000)
            for row in rows:
                kinds = [record.kind for record in await records_of(store, row.run_id)]
                assert kinds in (["receipt"], ["intent", "receipt"]), (row.run_id, kinds)
            intact = (await verify_store(store)).intact
    return left, {row.run_id: row.status for row in rows}, intact


def _kill_many(settings: Settings, times: int, seed: int) -> None:
    chance = random.Random(seed)
    _cli(settings, "workspace", "create", f"w{seed}")
    for _ in range(times):
        process = _start(settings, "-w", f"w{seed}", COMMAND)
        time.sleep(chance.uniform(0.2, 1.6))  # the random moment is what is tested
        process.kill()
        process.communicate()
    left, statuses, intact = anyio.run(_look, settings)
    assert left == []
    assert None not in statuses.values()
    assert set(statuses.values()) <= {"lost", "succeeded"}
    assert intact
    # The workspace is usable, and every line in it was written by a run that had begun.
    shown = json.loads(_cli(settings, "exec", "-w", f"w{seed}", "--json", "cat log || :").stdout)
    assert shown["status"] == "succeeded"
    lines = shown["preview"]["text"].splitlines()
    assert {line for line in lines if not line.startswith("cat: ")} <= {"begun", "done"}


def test_forty_kills_at_random_moments_leave_no_torn_state(settings: Settings) -> None:
    _kill_many(settings, 40, seed=1)


@pytest.mark.slow
def test_four_hundred_kills(settings: Settings) -> None:
    _kill_many(settings, 400, seed=2)


def _started_run(process: subprocess.Popen[bytes]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if json.loads(line)["type"] == "output":
            return
    raise AssertionError("the run ended before it printed anything")


def _latest(settings: Settings) -> str:
    runs = json.loads(_cli(settings, "runs", "list", "--json", "-n", "1").stdout)
    run_id: str = runs[0]["run_id"]
    return run_id


def test_a_second_process_cancels_a_run_of_the_first(settings: Settings) -> None:
    process = _start(settings, "--events", "echo here; sleep 60")
    _started_run(process)
    answer = _cli(settings, "runs", "cancel", "--json", _latest(settings))
    assert json.loads(answer.stdout)["result"] == "cancelled"
    process.communicate(timeout=20)
    assert process.returncode == 130


def test_a_third_process_settles_a_run_whose_owner_is_dead(settings: Settings) -> None:
    process = _start(settings, "--events", "echo here; sleep 60")
    _started_run(process)
    run_id = _latest(settings)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    answer = _cli(settings, "runs", "cancel", "--json", run_id)
    assert json.loads(answer.stdout)["result"] == "recovered", answer
    left, statuses, intact = anyio.run(_look, settings)
    assert (left, statuses[run_id], intact) == ([], "lost", True)
