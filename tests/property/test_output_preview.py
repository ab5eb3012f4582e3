"""The preview and the terminal filters against naive references that see everything at once."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandboxrun.model.preview import PreviewShape
from sandboxrun.output.ansi import AnsiStripper
from sandboxrun.output.escape import TerminalEscaper, escape
from sandboxrun.output.lines import Budget
from sandboxrun.output.preview import PreviewBuilder

PIECES = st.sampled_from(
    [
        b"a",
        b"bc",
        b"\n",
        b"\r",
        b"\r\n",
        b"\x1b",
        b"[",
        b"1;31m",
        b"\x1b[0m",
        b"\x1b]0;",
        b"\x07",
        b"\x1b\\",
        "é".encode(),
        "漢".encode(),
        "😀".encode(),
        b"\xff",
        b"\x9b",
        b"xyz" * 4,
        b"]8;;",
    ]
)
TEXTS = st.lists(PIECES, max_size=40).map(b"".join)
CUTS = st.lists(st.integers(0, 60), max_size=12)
BUDGETS = st.builds(Budget, lines=st.integers(1, 6), bytes=st.integers(4, 24))


def cut(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({min(place, len(data)) for place in cuts} | {0, len(data)})
    return [data[a:b] for a, b in itertools.pairwise(places)]


def strip_naively(data: bytes) -> bytes:
    string = rb"\x1b[\]PX^_][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)"
    rest = rb"\x1b\[[ -?]{0,64}[@-~]|\x1b[ -/]{1,8}[0-~]|\x1b[0-OQ-WYZ\\`-~]|\x1b"
    return re.sub(string + b"|" + rest, b"", data)


def fold_naively(data: bytes) -> bytes:
    lines = []
    for line in data.split(b"\n"):
        versions = [version for version in line.split(b"\r") if version]
        lines.append(versions[-1] if versions else b"")
    return b"\n".join(lines)


def tail_naively(text: bytes, budget: Budget) -> bytes:
    lines = text.splitlines(keepends=True) if text else []
    lines = re.findall(rb"[^\n]*\n|[^\n]+\Z", text)
    shown: list[bytes] = []
    while lines and len(shown) < budget.lines:
        if sum(map(len, shown)) + len(lines[-1]) > budget.bytes:
            break
        shown.insert(0, lines.pop())
    if not shown and lines:
        tail = lines[-1][-budget.bytes :]
        while tail and len(tail) > budget.bytes - 3 and tail[0] & 0xC0 == 0x80:
            tail = tail[1:]
        return tail if tail and tail[0] & 0xC0 != 0x80 else lines[-1][-budget.bytes :]
    return b"".join(shown)


def build(pieces: list[bytes], shape: PreviewShape, budget: Budget) -> PreviewBuilder:
    builder = PreviewBuilder(shape, budget)
    for piece in pieces:
        builder.feed(piece)
    return builder


@given(TEXTS, CUTS)
def test_stripping_does_not_depend_on_the_cuts(data: bytes, cuts: list[int]) -> None:
    stripper = AnsiStripper()
    got = b"".join([stripper.feed(piece) for piece in cut(data, cuts)]) + stripper.finish()
    assert got == strip_naively(data)


@given(TEXTS, CUTS)
def test_escaping_does_not_depend_on_the_cuts(data: bytes, cuts: list[int]) -> None:
    escaper = TerminalEscaper()
    got = "".join([escaper.feed(piece) for piece in cut(data, cuts)]) + escaper.finish()
    assert got == escape(data.decode("utf-8", "backslashreplace"))
    assert not re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|\r(?!\n)", got)


@given(TEXTS, CUTS, BUDGETS)
def test_the_tail_equals_the_reference(data: bytes, cuts: list[int], budget: Budget) -> None:
    preview = build(cut(data, cuts), PreviewShape.TAIL, budget).finish()
    plain = fold_naively(strip_naively(data))
    expected = tail_naively(plain, budget)
    assert preview.text == expected.decode("utf-8", "backslashreplace")
    assert preview.truncated == (expected != plain) == (preview.notice is not None)
    assert preview.total_bytes == len(data)
    assert preview.total_lines == len(re.findall(rb"[^\n]*\n|[^\n]+\Z", data))
    assert preview.shown_bytes == len(expected) <= budget.bytes
    assert preview.shown_lines == len(re.findall(rb"[^\n]*\n|[^\n]+\Z", expected)) <= budget.lines


@given(TEXTS, CUTS, BUDGETS)
def test_head_and_tail_are_the_two_ends(data: bytes, cuts: list[int], budget: Budget) -> None:
    shape = PreviewShape.HEAD_AND_TAIL
    preview = build(cut(data, cuts), shape, budget).finish()
    assert preview == build([data], shape, budget).finish()
    plain = fold_naively(strip_naively(data))
    if not preview.truncated:
        assert preview.text == plain.decode("utf-8", "backslashreplace")
        return
    assert preview.shown_bytes <= budget.bytes
    assert preview.shown_lines <= budget.lines
    before, marked, after = preview.text.partition("[… ")
    if marked:
        assert plain.decode("utf-8", "backslashreplace").startswith(before)
        shown = after.partition("…]\n")[2]
        assert plain.decode("utf-8", "backslashreplace").endswith(shown)


@pytest.mark.parametrize("size", [1, 4095, 65536])
def test_memory_is_flat_for_a_line_that_never_ends(size: int) -> None:
    builder = PreviewBuilder()
    for _ in range(4 * 1024 * 1024 // size):
        builder.feed(b"x" * size)
        held = len(builder._folder._current) + len(builder._tail._text)
        assert held <= 4 * 51_300
    preview = builder.finish()
    assert preview.text == "x" * 51_200
    assert preview.total_lines == preview.shown_lines == 1
