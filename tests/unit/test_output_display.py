"""What a watching human is shown: everything once, nothing undecided, nobody waiting for long."""

from __future__ import annotations

from contextlib import aclosing
from pathlib import Path
from typing import TypeAlias

import anyio
import pytest

from sandboxrun.model.event import Settled, Stream
from sandboxrun.model.status import Status
from sandboxrun.output.display import display
from sandboxrun.output.redact import Redaction
from sandboxrun.output.run_log import RunLog
from sandboxrun.output.secret_forms import Secret

Part: TypeAlias = tuple[Stream, bytes]

pytestmark = pytest.mark.anyio
SECRET = b"correct-horse-battery"
REDACTION = Redaction.of([Secret("PHRASE", SECRET)])


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Watching:
    """Collects what is shown and wakes who waits for some of it."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self._more = anyio.Event()

    def text(self, stream: Stream) -> bytes:
        return b"".join([data for to, data in self.parts if to == stream])

    async def watch(self, log: RunLog) -> None:
        async with aclosing(display(log, patience_seconds=0.02)) as stream:
            async for part in stream:
                self.parts.append(part)
                self._more.set()
                self._more = anyio.Event()

    async def until(self, stream: Stream, data: bytes) -> None:
        with anyio.fail_after(10):
            while data not in self.text(stream):
                await self._more.wait()


async def test_the_other_stream_does_not_wait_for_long(tmp_path: Path) -> None:
    log = RunLog(tmp_path / "spool", REDACTION)
    watching = Watching()
    async with anyio.create_task_group() as group:
        group.start_soon(watching.watch, log)
        completing = anyio.CancelScope()
        group.start_soon(complete, log, completing)
        log.output("stdout", b"password? correct-ho")
        log.output("stderr", b"one\n")
        await watching.until("stderr", b"one\n")
        assert watching.text("stdout") == b"password? "
        log.output("stderr", b"two\n")
        await watching.until("stderr", b"two\n")
        log.output("stdout", SECRET[10:] + b" ok\n")
        log.output("stderr", b"three\n")
        log.event(Settled(status=Status.SUCCEEDED))
        completing.cancel()
    log.close()
    assert watching.text("stderr") == b"one\ntwo\nthree\n"
    assert watching.text("stdout").startswith(b"password? ")
    record = [part async for part in display(log)]
    assert b"".join([data for _, data in record]) == (
        b"password? [redacted: PHRASE]one\ntwo\n ok\nthree\n"
    )
    assert watching.text("stdout") == b"password? [redacted: PHRASE] ok\n"


async def complete(log: RunLog, scope: anyio.CancelScope) -> None:
    with scope:
        await log.complete_events()
