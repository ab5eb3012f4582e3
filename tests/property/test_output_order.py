"""Redacting two streams at once: each as if alone, and everything in its place."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import TypeAlias

from hypothesis import given, settings
from hypothesis import strategies as st

from sandboxrun.model.event import Stream
from sandboxrun.output.ordered import OrderedRedactor
from sandboxrun.output.redact import Kept, Redaction, StreamRedactor
from sandboxrun.output.secret_forms import Secret

Written: TypeAlias = tuple[Stream, bytes]

REDACTION = Redaction.of([Secret("ONE", b"hunter2/hunter2"), Secret("TWO", b"ter2x")])
STREAMS: st.SearchStrategy[Stream] = st.sampled_from(["stdout", "stderr"])
TOKEN = b"ghp_" + b"a1B2" * 9
PIECES = st.sampled_from(
    [
        b"hunter2/",
        b"hunter2",
        b"hun",
        b"ter2",
        b"x",
        b"\n",
        b"\x1b[1m",
        b" ",
        TOKEN,
        TOKEN[:9],
        TOKEN[9:],
        b"https://",
        b"u:p@",
        b"h",
        b"ab",
        b"c" * 50,
    ]
)
WRITES = st.lists(st.tuples(STREAMS, PIECES), max_size=14)


def merged(parts: Iterable[Written]) -> list[Written]:
    result: list[Written] = []
    for stream, group in itertools.groupby(parts, key=lambda part: part[0]):
        data = b"".join([data for _, data in group])
        if data:
            result.append((stream, data))
    return result


def redacted(parts: Iterable[Written], most_waiting: int) -> list[Written]:
    redactor = OrderedRedactor(REDACTION, most_waiting=most_waiting)
    passed: list[Written] = []
    for stream, data in parts:
        passed += redactor.feed(stream, data)
        assert redactor.waiting_bytes <= most_waiting + 2 * 450
    passed += redactor.finish()
    assert redactor.waiting_bytes == 0
    return merged(passed)


def byte_by_byte(parts: Iterable[Written]) -> list[Written]:
    return [(stream, data[i : i + 1]) for stream, data in parts for i in range(len(data))]


def alone(parts: list[Written], stream: Stream) -> list[bytes]:
    """Return what became of each byte of one stream."""
    data = b"".join([data for to, data in parts if to == stream])
    became: list[bytes] = []
    for passage in StreamRedactor(REDACTION).feed(data, final=True):
        if isinstance(passage, Kept):
            became += [passage.data[i : i + 1] for i in range(len(passage.data))]
        else:
            became += [passage.text, *[b""] * (passage.length - 1)]
    return became


@given(WRITES)
@settings(max_examples=400, deadline=None)
def test_nothing_is_out_of_place(parts: list[Written]) -> None:
    became = {"stdout": iter(alone(parts, "stdout")), "stderr": iter(alone(parts, "stderr"))}
    expected = merged((stream, next(became[stream])) for stream, _ in byte_by_byte(parts))
    assert redacted(parts, 1_000_000) == merged(expected)
    assert redacted(byte_by_byte(parts), 1_000_000) == merged(expected)


@given(WRITES, st.integers(1, 40))
@settings(max_examples=400, deadline=None)
def test_where_the_order_gives_way_depends_on_the_bytes_alone(
    parts: list[Written], most_waiting: int
) -> None:
    got = redacted(parts, most_waiting)
    assert got == redacted(byte_by_byte(parts), most_waiting)
    for stream in ("stdout", "stderr"):
        joined = b"".join([data for to, data in got if to == stream])
        assert joined == b"".join(alone(parts, stream))


def test_ten_thousand_alternating_lines_with_secrets_are_all_in_place() -> None:
    redactor = OrderedRedactor(REDACTION)
    passed: list[Written] = []
    for number in range(5000):
        passed += redactor.feed("stdout", b"o%d hunter2/hunter2 hun\n" % number)
        passed += redactor.feed("stderr", b"e%d " % number + TOKEN + b" gh\n")
    passed += redactor.finish()
    lines = b"".join([data for _, data in merged(passed)]).splitlines()
    assert [line.split()[0] for line in lines] == [
        b"%b%d" % (kind, number) for number in range(5000) for kind in (b"o", b"e")
    ]
    assert {line.split(b" ", 1)[1] for line in lines} == {
        b"[redacted: ONE] hun",
        b"[redacted: github-token] gh",
    }


def test_a_stream_that_holds_back_cannot_fill_the_memory() -> None:
    redactor = OrderedRedactor(REDACTION)
    assert redactor.feed("stdout", b"hunter2/") == []
    total = 0
    for _ in range(200):
        total += sum(len(data) for _, data in redactor.feed("stderr", b"x" * 65536))
        assert redactor.waiting_bytes <= 1024 * 1024 + 8
    assert total >= 190 * 65536
    rest = redactor.feed("stdout", b"hunter2") + redactor.finish()
    assert ("stdout", b"[redacted: ONE]") in rest
    total += sum(len(data) for stream, data in rest if stream == "stderr")
    assert total == 200 * 65536
