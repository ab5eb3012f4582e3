"""Writes, restores and forks workspaces until it is killed; says on stdout what is committed.

Run as: python -m tests.faults.workspace_worker STATE ENGINE SEED. The layers are filled from here
instead of by containers, so that hundreds of kills take little time.
"""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import anyio

from sandboxrun.engine.docker import connect
from sandboxrun.state.directory import StateDirectory
from sandboxrun.state.store import open_store
from sandboxrun.workspace.session import Session
from sandboxrun.workspace.workspaces import Workspaces, open_workspaces


def say(*words: str) -> None:
    os.write(1, (" ".join(words) + "\n").encode())


def scribble(session: Session, mountpoint: str, number: int) -> None:
    """Two files and a directory that are right only together."""
    content = Path(mountpoint, session._mount.upper or "", "d")
    for name in ("one", "two"):
        (content / name).write_text(f"{number}\n" * 200)
    (content / f"dir-{number}").mkdir()
    (content / f"dir-{number}" / "file").write_text("x" * number)


async def step(spaces: Workspaces, chance: random.Random, number: int, mountpoint: str) -> None:
    choice = chance.random()
    if choice < 0.6:
        async with spaces.writer("w", f"run-{number}") as session:
            scribble(session, mountpoint, number)
            sealed = await session.seal()
            say("sealed", str(sealed.snapshot_after), str(number))
    elif choice < 0.75:
        snapshots = await spaces.snapshots("w")
        await spaces.restore("w", chance.choice(snapshots).snapshot_id)
    elif choice < 0.9:
        fork = await spaces.fork("w", f"f{number}-{chance.getrandbits(32)}")
        if chance.random() < 0.5:
            await spaces.remove(fork.name or "")
    else:
        async with spaces.throwaway(f"run-{number}") as session:
            scribble(session, mountpoint, number)
            await session.seal()


async def main() -> None:
    state, url, seed = sys.argv[1:]
    chance = random.Random(int(seed))
    engine = await connect(url)
    info = await engine.describe()
    with StateDirectory.open(Path(state)) as directory:
        async with open_store(directory) as store:
            spaces = await open_workspaces(engine, info.engine_id, store)
            await spaces.recover()
            if not await spaces.list():
                await spaces.create("w")
            volume = await engine.inspect_volume(spaces._layers.row.volume)
            assert volume is not None
            say("ready")
            while True:
                await step(spaces, chance, chance.randrange(10_000), volume.mountpoint)


if __name__ == "__main__":
    anyio.run(main)
