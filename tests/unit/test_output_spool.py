"""One spool, several readers: the same sequence for all, live, late and from another process."""

from __future__ import annotations

import json
import sys
from contextlib import aclosing
from pathlib import Path

import anyio
import pytest

from sandboxrun.errors import OutputError
from sandboxrun.model.event import (
    Event,
    Exited,
    Output,
    Settled,
    Started,
    event_json,
    parse_event,
)
from sandboxrun.model.status import Status
from sandboxrun.output.changes import Changes
from sandboxrun.output.events import batches, events
from sandboxrun.output.spool import SpoolWriter
from sandboxrun.output.spool_reader import BATCH_EVENTS, SpoolReader

READ_ALL = """
import sys, anyio
from pathlib import Path
from sandboxrun.model.event import event_json
from sandboxrun.output.events import events
async def main():
    async for event in events(Path(sys.argv[1]), after=int(sys.argv[2])):
        print(event_json(event), flush=True)
anyio.run(main)
"""


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "spool"


async def collect(path: Path, after: int = 0, changes: Changes | None = None) -> list[Event]:
    async with aclosing(events(path, after=after, changes=changes)) as stream:
        return [event async for event in stream]


def test_the_file_is_private_and_never_reused(path: Path) -> None:
    with SpoolWriter(path):
        assert path.stat().st_mode & 0o777 == 0o600
        with pytest.raises(OutputError):
            SpoolWriter(path)
        with pytest.raises(OutputError, match="another process"):
            SpoolWriter(path, resume=True)


def test_nothing_follows_the_settled_event(path: Path) -> None:
    with SpoolWriter(path) as writer:
        writer.append_output("stdout", b"\xe6")
        writer.append(Settled(status=Status.SUCCEEDED, exit_code=0))
        with pytest.raises(OutputError, match="settled"):
            writer.append(Started())
        with pytest.raises(OutputError, match="settled"):
            writer.append_output("stdout", b"x")
    with SpoolReader(path) as reader:
        first, last = reader.read()
        assert isinstance(first, Output)
        assert (first.text, first.data_base64, first.data) == (None, "5g==", b"\xe6")
        assert isinstance(last, Settled)
        assert reader.settled


def test_the_first_write_is_seen_at_once_and_the_next_when_its_time_is_over(path: Path) -> None:
    with SpoolWriter(path, coalesce_seconds=1000) as writer, SpoolReader(path) as reader:
        writer.append_output("stdout", b"one\n")
        assert [event.seq for event in reader.read()] == [1]
        assert writer.due is None
        writer.append_output("stdout", b"two\n")
        writer.append_output("stdout", b"three\n")
        assert reader.read() == []
        assert writer.due is not None
        writer.close_event()
        (event,) = reader.read()
        assert isinstance(event, Output)
        assert (event.seq, event.text) == (2, "two\nthree\n")


def test_a_change_of_stream_keeps_the_order(path: Path) -> None:
    with SpoolWriter(path, coalesce_seconds=1000) as writer:
        for number in range(50):
            writer.append_output("stdout", b"o%d\n" % number)
            writer.append_output("stderr", b"e%d\n" % number)
    with SpoolReader(path) as reader:
        got = [e.text for e in reader.read(final=True) if isinstance(e, Output)]
    assert got == [f"{kind}{number}\n" for number in range(50) for kind in "oe"]


def test_events_are_one_line_of_json_with_utc_times(path: Path) -> None:
    with SpoolWriter(path) as writer:
        event = writer.append(Exited(exit_code=3))
    fields = json.loads(event_json(event))
    assert fields.keys() == {"seq", "type", "time", "exit_code"}
    assert fields["time"].endswith("Z")
    assert parse_event(event_json(event)) == event


@pytest.mark.anyio
async def test_live_late_slow_and_resumed_consumers_see_one_sequence(path: Path) -> None:
    live: list[Event] = []
    slow: list[list[Event]] = []
    with SpoolWriter(path, coalesce_seconds=0) as writer:
        first_seen, all_written = anyio.Event(), anyio.Event()

        async def follow() -> None:
            live.extend(await collect(path, changes=writer.changes))

        async def crawl() -> None:
            stream = batches(path, changes=writer.changes, interval_seconds=0)
            async with aclosing(stream):
                async for batch in stream:
                    slow.append(batch)
                    first_seen.set()
                    await all_written.wait()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(follow)
            tasks.start_soon(crawl)
            writer.append(Started())
            await first_seen.wait()
            for number in range(2000):
                writer.append_output("stdout" if number % 3 else "stderr", b"%d\n" % number)
            writer.append(Settled(status=Status.SUCCEEDED, exit_code=0))
            all_written.set()
    late = await collect(path)
    assert [event.seq for event in late] == list(range(1, 2003))
    assert live == late
    assert [event for batch in slow for event in batch] == late
    assert max(map(len, slow)) == BATCH_EVENTS
    assert await collect(path, after=1500) == late[1500:]


@pytest.mark.anyio
async def test_another_process_follows_and_resumes(path: Path) -> None:
    with SpoolWriter(path) as writer:
        writer.append(Started())
        command = [sys.executable, "-c", READ_ALL, str(path)]
        async with await anyio.open_process([*command, "0"], stderr=None) as process:
            assert process.stdout is not None
            got = await process.stdout.receive()
            for number in range(300):
                writer.append_output("stdout", b"%d\n" % number)
                writer.append_output("stderr", b"e\n")
            writer.append(Settled(status=Status.FAILED, exit_code=1))
            async for chunk in process.stdout:
                got += chunk
    expected = [event_json(event) for event in await collect(path)]
    assert got.decode().splitlines() == expected
    again = await anyio.run_process([*command, "400"])
    assert again.stdout.decode().splitlines() == expected[400:]


@pytest.mark.anyio
async def test_a_spool_whose_writer_died_ends(path: Path) -> None:
    writer = SpoolWriter(path, coalesce_seconds=1000)
    writer.append_output("stdout", b"one\n")
    writer.append_output("stdout", b"two")
    writer._file.close()
    got = await collect(path)
    assert [event.seq for event in got] == [1, 2]
    with SpoolWriter(path, resume=True) as recovered:
        recovered.append(Settled(status=Status.LOST))
    assert [event.type for event in await collect(path)] == ["output", "output", "settled"]
