"""The driver against engines that fail, lie, stall and vanish."""

from __future__ import annotations

import socket
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import anyio
import pytest
from engine_server import Server, answer, serving, state

from sandboxrun.engine import attach, containers, docker
from sandboxrun.engine.docker import DockerEngine, connect
from sandboxrun.engine.protocol import Attachment, KillResult, Phase
from sandboxrun.engine.spec import ContainerSpec
from sandboxrun.errors import (
    ConfigurationError,
    EngineConflictError,
    EngineError,
    EngineNotFoundError,
    EngineTimeoutError,
    EngineUnavailableError,
    ImageUnusableError,
)

pytestmark = pytest.mark.anyio
UPGRADE = b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"
INSPECT = "GET /containers/c1/json"
START = "POST /containers/c1/start"
KILL = "POST /containers/c1/kill"
REMOVE = "DELETE /containers/c1"
ATTACH = "POST /containers/c1/attach"
CREATE = "POST /containers/create"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with serving(tmp_path) as found:
        yield found


@pytest.fixture
async def engine(server: Server, anyio_backend: object) -> AsyncIterator[DockerEngine]:
    del anyio_backend
    found = await connect(server.url)
    yield found
    await found.aclose()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("START_SECONDS", "CONTROL_SECONDS", "SETTLE_SECONDS"):
        monkeypatch.setattr(containers, name, 0.2)
    monkeypatch.setattr(docker, "ATTACH_SECONDS", 0.2)


def spec() -> ContainerSpec:
    return ContainerSpec(
        name="n",
        image="sha256:i",
        entrypoint=("/x",),
        user="1:1",
        hostname="h",
        network="none",
        memory_bytes=1,
        nano_cpus=1,
        pids=1,
        shm_bytes=1,
        seccomp="{}",
        seccomp_file="",
        labels=(),
    )


async def test_nobody_there(tmp_path: Path) -> None:
    with pytest.raises(EngineUnavailableError, match="No engine answers"):
        await connect(f"unix://{tmp_path}/absent")
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(tmp_path / "stale"))
    with pytest.raises(EngineUnavailableError, match="No engine answers"):
        await connect(f"unix://{tmp_path}/stale")


@pytest.mark.parametrize(
    "url", ["ssh://host", "unix://relative", "tcp://host:99999", "/path", "unix:///" + "x" * 200]
)
async def test_addresses_that_cannot_be_used(url: str) -> None:
    with pytest.raises(ConfigurationError):
        await connect(url)


async def test_something_else_answers(server: Server) -> None:
    server.replies["GET /_ping"] = [answer(200, b"OK")]
    with pytest.raises(EngineError, match="not a container engine"):
        await connect(server.url)


async def test_an_old_engine_is_refused(server: Server) -> None:
    server.replies["GET /_ping"] = [answer(200, b"OK", "Api-Version: 1.40")]
    with pytest.raises(EngineError, match=r"1\.41 is needed"):
        await connect(server.url)


async def test_a_mute_engine_is_given_up(server: Server) -> None:
    server.replies["GET /_ping"] = [server.mute]
    with pytest.raises(EngineTimeoutError):
        await connect(server.url, seconds=0.2)


@pytest.mark.usefixtures("impatient")
async def test_every_call_of_a_mute_engine_is_given_up(
    server: Server, engine: DockerEngine
) -> None:
    for key in (INSPECT, START, KILL, ATTACH):
        server.replies[key] = [server.mute]
    began = time.monotonic()
    for call in (engine.inspect, engine.start, engine.kill):
        with pytest.raises(EngineTimeoutError):
            await call("c1")
    with pytest.raises(EngineTimeoutError):
        async with engine.attach("c1"):
            pytest.fail("attached to a mute engine")
    assert time.monotonic() - began < 20


async def test_kill_does_not_wait_behind_other_calls(server: Server, engine: DockerEngine) -> None:
    server.replies["POST /volumes/create"] = [server.mute]
    server.replies[KILL] = [answer(204)]
    async with anyio.create_task_group() as group:
        for number in range(40):
            group.start_soon(_mute_start, server, engine, f"s{number}")
        await anyio.wait_all_tasks_blocked()
        with anyio.fail_after(5):
            assert await engine.kill("c1") is KillResult.KILLED
        group.cancel_scope.cancel()


async def _mute_start(server: Server, engine: DockerEngine, container: str) -> None:
    server.replies[f"POST /containers/{container}/start"] = [server.mute]
    await engine.start(container)


async def test_cancelling_a_call_takes_effect_at_once(server: Server, engine: DockerEngine) -> None:
    server.replies[START] = [server.mute]
    with anyio.move_on_after(0.05) as scope:
        await engine.start("c1")
    assert scope.cancelled_caught
    server.stopping.set()


async def test_a_broken_read_is_tried_again(server: Server, engine: DockerEngine) -> None:
    server.replies[INSPECT] = [None, None, state("running")]
    found = await engine.inspect("c1")
    assert found is not None
    assert found.phase is Phase.RUNNING
    server.replies[INSPECT] = [None]
    with pytest.raises(EngineError, match="broke"):
        await engine.inspect("c1")


@pytest.mark.parametrize("lost", [None, answer(500, b'{"message":"boom"}')])
@pytest.mark.parametrize("phase", ["running", "exited"])
async def test_a_lost_start_is_settled_not_repeated(
    server: Server, engine: DockerEngine, lost: bytes | None, phase: str
) -> None:
    server.replies[START] = [lost]
    server.replies[INSPECT] = [state(phase)]
    await engine.start("c1")
    assert server.count(START) == 1


@pytest.mark.usefixtures("impatient")
async def test_a_start_that_did_not_happen_is_a_fault(server: Server, engine: DockerEngine) -> None:
    server.replies[INSPECT] = [state("created")]
    server.replies[START] = [answer(500, b'{"message":"OCI runtime"}')]
    with pytest.raises(EngineError, match="OCI runtime"):
        await engine.start("c1")
    server.replies[START] = [None]
    with pytest.raises(EngineError, match="broke"):
        await engine.start("c1")
    server.replies[INSPECT] = [answer(404, b"{}")]
    with pytest.raises(EngineNotFoundError):
        await engine.start("c1")
    assert server.count(START) == 3


async def test_create_adopts_what_a_lost_answer_made(server: Server, engine: DockerEngine) -> None:
    taken = answer(409, b'{"message":"Conflict. The container name is already in use"}')
    server.replies[CREATE] = [None, taken]
    server.replies["GET /containers/n/json"] = [state("created")]
    assert await engine.create(spec()) == "c1"
    server.replies["GET /containers/n/json"] = [state("exited")]
    with pytest.raises(EngineConflictError):
        await engine.create(spec())


async def test_create_has_one_more_try_after_an_internal_error(
    server: Server, engine: DockerEngine
) -> None:
    boom = answer(500, b'{"message":"boom"}')
    server.replies[CREATE] = [boom, answer(201, b'{"Id":"c2"}')]
    assert await engine.create(spec()) == "c2"
    server.replies[CREATE] = [boom]
    with pytest.raises(EngineError, match="boom"):
        await engine.create(spec())
    assert server.count(CREATE) == 4


async def test_create_tells_an_absent_image_from_other_absences(
    server: Server, engine: DockerEngine
) -> None:
    server.replies[CREATE] = [answer(404, b'{"message":"No such image: x"}')]
    with pytest.raises(ImageUnusableError):
        await engine.create(spec())
    server.replies[CREATE] = [answer(404, b'{"message":"No such container: pause"}')]
    with pytest.raises(EngineNotFoundError):
        await engine.create(spec())


@pytest.mark.parametrize(
    ("status", "phase", "result"),
    [
        (204, "running", KillResult.KILLED),
        (404, "running", KillResult.GONE),
        (409, "exited", KillResult.ALREADY_ENDED),
        (500, "exited", KillResult.ALREADY_ENDED),
        (409, "created", KillResult.ALREADY_ENDED),
    ],
)
async def test_kill(
    server: Server, engine: DockerEngine, status: int, phase: str, result: KillResult
) -> None:
    server.replies[KILL] = [answer(status, b'{"message":"x"}' if status != 204 else b"")]
    server.replies[INSPECT] = [state(phase)]
    assert await engine.kill("c1") is result


async def test_a_failed_kill_of_a_running_container_is_a_fault(
    server: Server, engine: DockerEngine
) -> None:
    server.replies[KILL] = [answer(500, b'{"message":"did not receive an exit event"}')]
    server.replies[INSPECT] = [state("running")]
    with pytest.raises(EngineError, match="exit event"):
        await engine.kill("c1")


async def test_removal_waits_for_one_in_progress(server: Server, engine: DockerEngine) -> None:
    server.replies[REMOVE] = [answer(409, b'{"message":"removal is already in progress"}')]
    server.replies[INSPECT] = [state("removing"), state("removing"), answer(404, b"{}")]
    assert await engine.remove("c1", timeout_seconds=10)
    assert server.count(REMOVE) == 1


async def test_removal_tries_again_after_an_internal_error(
    server: Server, engine: DockerEngine
) -> None:
    server.replies[REMOVE] = [answer(500, b'{"message":"device busy"}'), None, answer(204)]
    server.replies[INSPECT] = [state("dead")]
    assert await engine.remove("c1", timeout_seconds=10)
    assert server.count(REMOVE) == 3


async def test_removal_has_a_deadline(server: Server, engine: DockerEngine) -> None:
    server.replies[REMOVE] = [answer(500, b'{"message":"device busy"}')]
    server.replies[INSPECT] = [state("dead")]
    assert await engine.remove("c1", timeout_seconds=0.3) is False


async def test_waiting_polls_until_it_has_ended(server: Server, engine: DockerEngine) -> None:
    server.replies[INSPECT] = [state("running"), state("running"), state("exited", 5)]
    found = await engine.wait_ended("c1", timeout_seconds=5)
    assert found is not None
    assert found.exit_code == 5


async def test_an_unknown_phase_is_a_fault(server: Server, engine: DockerEngine) -> None:
    server.replies[INSPECT] = [state("melting")]
    with pytest.raises(EngineError, match="melting"):
        await engine.inspect("c1")
    server.replies[INSPECT] = [answer(200, b"{}")]
    with pytest.raises(EngineError, match="lacks"):
        await engine.inspect("c1")
    server.replies[INSPECT] = [answer(200, b"<html>")]
    with pytest.raises(EngineError, match="not JSON"):
        await engine.inspect("c1")


async def test_bytes_that_come_with_the_head_are_kept(server: Server, engine: DockerEngine) -> None:
    server.replies[ATTACH] = [UPGRADE + b"\x01\0\0\0\0\0\0\x05hello"]
    async with engine.attach("c1") as attachment:
        (chunk,) = await attachment.receive()
        assert (chunk.stderr, chunk.data) == (False, b"hello")


@pytest.mark.parametrize("cut", [b"\x01\0\0\0", b"\x01\0\0\0\0\0\0\x05hel"])
async def test_a_cut_stream_is_not_an_end(server: Server, engine: DockerEngine, cut: bytes) -> None:
    def reply(connection: socket.socket) -> None:
        connection.sendall(UPGRADE + cut)

    server.replies[ATTACH] = [reply]
    async with engine.attach("c1") as attachment:
        with pytest.raises(EngineError, match="cut"):
            await _drain(attachment)


async def _drain(attachment: Attachment) -> None:
    while await attachment.receive():
        pass


async def test_the_end_of_a_stream_is_the_end(server: Server, engine: DockerEngine) -> None:
    def reply(connection: socket.socket) -> None:
        connection.sendall(UPGRADE + b"\x02\0\0\0\0\0\0\x01e")

    server.replies[ATTACH] = [reply]
    async with engine.attach("c1") as attachment:
        (chunk,) = await attachment.receive()
        assert chunk.stderr
        assert await attachment.receive() == []
        assert await attachment.receive() == []


@pytest.mark.parametrize(
    "stream",
    [b"\x07\0\0\0\0\0\0\x01x", b"\x01\x01\0\0\0\0\0\x01x", b"\x03\0\0\0\0\0\0\x04oops"],
)
async def test_a_malformed_stream_is_a_fault(
    server: Server, engine: DockerEngine, stream: bytes
) -> None:
    server.replies[ATTACH] = [UPGRADE + stream]
    async with engine.attach("c1") as attachment:
        with pytest.raises(EngineError):
            await attachment.receive()


@pytest.mark.parametrize(
    ("reply", "fault"),
    [
        (answer(404, b'{"message":"No such container"}'), EngineNotFoundError),
        (answer(409, b'{"message":"not running"}'), EngineConflictError),
        (answer(500, b"x"), EngineError),
        (b"SSH-2.0-OpenSSH\r\n\r\n", EngineError),
        (None, EngineError),
    ],
)
async def test_a_refused_attach(
    server: Server, engine: DockerEngine, reply: bytes | None, fault: type[EngineError]
) -> None:
    server.replies[ATTACH] = [reply]
    with pytest.raises(fault):
        async with engine.attach("c1"):
            pytest.fail("attached")


async def test_sending_to_a_peer_that_does_not_read_can_be_cancelled(
    server: Server, engine: DockerEngine
) -> None:
    def reply(connection: socket.socket) -> None:
        connection.sendall(UPGRADE)
        server.mute(connection)

    server.replies[ATTACH] = [reply]
    async with engine.attach("c1") as attachment:
        with anyio.move_on_after(0.1) as scope:
            await attachment.send(bytes(10_000_000))
        assert scope.cancelled_caught


async def test_tcp(server: Server) -> None:
    del server
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    listener.close()
    with pytest.raises(EngineUnavailableError):
        await connect(f"tcp://127.0.0.1:{port}")
    with pytest.raises(EngineUnavailableError):
        await attach.open_attachment(attach.TcpAddress("127.0.0.1", port), "/x", seconds=2)


async def test_listing_asks_for_all_labels(server: Server, engine: DockerEngine) -> None:
    server.replies["GET /containers/json"] = [
        answer(200, b'[{"Id":"a","Names":["/n"],"State":"exited","Labels":{"x":"1"}}]')
    ]
    assert [each.name for each in await engine.list_containers({"x": "1"})] == ["n"]
    # Some engines take several labels as alternatives.
    assert await engine.list_containers({"x": "1", "y": "2"}) == []
