"""Redaction against a naive reference that sees everything at once, for any way of cutting."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sandboxrun.output.redact import Kept, Passage, Redaction, StreamRedactor
from sandboxrun.output.secret_forms import Secret, forms
from sandboxrun.output.token_tails import ClassTail, KeyTail
from sandboxrun.output.tokens import FORMATS, LOOSE_FORMATS, Format

SECRETS = [
    Secret("FIRST", b"hunter2/hunter2"),
    Secret("SECOND", b"r2/hunter2 and more"),
    Secret("THIRD", 'p\u00e4ss"word\n\\x'.encode()),
    Secret("SHORT", b"abab"),
    Secret("LONG", b"k" * 80 + b"/end"),
]
REDACTION = Redaction.of(SECRETS[:2]).including(SECRETS[2:])
TOKENS = [
    b"ghp_" + b"a1B2" * 9,
    b"AKIAIOSFODNN7EXAMPLE",
    b"sk-ant-api03-abcdefghijklmnopqrst-_x",
    b"task-" + b"q" * 33,
    b"\\nsk-" + b"q" * 33,
    b"xoxb-123456789012-abcdef",
    b"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.sig_na-ture",
    b"eyJub25zZW5zZSI6MX0.eyJzdWIiOiIxIn0.sig_na-ture",
    b"Bearer abcdefghijklmnopqrstuv==",
    b'"Authorization": "Basic dXNlcjpwYXNz"',
    b"https://user:pa%20ss@host/path",
    b"://:pw@h",
    b"-----BEGIN RSA PRIVATE KEY-----\nMIIE+/=\nabc\n-----END RSA PRIVATE KEY-----",
    b"-----BEGIN PRIVATE KEY-----\\nMII\\n",
    b"aws_secret_access_key = " + b"wJalrXUt/+" * 4,
    b"AccountKey=" + b"A/" * 43 + b"==",
]
FORMS = sorted(itertools.chain.from_iterable(forms(secret.value) for secret in SECRETS))
COLOURS = [b"\x1b[m", b"\x1b[01;31m\x1b[K", b"\x1b", b"\x1b[", b"\x1b[m" * 4, b"\x1b[m" * 7]
FILLERS = [b" ", b"\n", b"a", b"-", b"@", b":", b"=", b"x" * 61, b"A" * 60 + b"\n", b"\xff", b"."]


def broken(whole: bytes, at: int, inside: bytes) -> bytes:
    return whole[: at % len(whole)] + inside + whole[at % len(whole) :]


WHOLE = st.sampled_from(TOKENS + FORMS)
TEXTS = st.lists(
    st.one_of(
        WHOLE,
        st.sampled_from(COLOURS + FILLERS),
        st.builds(broken, WHOLE, st.integers(0, 200), st.sampled_from([*COLOURS, *FILLERS, b""])),
        st.builds(lambda whole, size: whole[: size % len(whole)], WHOLE, st.integers(0, 200)),
        st.builds(lambda whole, size: whole[size % len(whole) :], WHOLE, st.integers(0, 200)),
    ),
    max_size=8,
).map(b"".join)
CUTS = st.one_of(st.just(None), st.lists(st.integers(0, 500), max_size=12))


class Span(NamedTuple):
    start: int
    order: bool
    backwards: int
    label: str
    end: int


def spanning(start: int, found: int, label: str, end: int, *, known: bool = False) -> Span:
    return Span(start, not known, -found, label, end)


def places_without_colours(data: bytes) -> list[int]:
    kept = []
    place = run = 0
    while place < len(data):
        found = re.compile(rb"\x1b\[[ -?]{0,24}[@-~]").match(data, place)
        run = run + 1 if found else 0
        size = len(found[0]) if found else 1
        if not found or run > 6:
            kept += range(place, place + size)
            run = 0
        place += size
    return kept


def pattern(form: Format) -> bytes:
    return b"".join([piece.char + b"{%d}" % piece.count for piece in form.body])


def tail_end(tail: object, text: bytes, end: int) -> int:
    if isinstance(tail, ClassTail):
        while end < len(text) and re.fullmatch(tail.char, text[end : end + 1]):
            end += 1
    elif isinstance(tail, KeyTail):
        while end < len(text) and re.fullmatch(
            rb"[A-Za-z0-9+/=\s\\:,.()@<>-]", text[end : end + 1]
        ):
            end += 1
            if re.search(rb"-----END [A-Z0-9 ]{0,60}-----\Z", text[:end]):
                break
    return end


def token_spans(text: bytes) -> list[Span]:
    spans = []
    for form in FORMATS:
        for found in re.finditer(
            b"(?=(" + form.left + b"(" + pattern(form) + b")))", text, re.DOTALL
        ):
            end = tail_end(form.tail, text, found.end(2))
            spans.append(spanning(found.start(2), found.end(2), form.label, end))
    for loose in LOOSE_FORMATS:
        for found in re.finditer(b"(?=(" + loose.trigger + b"))", text, re.DOTALL):
            start, stop = found.start(1) + loose.skip, found.end(1) - loose.keep
            spans.append(spanning(start, stop, loose.label, tail_end(loose.tail, text, stop)))
    return spans


def known_spans(text: bytes) -> list[Span]:
    wraps = {m.end(1) - 1 for m in re.finditer(rb"(?=([A-Za-z0-9+/=_-]{60}\n))", text)}
    places = [place for place in range(len(text)) if place not in wraps]
    joined = bytes(text[place] for place in places)
    spans = []
    for secret in SECRETS:
        for form in forms(secret.value):
            for found in re.finditer(b"(?=" + re.escape(form) + b")", joined):
                start, last = places[found.start()], places[found.start() + len(form) - 1]
                spans.append(spanning(start, last + 1, secret.label, last + 1, known=True))
    return spans


def redacted_naively(data: bytes) -> tuple[bytes, int]:
    places = places_without_colours(data)
    text = bytes(data[place] for place in places)
    replaced: dict[int, bytes] = {}
    gone: set[int] = set()
    end = -1
    for span in sorted(token_spans(text) + known_spans(text)):
        if span.start >= end:
            replaced[places[span.start]] = b"[redacted: %b]" % span.label.encode()
        end = max(end, span.end)
        gone.update(places[span.start : span.end])
    shown = [
        replaced.get(place, b"") + (b"" if place in gone else data[place : place + 1])
        for place in range(len(data))
    ]
    return b"".join(shown), len(replaced)


def text_of(passages: list[Passage]) -> bytes:
    return b"".join([one.data if isinstance(one, Kept) else one.text for one in passages])


def length_of(passages: list[Passage]) -> int:
    return sum(len(one.data) if isinstance(one, Kept) else one.length for one in passages)


def in_pieces(data: bytes, cuts: list[int] | None) -> list[bytes]:
    chosen = range(len(data)) if cuts is None else cuts
    places = sorted({min(place, len(data)) for place in chosen} | {0, len(data)})
    return [data[a:b] for a, b in itertools.pairwise(places)]


@given(TEXTS, CUTS)
@settings(max_examples=400, deadline=None)
@example(b"\x1b[m" * 7 + b"ghp_" + b"a" * 36, None)
@example(b"-----BEGIN PRIVATE KEY-----\n-----END A-----END B-----x", None)
def test_every_way_of_cutting_gives_what_the_reference_gives(
    data: bytes, cuts: list[int] | None
) -> None:
    stream = StreamRedactor(REDACTION)
    passages: list[Passage] = []
    for piece in in_pieces(data, cuts):
        passages += stream.feed(piece)
    passages += stream.feed(b"", final=True)
    assert length_of(passages) == len(data)
    assert (text_of(passages), stream.count) == redacted_naively(data)


@given(TEXTS, CUTS)
@settings(max_examples=100, deadline=None)
def test_what_is_held_back_is_bounded(data: bytes, cuts: list[int] | None) -> None:
    stream = StreamRedactor(REDACTION)
    for piece in in_pieces(data, cuts):
        stream.feed(piece)
        assert stream.held_bytes <= 7 * 28 * 450


@pytest.mark.parametrize("token", TOKENS)
def test_a_token_is_gone_wherever_it_stands(token: bytes) -> None:
    shown = REDACTION.bytes(b'{"a":"' + token + b'"}')
    if token.startswith(b"task-"):
        assert token in shown
    else:
        assert b"[redacted: " in shown
        assert token[-8:] not in shown or token.startswith((b"http", b"://", b'"', b"-----BEGIN P"))


def test_what_was_compiled_before_finds_the_same(tmp_path: Path) -> None:
    text = b" ".join(TOKENS)
    expected = REDACTION.bytes(text)
    for _ in range(2):
        assert Redaction.of(SECRETS, cache=tmp_path).bytes(text) == expected
    kept = sorted(tmp_path.iterdir())
    assert len(kept) == 4
    for path in kept:
        path.write_bytes(b"damaged" + path.read_bytes()[7:])
    assert Redaction.of(SECRETS, cache=tmp_path).bytes(text) == expected
