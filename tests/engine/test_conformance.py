"""What every engine does alike. The fake is only as good as this suite."""

from __future__ import annotations

import io
import tarfile
from collections.abc import AsyncIterator

import anyio
import pytest
from subjects import OWNER, Subject

from sandboxrun.engine.protocol import Attachment, EngineKind, KillResult, Phase
from sandboxrun.engine.spec import VolumeMount, VolumeSpec
from sandboxrun.errors import (
    EngineConflictError,
    EngineError,
    EngineNotFoundError,
    EngineTimeoutError,
    ImageUnusableError,
)

pytestmark = [pytest.mark.anyio]
REMOVE = 30.0


@pytest.fixture
def anyio_backend(which: str) -> str:
    return which.split("-")[1]


async def drain(attachment: Attachment) -> tuple[bytes, bytes]:
    out, err = bytearray(), bytearray()
    while chunks := await attachment.receive():
        for chunk in chunks:
            (err if chunk.stderr else out).extend(chunk.data)
    return bytes(out), bytes(err)


async def run(
    subject: Subject, program: str, stdin: bytes = b""
) -> tuple[bytes, bytes, int | None]:
    container = await subject.engine.create(subject.spec(program))
    async with subject.engine.attach(container) as attachment:
        await subject.engine.start(container)
        await attachment.send(stdin)
        await attachment.close_send()
        out, err = await drain(attachment)
    state = await subject.engine.wait_ended(container, timeout_seconds=20)
    assert state is not None
    assert await subject.engine.remove(container, timeout_seconds=REMOVE)
    return out, err, state.exit_code


async def test_says_who_it_is(subject: Subject) -> None:
    info = await subject.engine.describe()
    assert info == await subject.engine.describe()
    assert info.url == subject.engine.url
    assert info.cpus > 0
    assert info.memory_bytes > 0
    assert info.cgroup_version in {1, 2}


async def test_a_created_container_has_not_ended(subject: Subject) -> None:
    spec = subject.spec("seven")
    container = await subject.engine.create(spec)
    state = await subject.engine.inspect(container)
    assert state is not None
    assert (state.phase, state.exit_code, state.started_at) == (Phase.CREATED, None, None)
    assert (state.id, state.name, state.image) == (container, spec.name, spec.image)
    assert state.labels.items() >= dict(spec.labels).items()
    assert await subject.engine.inspect(spec.name) == state


async def test_creating_the_same_twice_adopts(subject: Subject) -> None:
    spec = subject.spec("seven")
    assert await subject.engine.create(spec) == await subject.engine.create(spec)


async def test_a_name_of_others_is_a_conflict(subject: Subject) -> None:
    spec = subject.spec("seven")
    await subject.engine.create(spec)
    other = subject.spec("seven", name=spec.name, labels=((OWNER, subject.owner), ("x", "y")))
    with pytest.raises(EngineConflictError):
        await subject.engine.create(other)


async def test_a_started_container_is_not_adopted(subject: Subject) -> None:
    spec = subject.spec("wait")
    await subject.engine.start(await subject.engine.create(spec))
    with pytest.raises(EngineConflictError):
        await subject.engine.create(spec)


async def test_an_absent_image_is_unusable(subject: Subject) -> None:
    with pytest.raises(ImageUnusableError):
        await subject.engine.create(subject.spec("seven", image="sha256:" + "0" * 64))
    assert await subject.engine.list_containers({OWNER: subject.owner}) == []
    assert await subject.engine.list_volumes({OWNER: subject.owner}) == []


async def test_both_streams_and_the_exit_code(subject: Subject) -> None:
    assert await run(subject, "speak") == (b"hello", b"oops", 3)


async def test_stdin_is_half_closed(subject: Subject) -> None:
    data = bytes(range(256)) * 2000
    assert await run(subject, "cat", data) == (data, b"", 0)


async def test_neither_first_byte_nor_tail_is_lost(subject: Subject) -> None:
    limiter = anyio.Semaphore(4)
    results: list[tuple[bytes, bytes, int | None]] = []

    async def one() -> None:
        async with limiter:
            results.append(await run(subject, "tail"))

    async with anyio.create_task_group() as group:
        for _ in range(12):
            group.start_soon(one)
    assert results == [(bytes(100_000) + b"END", b"", 0)] * 12


@pytest.mark.slow
@pytest.mark.engine
async def test_no_tail_of_a_hundred_is_lost(subject: Subject) -> None:
    for _ in range(100):
        out, _, code = await run(subject, "tail")
        assert (len(out), out[-3:], code) == (100_003, b"END", 0)


async def test_closing_the_streams_ends_stdin(subject: Subject) -> None:
    container = await subject.engine.create(subject.spec("cat"))
    async with subject.engine.attach(container):
        await subject.engine.start(container)
    state = await subject.engine.wait_ended(container, timeout_seconds=20)
    assert state is not None
    assert state.exit_code == 0


async def test_closing_wakes_the_reader(subject: Subject) -> None:
    container = await subject.engine.create(subject.spec("wait"))
    async with subject.engine.attach(container) as attachment, anyio.create_task_group() as group:
        await subject.engine.start(container)

        async def read() -> None:
            with pytest.raises(EngineError):
                await attachment.receive()

        group.start_soon(read)
        await anyio.wait_all_tasks_blocked()
        attachment.close()
        attachment.close()
    with pytest.raises(EngineError):
        await attachment.send(b"x")


async def test_cancelling_a_read_loses_nothing(subject: Subject) -> None:
    container = await subject.engine.create(subject.spec("cat"))
    async with subject.engine.attach(container) as attachment:
        await subject.engine.start(container)
        with anyio.move_on_after(0.05):
            await attachment.receive()
        await attachment.send(b"still here")
        await attachment.close_send()
        assert await drain(attachment) == (b"still here", b"")


async def test_kill_ends_and_then_says_so(subject: Subject) -> None:
    container = await subject.engine.create(subject.spec("wait"))
    async with subject.engine.attach(container) as attachment:
        await subject.engine.start(container)
        state = await subject.engine.inspect(container)
        assert state is not None
        assert (state.phase, state.exit_code) == (Phase.RUNNING, None)
        assert await subject.engine.kill(container) is KillResult.KILLED
        assert await drain(attachment) == (b"", b"")
    state = await subject.engine.wait_ended(container, timeout_seconds=20)
    assert state is not None
    assert (state.phase, state.exit_code) == (Phase.STOPPED, 137)
    assert await subject.engine.kill(container) is KillResult.ALREADY_ENDED
    assert await subject.engine.remove(container, timeout_seconds=REMOVE)
    assert await subject.engine.kill(container) is KillResult.GONE


async def test_kill_racing_the_exit_keeps_the_code(subject: Subject) -> None:
    for _ in range(6):
        container = await subject.engine.create(subject.spec("seven"))
        await subject.engine.start(container)
        result = await subject.engine.kill(container)
        state = await subject.engine.wait_ended(container, timeout_seconds=20)
        assert state is not None
        assert state.exit_code in ({7} if result is KillResult.ALREADY_ENDED else {7, 137})


async def test_a_stalled_reader_is_freed_by_closing(subject: Subject) -> None:
    container = await subject.engine.create(subject.spec("flood"))
    async with subject.engine.attach(container) as attachment:
        await subject.engine.start(container)
        assert sum(len(chunk.data) for chunk in await attachment.receive()) > 0
        # The engine's buffers fill up now: nobody reads. Closing comes before the kill.
        await anyio.sleep(0.3)
    assert await subject.engine.kill(container) is KillResult.KILLED
    state = await subject.engine.wait_ended(container, timeout_seconds=20)
    assert state is not None
    assert state.exit_code == 137


async def test_a_large_output_is_whole(subject: Subject) -> None:
    container = await subject.engine.create(subject.spec("flood"))
    async with subject.engine.attach(container) as attachment:
        await subject.engine.start(container)
        size = 0
        while size < 8 << 20:
            size += sum(len(chunk.data) for chunk in await attachment.receive())
        # Engines do not answer a kill while nobody reads.
        async with anyio.create_task_group() as group:
            group.start_soon(drain, attachment)
            assert await subject.engine.kill(container) is KillResult.KILLED


async def test_what_is_unknown_is_none_or_not_found(subject: Subject) -> None:
    name = subject.name()
    assert await subject.engine.inspect(name) is None
    assert await subject.engine.wait_ended(name, timeout_seconds=1) is None
    assert await subject.engine.kill(name) is KillResult.GONE
    assert await subject.engine.remove(name, timeout_seconds=REMOVE)
    with pytest.raises(EngineNotFoundError):
        await subject.engine.start(name)
    with pytest.raises(EngineNotFoundError):
        async with subject.engine.attach(name):
            pytest.fail("attached to nothing")


async def test_waiting_has_a_deadline(subject: Subject) -> None:
    container = await subject.engine.create(subject.spec("wait"))
    await subject.engine.start(container)
    with pytest.raises(EngineTimeoutError):
        await subject.engine.wait_ended(container, timeout_seconds=0.2)


@pytest.mark.parametrize("started", [False, True])
async def test_removal_is_idempotent_and_may_race(subject: Subject, started: bool) -> None:
    spec = subject.spec("wait")
    container = await subject.engine.create(spec)
    if started:
        await subject.engine.start(container)
    gone: list[bool] = []

    async def remove() -> None:
        gone.append(await subject.engine.remove(spec.name, timeout_seconds=REMOVE))

    async with anyio.create_task_group() as group:
        for _ in range(4):
            group.start_soon(remove)
    assert gone == [True] * 4
    assert await subject.engine.inspect(container) is None
    assert await subject.engine.list_volumes({OWNER: subject.owner}) == []


async def test_lists_by_all_labels(subject: Subject) -> None:
    spec = subject.spec("seven")
    container = await subject.engine.create(spec)
    found = await subject.engine.list_containers(dict(spec.labels))
    assert [(each.id, each.name, each.phase) for each in found] == [
        (container, spec.name, Phase.CREATED)
    ]
    assert await subject.engine.list_containers({OWNER: subject.owner, "x": "y"}) == []


async def test_volumes(subject: Subject) -> None:
    spec = subject.volume()
    volume = await subject.engine.create_volume(spec)
    assert (volume.name, volume.labels) == (spec.name, dict(spec.labels))
    assert volume.mountpoint.startswith("/")
    assert await subject.engine.create_volume(spec) == volume
    assert await subject.engine.inspect_volume(spec.name) == volume
    assert await subject.engine.list_volumes({OWNER: subject.owner}) == [volume]
    with pytest.raises(EngineConflictError):
        await subject.engine.create_volume(VolumeSpec(spec.name, ((OWNER, "another"),)))
    container = await subject.engine.create(
        subject.spec("wait", volumes=(VolumeMount(spec.name, "/data", read_only=False),))
    )
    assert await subject.engine.remove_volume(spec.name) is False
    await subject.engine.remove(container, timeout_seconds=REMOVE)
    assert await subject.engine.inspect_volume(spec.name) == volume
    assert await subject.engine.remove_volume(spec.name) is True
    assert await subject.engine.remove_volume(spec.name) is True
    assert await subject.engine.inspect_volume(spec.name) is None


async def test_files_go_in_and_out_before_the_start(subject: Subject) -> None:
    volume = await subject.engine.create_volume(subject.volume())
    mounts = (VolumeMount(volume.name, "/data", read_only=False),)
    container = await subject.engine.create(subject.spec("seven", volumes=mounts))
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        entry = tarfile.TarInfo("deep/file")
        entry.size, entry.mode = 5, 0o640
        tar.addfile(entry, io.BytesIO(b"hello"))
    await subject.engine.put_archive(container, "/data", buffer.getvalue())
    archive = await subject.engine.get_archive(container, "/data", limit_bytes=1 << 20)
    assert archive is not None
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        (member,) = [each for each in tar if each.isreg()]
        reader = tar.extractfile(member)
        assert reader is not None
        assert reader.read() == b"hello"
        assert member.name.partition("/")[2] == "deep/file"
        assert member.mode & 0o7777 == 0o640
    assert await subject.engine.get_archive(container, "/nowhere", limit_bytes=1) is None
    with pytest.raises(EngineError):
        await subject.engine.get_archive(container, "/data", limit_bytes=10)
    await subject.engine.start(container)
    with pytest.raises(EngineConflictError):
        await subject.engine.put_archive(container, "/data", buffer.getvalue())
    with pytest.raises(EngineConflictError):
        await subject.engine.get_archive(container, "/data", limit_bytes=1 << 20)


async def test_images(subject: Subject) -> None:
    assert await subject.engine.inspect_image("nobody/has-this:1") is None
    assert await subject.engine.inspect_image(subject.image.id) == subject.image
    assert await subject.engine.inspect_image(subject.image.tags[0]) == subject.image


async def test_importing_an_image(subject: Subject) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("empty"))

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(buffer.getvalue()), 1000):
            yield buffer.getvalue()[start : start + 1000]

    tag = "sandboxrun-test/imported:1"
    identity = await subject.engine.import_image(pieces(), tag=tag, changes=["USER 5"])
    found = await subject.engine.inspect_image(tag)
    assert found is not None
    assert found.id == identity
    assert tag in found.tags


async def test_changing_limits(subject: Subject) -> None:
    container = await subject.engine.create(subject.spec("wait"))
    await subject.engine.start(container)
    change = {"memory_bytes": 48 << 20, "nano_cpus": 500_000_000, "pids": 32}
    if subject.info.kind is EngineKind.PODMAN:
        with pytest.raises(EngineError):
            await subject.engine.update(container, **change)
    else:
        await subject.engine.update(container, **change)
