"""The spool keeps every byte in order, whatever the cuts, and a crash leaves a readable prefix."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path
from typing import TypeAlias

from hypothesis import given, settings
from hypothesis import strategies as st

from sandboxrun.model.event import Event, Output, Started, Stream
from sandboxrun.output.record import MAGIC
from sandboxrun.output.spool import MAX_EVENT_BYTES, SpoolWriter
from sandboxrun.output.spool_reader import SpoolReader

Write: TypeAlias = tuple[Stream, bytes]

STREAMS: st.SearchStrategy[Stream] = st.sampled_from(["stdout", "stderr"])
DATA = st.one_of(
    st.binary(max_size=8),
    st.sampled_from([b"\xf0\x9f", b"\x98\x80", b"\xe6", b"\xbc\xa2", b"line\n", b"x" * 70_000]),
    st.text(max_size=4).map(str.encode),
)
WRITES = st.lists(st.tuples(STREAMS, DATA), max_size=20)
INTERVALS = st.sampled_from([0.0, 0.1, 1000.0])


def spooled(path: Path, writes: list[Write], interval: float) -> None:
    with SpoolWriter(path, coalesce_seconds=interval) as writer:
        writer.append(Started(cold=True))
        for stream, data in writes:
            writer.append_output(stream, data)


def everything(path: Path, after: int = 0) -> list[Event]:
    with SpoolReader(path, after=after) as reader:
        found: list[Event] = []
        while batch := reader.read(final=True):
            found += batch
        return found


def joined(events: list[Event], stream: Stream) -> bytes:
    return b"".join([e.data for e in events if isinstance(e, Output) and e.stream == stream])


@given(WRITES, INTERVALS)
@settings(max_examples=150, deadline=None)
def test_every_byte_is_there_and_numbers_have_no_gaps(writes: list[Write], interval: float) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name, "spool")
        spooled(path, writes, interval)
        events = everything(path)
        for after in range(len(events) + 2):
            assert everything(path, after) == events[after:]
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    for stream in ("stdout", "stderr"):
        assert joined(events, stream) == b"".join([data for to, data in writes if to == stream])
    assert all(len(e.data) <= MAX_EVENT_BYTES for e in events if isinstance(e, Output))


@given(st.text(min_size=1, max_size=12), st.lists(st.integers(0, 40)), STREAMS, INTERVALS)
@settings(max_examples=150, deadline=None)
def test_text_stays_text_wherever_it_is_cut(
    text: str, cuts: list[int], stream: Stream, interval: float
) -> None:
    data = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace").encode()
    places = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    with tempfile.TemporaryDirectory() as name:
        path = Path(name, "spool")
        pieces = [data[a:b] for a, b in itertools.pairwise(places)]
        spooled(path, [(stream, piece) for piece in pieces], interval)
        outputs = [event for event in everything(path) if isinstance(event, Output)]
    assert all(output.text is not None for output in outputs)
    assert "".join([output.text or "" for output in outputs]).encode() == data


@given(WRITES, st.data())
@settings(max_examples=100, deadline=None)
def test_a_crash_leaves_a_prefix_and_the_run_can_be_settled(
    writes: list[Write], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name, "spool")
        spooled(path, writes, 0.0)
        whole = everything(path)
        content = path.read_bytes()
        end = data.draw(st.integers(len(MAGIC), len(content)))
        damage = data.draw(st.sampled_from([b"", b"\0" * 64, b"\xff" * 64]))
        path.write_bytes(content[:end] + damage)
        rest = everything(path)
        assert rest == whole[: len(rest)]
        assert len(rest) == len(whole) or end < len(content)
        with SpoolWriter(path, resume=True) as writer:
            added = writer.append(Started())
        assert everything(path) == [*rest, added]
        assert added.seq == len(rest) + 1
