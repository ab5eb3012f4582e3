"""The probe program's protocol, and how observations are read."""

from __future__ import annotations

import errno
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandboxrun.checks.attempt import (
    Attempt,
    Observation,
    encode_attempts,
    parse_observations,
)
from sandboxrun.errors import ProtocolError

ATTEMPTS = st.builds(
    Attempt,
    st.text(st.characters(exclude_characters="\t\n\0", exclude_categories=("Cs",)), min_size=1),
    st.lists(
        st.text(st.characters(exclude_characters="\t\n\0", exclude_categories=("Cs",))), max_size=8
    ).map(tuple),
    st.floats(0, 1000),
)
OBSERVATIONS = st.builds(
    Observation,
    end=st.sampled_from(["done", "timeout", "signal 9", "signal 31"]),
    value=st.integers(-(2**63), 2**63 - 1),
    error=st.integers(0, 133),
    text=st.text(st.characters(exclude_categories=("Cs",))),
    cut=st.booleans(),
)


def written(observations: list[Observation]) -> bytes:
    """Return what the program would write for ``observations``."""
    lines = [
        {
            "n": index,
            "end": each.end,
            "value": each.value,
            "errno": each.error,
            "cut": each.cut,
            "text": each.text.encode().decode("latin-1"),
        }
        for index, each in enumerate(observations)
    ]
    return "".join(json.dumps(line) + "\n" for line in [*lines, {"attempts": len(lines)}]).encode()


@given(st.lists(ATTEMPTS))
def test_every_attempt_is_a_line(attempts: list[Attempt]) -> None:
    lines = encode_attempts(attempts).decode().split("\n")
    assert lines.pop() == ""
    assert [tuple(line.split("\t")[1:]) for line in lines] == [
        (each.verb, *each.arguments) for each in attempts
    ]
    assert [int(line.split("\t")[0]) for line in lines] == [
        int(each.seconds * 1000) for each in attempts
    ]


@pytest.mark.parametrize("text", ["a\tb", "a\nb", "a\0b"])
def test_what_would_be_another_field_is_not_written(text: str) -> None:
    with pytest.raises(ValueError, match="cannot be written"):
        encode_attempts([Attempt("read", (text,))])


@given(st.lists(OBSERVATIONS))
def test_observations_are_read_back(observations: list[Observation]) -> None:
    assert parse_observations(written(observations), len(observations)) == tuple(observations)


@given(st.lists(OBSERVATIONS, min_size=1), st.data())
def test_an_answer_cut_anywhere_is_no_answer(
    observations: list[Observation], data: st.DataObject
) -> None:
    whole = written(observations)
    part = whole[: data.draw(st.integers(0, len(whole) - 1))]
    with pytest.raises(ProtocolError):
        parse_observations(part, len(observations))


@given(st.binary())
def test_nothing_but_the_programs_answer_is_read(noise: bytes) -> None:
    with pytest.raises(ProtocolError):
        parse_observations(noise, 1)


def test_the_answers_keep_their_order() -> None:
    whole = written([Observation(value=1), Observation(value=2)]).split(b"\n")
    with pytest.raises(ProtocolError):
        parse_observations(b"\n".join([whole[1], whole[0], *whole[2:]]), 2)


@pytest.mark.parametrize(
    ("found", "refused"),
    [
        (Observation(error=errno.EPERM, value=-1), True),
        (Observation(error=errno.ENOSYS, value=-1), True),
        (Observation(end="signal 31", value=-1), True),
        (Observation(error=errno.EFAULT, value=-1), False),
        (Observation(error=errno.EINVAL, value=-1), False),
        (Observation(value=0), False),
        (Observation(end="signal 11", value=-1), False),
        (Observation(end="timeout", value=-1), False),
    ],
)
def test_a_call_that_only_fails_was_not_refused(found: Observation, refused: bool) -> None:
    assert found.refused is refused
