"""The request of a command line, in any pieces, and what is none."""

from __future__ import annotations

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from sandboxrun.interfaces.daemon import wire

words = st.binary(max_size=20).map(lambda data: data.replace(b"\0", b""))


@given(st.lists(words, max_size=6), words, st.lists(words, max_size=6), st.integers(1, 7))
def test_a_request_arrives_in_any_pieces(
    arguments: list[bytes], cwd: bytes, environment: list[bytes], step: int
) -> None:
    data = wire.request(arguments, cwd, environment)
    taken = b""
    while wanted := wire.missing(taken):
        taken += data[len(taken) : len(taken) + min(wanted, step)]
    assert taken == data
    assert wire.parse(taken) == (arguments, cwd, environment)


@given(st.binary(max_size=60))
def test_anything_else_is_refused_or_asks_for_more(data: bytes) -> None:
    with contextlib.suppress(ValueError):
        if wire.missing(data) == 0:
            wire.parse(data)


@given(st.integers(0, 255))
def test_the_status_comes_through(status: int) -> None:
    data = wire.verdict(status)
    assert wire.status_of(data) == status
    assert wire.status_of(data[:-1]) is None
