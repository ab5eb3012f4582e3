"""The fake engine's scripts, and the installation of the init, which needs no real engine."""

from __future__ import annotations

import anyio
import pytest
from test_engine_spec import plan

from sandboxrun.engine import init_volume
from sandboxrun.engine.fake import FakeEngine
from sandboxrun.engine.fake_init import (
    Die,
    EchoStdin,
    Err,
    Exit,
    Fatal,
    Hang,
    Out,
    Raw,
    Step,
    WaitFor,
    exits,
    scripted_init,
    signaled,
)
from sandboxrun.engine.fake_store import FAKE_IMAGE, FAKE_INFO, FakeFile, Verb
from sandboxrun.engine.hardening import harden
from sandboxrun.engine.init_volume import ensure
from sandboxrun.engine.posture_compare import compare
from sandboxrun.engine.posture_promise import promised_posture
from sandboxrun.engine.sandbox import open_sandbox
from sandboxrun.engine.spec import ContainerSpec
from sandboxrun.errors import EngineError, EngineTimeoutError, InstallError, ProtocolError
from sandboxrun.init.request import InitRequest
from sandboxrun.init.session import EndReason, Output

pytestmark = pytest.mark.anyio
LABELS = (("a", "b"),)
REQUEST = InitRequest(script=b"x", cwd=b"/", deadline_ms=1000)


def spec() -> ContainerSpec:
    return harden(plan(engine=FAKE_INFO))


async def played(
    *steps: Step, stdin: bytes | None = None
) -> tuple[list[Output], EndReason, int | None]:
    request = InitRequest(script=b"x", cwd=b"/", deadline_ms=1000, stdin=stdin is not None)
    output: list[Output] = []
    async with FakeEngine(scripted_init(lambda _: steps)) as engine:
        async with open_sandbox(engine, spec()) as sandbox:
            posture = await sandbox.start()
            assert compare(promised_posture(spec(), FAKE_INFO), posture) == []
            await sandbox.run(request, stdin, output.append)
            assert sandbox.record is not None or sandbox.end is not None
            await sandbox.finish(output.append)
            assert await sandbox.contradiction() is None
            state = sandbox.state
            assert state is not None
        assert engine.containers == {}
        reason = EndReason.COMPLETE if sandbox.end is None else sandbox.end.reason
        return output, reason, state.exit_code


async def test_a_script_speaks_the_protocol() -> None:
    output, reason, code = await played(Out(b"a" * 100_000), Err(b"b"), exits(3))
    assert b"".join(each.data for each in output) == b"a" * 100_000 + b"b"
    assert output[-1] == Output("stderr", b"b")
    assert (reason, code) == (EndReason.COMPLETE, 0)
    _, reason, _ = await played(signaled(9))
    assert reason is EndReason.COMPLETE


async def test_stdin_is_echoed() -> None:
    output, _, _ = await played(EchoStdin(), Exit(), stdin=b"x" * 3_000_000)
    assert b"".join(each.data for each in output) == b"x" * 3_000_000


async def test_death_without_a_record() -> None:
    output, reason, code = await played(Out(b"a"), Die(139))
    assert (output, reason, code) == ([Output("stdout", b"a")], EndReason.CUT, 139)


async def test_what_is_not_the_protocol() -> None:
    with pytest.raises(ProtocolError):
        await played(Raw(b"\xff" * 100), Hang())
    with pytest.raises(ProtocolError, match="no fork"):
        await played(Fatal("no fork"))


async def test_a_hanging_command_is_killed() -> None:
    event = anyio.Event()
    output: list[Output] = []
    async with FakeEngine(scripted_init(lambda _: (WaitFor(event), Out(b"a"), Hang()))) as engine:
        async with open_sandbox(engine, spec()) as sandbox:
            await sandbox.start()
            async with anyio.create_task_group() as group:
                group.start_soon(sandbox.run, REQUEST, None, output.append)
                await anyio.wait_all_tasks_blocked()
                event.set()
                await anyio.wait_all_tasks_blocked()
                group.cancel_scope.cancel()
            await sandbox.finish(output.append)
            assert await sandbox.contradiction() is None
            state = sandbox.state
        assert state is not None
        assert state.exit_code == 137
        assert output == [Output("stdout", b"a")]


async def test_planned_faults() -> None:
    async with FakeEngine(scripted_init()) as engine:
        engine.plan(Verb.CREATE, EngineError("no"))
        with pytest.raises(EngineError, match="no"):
            await engine.create(spec())
        assert engine.containers == {}
        engine.plan(Verb.CREATE, EngineTimeoutError("lost"), carried_out=True)
        with pytest.raises(EngineTimeoutError):
            await engine.create(spec())
        assert list(engine.containers) == ["run-1"]
        engine.plan(Verb.INSPECT, None)
        with anyio.move_on_after(0.01) as scope:
            await engine.inspect("run-1")
        assert scope.cancelled_caught
        assert await engine.inspect("run-1") is not None
        assert engine.calls.count(Verb.CREATE) == 2
        assert [
            text
            async for text in engine.build_image(
                b"", dockerfile="D", tag="t:1", build_args={}, labels={"l": "1"}, network="none"
            )
        ] == ["built t:1"]
        assert [image.tags for image in await engine.list_images({"l": "1"})] == [("t:1",)]


async def test_the_init_is_installed_once() -> None:
    async with FakeEngine(scripted_init()) as engine:
        first = await ensure(engine, FAKE_IMAGE.id, b"binary", LABELS)
        files = engine.volumes[first.name].files
        assert files["sandboxrun-init"] == FakeFile(0o555, b"binary")
        assert files["etc/resolv.conf"].content == b""
        assert engine.calls.count(Verb.PUT_ARCHIVE) == 1
        assert await ensure(engine, FAKE_IMAGE.id, b"binary", (("other", "installation"),)) == first
        assert engine.calls.count(Verb.PUT_ARCHIVE) == 1
        read = engine.calls.count(Verb.GET_ARCHIVE)
        assert await ensure(engine, FAKE_IMAGE.id, b"binary", LABELS, known=first) == first
        assert engine.calls.count(Verb.GET_ARCHIVE) == read
        assert (await ensure(engine, FAKE_IMAGE.id, b"another", LABELS)).name != first.name
        assert engine.containers == {}


async def test_a_changed_init_is_installed_again() -> None:
    async with FakeEngine(scripted_init()) as engine:
        first = await ensure(engine, FAKE_IMAGE.id, b"binary", LABELS)
        engine.volumes[first.name].files["sandboxrun-init"] = FakeFile(0o555, b"trojan")
        assert await ensure(engine, FAKE_IMAGE.id, b"binary", LABELS) == first
        assert engine.volumes[first.name].files["sandboxrun-init"].content == b"binary"
        engine.volumes[first.name].files["extra"] = FakeFile(0o555, b"what?")
        with pytest.raises(InstallError):
            await ensure(engine, FAKE_IMAGE.id, b"binary", LABELS)


async def test_installers_exclude_each_other() -> None:
    async with FakeEngine(scripted_init()) as engine:
        async with anyio.create_task_group() as group:
            for _ in range(8):
                group.start_soon(ensure, engine, FAKE_IMAGE.id, b"binary", LABELS)
        assert engine.calls.count(Verb.PUT_ARCHIVE) == 1
        assert engine.containers == {}


async def test_a_dead_installer_is_cleared_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(init_volume, "LOCK_SECONDS", 0.1)
    async with FakeEngine(scripted_init()) as engine:
        first = await ensure(engine, FAKE_IMAGE.id, b"binary", LABELS)
        async with anyio.create_task_group() as group:
            scope = anyio.CancelScope()

            async def die() -> None:
                with scope:
                    engine.plan(Verb.GET_ARCHIVE, None)
                    engine.plan(Verb.REMOVE, EngineError("the process is dead"))
                    with pytest.raises(EngineError):
                        await ensure(engine, FAKE_IMAGE.id, b"binary", LABELS)

            group.start_soon(die)
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(EngineError, match="dead"):
                await ensure(engine, FAKE_IMAGE.id, b"binary", LABELS)
            assert await ensure(engine, FAKE_IMAGE.id, b"binary", LABELS) == first
            group.cancel_scope.cancel()
