"""kill -9 while workspaces are written, restored and forked: nothing torn, nothing left."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from real_engine import engine_url
from sandboxrun.engine.docker import connect
from sandboxrun.engine.protocol import Engine
from sandboxrun.model import labels
from sandboxrun.model.workspace import SnapshotCause
from sandboxrun.state.directory import StateDirectory
from sandboxrun.state.store import Store, open_store
from sandboxrun.workspace import mount_rows, rows
from sandboxrun.workspace.layers import Look
from sandboxrun.workspace.merged import MergedTree
from sandboxrun.workspace.workspaces import Workspaces, open_workspaces

pytestmark = [pytest.mark.engine, pytest.mark.docker, pytest.mark.timeout(900)]
KILLS = int(os.environ.get("SANDBOXRUN_TEST_KILLS", "40"))


@pytest.fixture
def url() -> str:
    return engine_url()


def killed_worker(state: Path, url: str, seed: int) -> dict[str, int]:
    """Let a worker go on for a moment, kill it, and return what it said was committed."""
    argv = (sys.executable, "-m", "tests.faults.workspace_worker", str(state), url, str(seed))
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == b"ready\n"
        time.sleep(random.Random(seed).uniform(0, 0.25))
        worker.send_signal(signal.SIGKILL)
        said = [line.split() for line in worker.stdout.read().decode().splitlines()]
    return {snapshot: int(number) for _, snapshot, number in said}


def torn(look: Look, stack: tuple[str, ...], number: int | None) -> str | None:
    """Say what is wrong with a snapshot, or None. Without a number it has to be right in itself."""
    tree = MergedTree(look, stack)
    one, two = tree.find(b"one"), tree.find(b"two")
    if one is None or two is None:
        return None if one is two and number is None else "half of it is missing"
    texts = [look.read(each.top.layer, each.top.path, 1 << 20) for each in (one, two)]
    found = int(texts[0].split(b"\n")[0])
    if number is not None and found != number:
        return f"{found} instead of {number}"
    if texts != [f"{found}\n".encode() * 200] * 2:
        return "the files do not belong together"
    inner = tree.find(f"dir-{found}/file".encode())
    return None if inner is not None and inner.entry.size == found else "a file is missing"


@pytest.mark.anyio
async def test_no_snapshot_is_ever_torn(tmp_path: Path, url: str) -> None:
    state = tmp_path / "state"
    committed: dict[str, int] = {}
    for seed in range(KILLS):
        committed |= killed_worker(state, url, seed)
    engine = await connect(url)
    info = await engine.describe()
    with StateDirectory.open(state) as directory:
        async with open_store(directory) as store:
            spaces = await open_workspaces(engine, info.engine_id, store)
            try:
                await spaces.recover()
                await check(spaces, store, committed)
                await check_nothing_is_left(spaces, store, engine)
            finally:
                for workspace in await spaces.list():
                    await spaces.remove(workspace.name or "")
                await engine.remove_volume(spaces._layers.row.volume)
                await engine.aclose()


async def check(spaces: Workspaces, store: Store, committed: dict[str, int]) -> None:
    assert len(committed) > KILLS, "it did work"
    known = set()
    for workspace in await spaces.list():
        for snapshot in await spaces.snapshots(workspace.name or ""):
            known.add(snapshot.snapshot_id)
            if snapshot.cause is SnapshotCause.INTERRUPTED:
                continue
            stack = await store.read(lambda tx, each=snapshot: rows.stack_of(tx, each.snapshot_id))
            number = committed.get(snapshot.snapshot_id)
            parent_torn = workspace.name != "w"
            found = await spaces._layers.look(
                lambda look, stack=stack, number=number: torn(look, stack, number)
            )
            assert found is None or (number is None and not parent_torn), found
    assert committed.keys() <= known, "what was committed stays"


async def check_nothing_is_left(spaces: Workspaces, store: Store, engine: Engine) -> None:
    tags = {
        labels.INSTALLATION: store.directory.installation_id,
        labels.ROLE: labels.ROLE_MOUNT,
    }
    assert list(await engine.list_volumes(tags)) == []
    assert await store.read(mount_rows.list_mounts) == ()
    assert await store.read(mount_rows.tickets) == ()
    assert await store.read(rows.throwaways) == ()
    on_disk = set(await spaces._layers.use(lambda layers: list(layers.stored())))
    in_rows = await store.read(
        lambda tx: {row[0] for row in tx.execute("SELECT layer_id FROM layers")}
    )
    assert on_disk == in_rows
