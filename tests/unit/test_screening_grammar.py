"""The parsers: the fast path says what the slow one says, and the slow one is bounded."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from screening_corpora import NAMES, rows

from sandboxrun.screening.grammar.canary import tree_starts
from sandboxrun.screening.grammar.canary_processes import CanaryProcesses
from sandboxrun.screening.grammar.canary_worker import NAMES as ASK_NAMES
from sandboxrun.screening.grammar.canary_worker import SEEN
from sandboxrun.screening.grammar.decode import UnknownNodeError, read_file
from sandboxrun.screening.grammar.parse import parse_script
from sandboxrun.screening.grammar.plain import read_plain
from sandboxrun.screening.grammar.shfmt import ParserStoppedError, parse_json, parser_path
from sandboxrun.screening.grammar.tree import Statement, Word

_FAR = 1e9


def _slow(text: str) -> tuple[Statement, ...] | None:
    answer = parse_json(text.encode(), parser_path(), 10)
    return None if answer is None else read_file(json.loads(answer))


def _comparable(node: object) -> object:
    """Return a tree without what carries no meaning: where statements end, where nothing starts."""
    if isinstance(node, Statement):
        command, redirects = _comparable(node.command), _comparable(node.redirects)
        return ("statement", command, redirects, node.background, node.start)
    if isinstance(node, Word) and not node.parts:
        return "no word"
    if isinstance(node, tuple):
        return (type(node).__name__, *(_comparable(child) for child in node))
    return node


def test_the_fast_path_reads_what_the_slow_parser_reads() -> None:
    plain = 0
    for name in NAMES:
        for row in rows(name):
            fast = read_plain(row.command)
            if fast is not None:
                plain += 1
                slow = _slow(row.command)
                assert slow is not None, row.command
                assert _comparable(fast) == _comparable(slow), row.command
    assert plain > 1000


_pieces = st.lists(
    st.sampled_from(
        [
            "ls", "a", "-x", "'q r'", '"d e"', '"$HOME/x"', "$x", "${y}", "$1", "$@", "a=b", "A+=c",
            "x\\ y", "\\;", "{}", "{a,b}", "*.c", "[a-z]", "~", "~/x", "!", "#", "a#b", "# c", "\\#",
            "&&", "||", ";", "|", " ", "  ", "\t", ">", ">>", "<", "2>", "2>&1", "&>", ">&2", "/dev/null",
            "''", '""', "'", '"', "$", "\\", "if", "{", "}", "[[", "time", "export", "a[0]=1", "=",
            "%", "^", "&", "(", ")", "`", "$(ls)", "<<", "1", "12>", "a2>", "-", "--", ":", ",",
        ]
    ),
    max_size=12,
)  # fmt: skip


@settings(max_examples=400)
@given(_pieces, st.sampled_from(["", " "]))
def test_any_text_the_fast_path_takes_means_the_same_to_the_slow_parser(
    pieces: list[str], between: str
) -> None:
    text = between.join(pieces)
    fast = read_plain(text)
    if fast is not None and text.strip():
        slow = _slow(text)
        assert slow is not None, text
        assert _comparable(fast) == _comparable(slow), text


@pytest.mark.parametrize(
    "script",
    [
        "ls | sort | head -2\nsudo id && pwd",
        "cat <<-X\n\t$(sudo id)\n\tX",
        'echo "${x:+`sudo id`}"',
        "echo `date` `sudo id`",
    ],
)
def test_known_misreadings_of_the_second_parser_are_a_finding(script: str) -> None:
    answer = CanaryProcesses().ask(ASK_NAMES, script.encode(), seconds=1, wait_seconds=60)
    assert answer[0] == SEEN
    parsed = parse_script(script, parser_path(), _FAR)
    assert parsed.doubt == "parser.disagree"
    assert parsed.statements is not None
    assert script.encode().index(b"sudo") in tree_starts(parsed.statements)


def test_the_parsers_agree_on_nearly_all_everyday_commands() -> None:
    doubts = [
        row.command
        for name in NAMES
        for row in rows(name)
        if row.tier == "auto" and parse_script(row.command, parser_path(), _FAR).doubt is not None
    ]
    total = sum(row.tier == "auto" for name in NAMES for row in rows(name))
    assert len(doubts) < 0.01 * total, doubts


def test_text_that_is_not_bash_is_no_tree() -> None:
    assert parse_json(b"if true; then", parser_path()) is None
    assert parse_script("if true; then", parser_path(), _FAR).doubt == "unparsed"


def test_a_parser_that_takes_too_long_is_killed_and_reaped(tmp_path: Path) -> None:
    endless = tmp_path / "endless"
    pid = tmp_path / "pid"
    endless.write_text(f"#!/bin/sh\necho $$ > {pid}\nexec sleep 1000\n")
    endless.chmod(0o755)
    with pytest.raises(ParserStoppedError):
        parse_json(b"ls", endless, 0.5)
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_a_parser_that_writes_without_end_is_killed(tmp_path: Path) -> None:
    loud = tmp_path / "loud"
    loud.write_text("#!/bin/sh\nexec yes\n")
    loud.chmod(0o755)
    start = time.monotonic()
    with pytest.raises(ParserStoppedError):
        parse_json(b"ls", loud, 60)
    assert time.monotonic() - start < 60


def test_an_unknown_node_is_an_error() -> None:
    with pytest.raises(UnknownNodeError):
        read_file({"Stmts": [{"Pos": {"Offset": 0}, "End": {"Offset": 1}, "Cmd": {"Type": "New"}}]})
