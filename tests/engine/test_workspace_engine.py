"""Workspaces on real engines: what containers write is what snapshots hold."""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from subjects import Subject

from sandboxrun.engine.spec import ContainerSpec, VolumeMount
from sandboxrun.errors import UsageError, WorkspaceLostError
from sandboxrun.model import labels
from sandboxrun.model.workspace import SnapshotCause
from sandboxrun.state.directory import StateDirectory
from sandboxrun.state.store import Store, open_store
from sandboxrun.workspace.session import Sealed, Session
from sandboxrun.workspace.workspaces import Workspaces, open_workspaces

pytestmark = [pytest.mark.engine]


@pytest.fixture
def anyio_backend(which: str) -> str:
    return which.split("-")[1]


@dataclass
class World:
    subject: Subject
    workspaces: Workspaces
    store: Store

    async def run(self, session: Session, script: str) -> int | None:
        """Run a script in a container of its own and return its exit code."""
        spec: ContainerSpec = replace(
            self.subject.spec("seven"),
            entrypoint=("/bin/sh", "-c", f"cd /workspace; {script}"),
            user=f"{session.uid}:{session.uid}",
            volumes=(VolumeMount(session.volume, "/workspace", session.read_only),),
        )
        engine = self.subject.engine
        container = await engine.create(spec)
        async with engine.attach(container) as attachment:
            await engine.start(container)
            while await attachment.receive():
                pass
        state = await engine.wait_ended(container, timeout_seconds=30)
        await engine.remove(container, timeout_seconds=30)
        return None if state is None else state.exit_code

    async def write(self, name: str, script: str) -> Sealed:
        async with self.workspaces.writer(name, secrets.token_hex(4)) as session:
            assert await self.run(session, script) == 0
            return await session.seal()


@pytest.fixture
async def world(subject: Subject, tmp_path: Path) -> AsyncIterator[World]:
    async with opened(subject, tmp_path / "state") as found:
        try:
            yield found
        finally:
            for workspace in await found.workspaces.list():
                await found.workspaces.remove(workspace.name or "")
            await forget(found)


async def forget(world: World) -> None:
    tags = {labels.INSTALLATION: world.store.directory.installation_id}
    for volume in await world.subject.engine.list_volumes(tags):
        await world.subject.engine.remove_volume(volume.name)


@asynccontextmanager
async def opened(subject: Subject, path: Path) -> AsyncIterator[World]:
    with StateDirectory.open(path) as directory:
        async with open_store(directory) as store:
            workspaces = await open_workspaces(subject.engine, subject.info.engine_id, store)
            yield World(subject, workspaces, store)


async def test_runs_snapshots_restore_and_fork(world: World) -> None:
    spaces = world.workspaces
    created = await spaces.create("w")
    first = await world.write("w", "mkdir d; printf one > d/x; ln -s d e; chmod 700 d")
    assert first.effects.created.paths == ("d", "d/x", "e")
    second = await world.write("w", "perl -e 'rename qw(d dd) or die $!'; rm e")
    assert second.effects.created.paths == ("dd", "dd/x")
    assert second.effects.deleted.paths == ("d", "d/x", "e")
    third = await world.write("w", "rm -r dd; mkdir dd; printf two > dd/y; printf h > .home/h")
    assert third.effects.created.paths == ("dd/y",)
    assert third.effects.deleted.paths == ("dd/x",)
    assert third.effects.modified.paths == ("dd",), "mode 755 again"
    assert third.effects.home.created.paths == (".home/h",)
    nothing = await world.write("w", "cat dd/y; : >> dd/y; touch x; rm x")
    assert nothing.snapshot_after is None
    assert nothing.effects.nothing
    listed = await spaces.snapshots("w")
    assert [each.snapshot_id for each in listed] == [
        created.head, first.snapshot_after, second.snapshot_after, third.snapshot_after,
    ]  # fmt: skip
    fork = await spaces.fork("w", "f", at=first.snapshot_after)
    assert fork.uid == created.uid
    await spaces.restore("w", str(second.snapshot_after))
    await world.write("w", 'test "$(cat dd/x)" = one; test ! -e d; printf new > n')
    await world.write("f", 'test "$(cat d/x)" = one; test ! -e n; test -L e')
    assert len(await spaces.snapshots("w")) == 5, "later ones stay listed"


async def test_a_reader_sees_the_frozen_state_and_cannot_write(world: World) -> None:
    await world.workspaces.create("w")
    await world.write("w", "printf old > f")
    async with world.workspaces.writer("w", "r1") as writing:
        assert await world.run(writing, "printf new > f") == 0
        async with world.workspaces.reader("w", "r2") as reading:
            script = 'test "$(cat f)" = old || exit 3; if printf x > g; then exit 4; fi'
            assert await world.run(reading, script) == 0
            assert (await reading.seal()).snapshot_after is None
        await writing.seal()


async def test_a_throwaway_workspace_leaves_nothing(world: World) -> None:
    async with world.workspaces.throwaway("r1") as session:
        assert await world.run(session, "printf x > f") == 0
        sealed = await session.seal()
    assert sealed.snapshot_after is None
    assert sealed.effects.created.paths == ("f",)
    assert await world.store.read(_layers) == 1, "the base"


async def test_throwaways_side_by_side_leave_nothing(world: World) -> None:
    async def one(number: int) -> None:
        for _ in range(5):
            async with world.workspaces.throwaway(f"r{number}") as session:
                await session.seal()

    async with anyio.create_task_group() as group:
        for number in range(8):
            group.start_soon(one, number)
    assert await world.store.read(_layers) == 1, "the base"


async def test_forty_runs_in_a_row_stay_shallow_and_right(world: World) -> None:
    await world.workspaces.create("w")
    for number in range(40):
        await world.write(
            "w", f"printf {number} > f{number % 7}; mkdir -p d{number}; rm -rf d{number - 3}"
        )
    listed = await world.workspaces.snapshots("w")
    assert max(each.depth for each in listed) <= 17
    await world.write("w", 'test "$(cat f4)" = 39; test -d d39; test ! -e d36; test -d d37')
    effects = await world.workspaces.effects("w", listed[0].snapshot_id, listed[-2].snapshot_id)
    assert effects.created.count == 7 + 3


async def test_writers_wait_their_turn(world: World) -> None:
    await world.workspaces.create("w")
    order: list[int] = []
    waited: list[int] = []

    async def one(number: int, task_status: anyio.abc.TaskStatus[None]) -> None:
        def waiting() -> None:
            waited.append(number)
            task_status.started()

        async with world.workspaces.writer("w", f"r{number}", waiting=waiting) as session:
            order.append(number)
            assert await world.run(session, f"printf {number} >> log") == 0
            await session.seal()

    async with (
        anyio.create_task_group() as group,
        world.workspaces.writer("w", "first") as session,
    ):
        for number in range(4):
            await group.start(one, number)
        assert await world.run(session, "printf s >> log") == 0
        await session.seal()
    assert waited == order == [0, 1, 2, 3]
    await world.write("w", 'test "$(cat log)" = s0123')


async def test_an_unsealed_session_is_kept_as_interrupted(world: World) -> None:
    await world.workspaces.create("w")
    async with world.workspaces.writer("w", "r1") as session:
        assert await world.run(session, "printf x > f") == 0
    last = (await world.workspaces.snapshots("w"))[-1]
    assert (last.cause, last.run_id) == (SnapshotCause.INTERRUPTED, "r1")


@pytest.mark.parametrize("replaced", [False, True])
async def test_a_removed_or_replaced_store_is_lost_and_never_empty(
    world: World, *, replaced: bool
) -> None:
    await world.workspaces.create("w")
    engine, row = world.subject.engine, world.workspaces._layers.row
    found = await engine.inspect_volume(row.volume)
    assert found is not None
    assert await engine.remove_volume(row.volume)
    if replaced:
        await engine.create_volume(
            replace(world.subject.volume(), name=row.volume, labels=tuple(found.labels.items()))
        )
    with pytest.raises(WorkspaceLostError):
        async with world.workspaces.writer("w", "r1"):
            pytest.fail("mounted")
    for _ in range(2):
        again = await open_workspaces(engine, world.subject.info.engine_id, world.store)
        assert [each.name for each in await again.list()] == ["w"]
        for mounted in (again.writer, again.reader):
            with pytest.raises(WorkspaceLostError, match=row.volume):
                async with mounted("w", "r1"):
                    pytest.fail("mounted")
        async with again.throwaway("r2") as session:
            assert session.volume != row.volume
        assert (await again.recover()).mounts == 0
    world.workspaces = again
    await again.remove("w")
    await again.create("w")
    await world.write("w", "printf x > f")
    assert await world.store.read(_stores) == 1


async def test_hostile_names_are_only_bytes(world: World, tmp_path: Path) -> None:
    await world.workspaces.create("w")
    secret = tmp_path / "secret"
    secret.write_text("host")
    script = (
        f"ln -s {secret} link; ln -s / root; mkdir -p 'a\nb' -- -rf; printf x > $'\\xff\\x1b[2J';"
        ' perl -e \'for (1..300) { mkdir "d" x 200; chdir "d" x 200 }\''
    )
    sealed = await world.write("w", script)
    assert sealed.effects.created.count == 2 + 1 + 1 + 1 + 300
    moved = await world.write("w", "perl -e 'rename qq(\\xff\\x1b[2J), qq(\\xfe) or die'")
    assert moved.effects.created.paths == ("\\xfe",)
    assert moved.effects.deleted.paths == ("\\xff\x1b[2J",)
    await world.write("w", "rm -rf ddd*; rm link")
    await world.workspaces.remove("w")
    assert secret.read_text() == "host"


async def test_seeds(world: World, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "sub").mkdir(parents=True)
    (source / "sub" / "f").write_text("content")
    (source / "l").symlink_to("/etc/passwd")
    os.mkfifo(source / "p")
    created = await world.workspaces.create("w", source=source)
    script = 'test "$(cat sub/f)" = content && test -L l && test -p p && printf more >> sub/f'
    assert (await world.write("w", script)).effects.modified.paths == ("sub/f",)
    assert (source / "sub" / "f").read_text() == "content"
    seed = await world.workspaces.image_seed(world.subject.image.id, "/bin")
    await world.workspaces.create("i", seed=seed, mount_at="/testbed", as_root=True)
    await world.write("i", "test -x cat; test -L sh; printf x > new")
    with pytest.raises(UsageError):
        await world.workspaces.image_seed(world.subject.image.id, "/absent")
    assert created.uid != 0


def _stores(tx: object) -> int:
    run: Callable[[str], object] = tx.execute  # type: ignore[attr-defined]
    return int(run("SELECT count(*) FROM stores").fetchone()[0])  # type: ignore[attr-defined]


def _layers(tx: object) -> int:
    run: Callable[[str], object] = tx.execute  # type: ignore[attr-defined]
    return int(run("SELECT count(*) FROM layers").fetchone()[0])  # type: ignore[attr-defined]
