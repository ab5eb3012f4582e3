"""Properties of the engine layer's pure parts."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from sandboxrun.engine.faults import message_of, shown
from sandboxrun.engine.multiplex import Demultiplexer
from sandboxrun.engine.seccomp import other_than
from sandboxrun.errors import EngineError

Frames = st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=300)), max_size=20)
Cuts = st.lists(st.integers(min_value=1, max_value=400), max_size=60)


def encode(frames: list[tuple[int, bytes]]) -> bytes:
    return b"".join(
        bytes([stream, 0, 0, 0]) + len(data).to_bytes(4, "big") + data for stream, data in frames
    )


def feed(wire: bytes, cuts: list[int]) -> tuple[bytes, bytes]:
    demultiplexer = Demultiplexer()
    out, err = b"", b""
    position = 0
    for size in [*cuts, len(wire)]:
        for chunk in demultiplexer.feed(wire[position : position + size]):
            assert chunk.data
            if chunk.stderr:
                err += chunk.data
            else:
                out += chunk.data
        position += size
    demultiplexer.finish()
    return out, err


@given(Frames, Cuts)
def test_any_split_gives_the_same_streams(frames: list[tuple[int, bytes]], cuts: list[int]) -> None:
    out = b"".join(data for stream, data in frames if stream == 1)
    err = b"".join(data for stream, data in frames if stream == 2)
    assert feed(encode(frames), cuts) == (out, err)


@given(Frames, st.data())
def test_any_truncation_is_a_fault(frames: list[tuple[int, bytes]], data: st.DataObject) -> None:
    wire = encode(frames)
    ends = {0}
    for _, payload in frames:
        ends.add(max(ends) + 8 + len(payload))
    length = data.draw(st.integers(min_value=0, max_value=len(wire)))
    try:
        feed(wire[:length], [])
    except EngineError:
        assert length not in ends
    else:
        assert length in ends


@given(st.binary(max_size=200), Cuts)
def test_garbage_is_a_fault_or_nothing(wire: bytes, cuts: list[int]) -> None:
    try:
        out, err = feed(wire, cuts)
    except EngineError:
        return
    assert len(out) + len(err) <= len(wire)


@given(
    st.sets(st.integers(min_value=0, max_value=2**32 - 1), min_size=1, max_size=5),
    st.integers(min_value=0, max_value=2**32 - 1),
)
def test_masked_comparisons_hold_for_all_other_numbers(forbidden: set[int], number: int) -> None:
    pairs = other_than(forbidden)
    for each in [*forbidden, number]:
        matches = sum(each & mask == value for mask, value in pairs)
        assert matches == (0 if each in forbidden else 1)


@given(st.text(max_size=3000))
def test_what_engines_say_is_shown_in_one_bounded_line(text: str) -> None:
    line = shown(text)
    assert line.isprintable()
    assert len(line) <= 1001


@given(
    st.binary(max_size=300)
    | st.text(max_size=50).map(lambda t: json.dumps({"message": t}).encode())
)
def test_any_error_body_has_a_message(body: bytes) -> None:
    assert message_of(body).isprintable()
