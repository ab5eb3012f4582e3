"""The screen command."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from sandboxrun.errors import UsageError
from sandboxrun.interfaces.cli.screen import screen_command

app = typer.Typer()
app.command("screen")(screen_command)


def _run(*arguments: str, stdin: str = "") -> tuple[int, list[dict[str, object]]]:
    result = CliRunner().invoke(app, list(arguments), input=stdin, catch_exceptions=False)
    return result.exit_code, [json.loads(line) for line in result.stdout.splitlines()]


def test_one_command() -> None:
    status, (verdict,) = _run("rm -rf /")
    assert status == 0
    assert verdict["tier"] == "never"
    assert verdict["effect"] == "mutating"
    assert verdict["findings"][0]["code"] == "delete.system"  # type: ignore[index]
    assert set(verdict) == {"tier", "effect", "findings"}


def test_json_shows_all_facts() -> None:
    _, (facts,) = _run("--json", "cat a > b")
    assert facts["writes"] == ["b"]


def test_argv_is_one_command_without_a_shell() -> None:
    _, (verdict,) = _run("--argv", "--", "echo", "; sudo id")
    assert verdict["tier"] == "auto"


def test_lines_are_answered_in_order() -> None:
    lines = [
        {"id": 1, "command": "ls"},
        {"id": "two", "command": "sudo id"},
        {"id": None, "argv": ["ls", "a b"]},
    ]
    status, answers = _run("--jsonl", stdin="\n".join(map(json.dumps, lines)) + "\n\n")
    assert status == 0
    assert [(a["id"], a["tier"]) for a in answers] == [
        (1, "auto"),
        ("two", "never"),
        (None, "auto"),
    ]
    assert all(set(answer) == {"id", "tier", "effect", "findings"} for answer in answers)


def test_a_baseline_shows_what_became_milder(tmp_path: Path) -> None:
    baseline = tmp_path / "earlier.jsonl"
    baseline.write_text('{"id": "a", "tier": "never"}\n{"id": "b", "tier": "auto"}\n')
    stdin = '{"id": "a", "command": "ls"}\n{"id": "b", "command": "ls"}\n'
    status, (counts,) = _run("--jsonl", "--baseline", str(baseline), stdin=stdin)
    assert status == 1
    assert counts["allowed_new"] == ["a"]
    assert counts["unchanged"] == 1


@pytest.mark.parametrize(
    ("arguments", "stdin"),
    [
        ((), ""),
        (("a", "b"), ""),
        (("--baseline", "x", "ls"), ""),
        (("--jsonl",), "not json\n"),
        (("--jsonl",), "[]\n"),
        (("--jsonl",), '{"id": 1}\n'),
        (("--jsonl", "--baseline", "/nonexistent"), ""),
    ],
)
def test_a_malformed_request_is_a_usage_error(arguments: tuple[str, ...], stdin: str) -> None:
    with pytest.raises(UsageError):
        _run(*arguments, stdin=stdin)


def test_lines_may_hold_any_text(monkeypatch: pytest.MonkeyPatch) -> None:
    line = json.dumps({"id": "x", "command": "echo \ud800 \u202e é"}).encode() + b"\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(line)))
    output = io.StringIO()
    monkeypatch.setattr(sys, "stdout", output)
    screen_command(None, jsonl=True)
    assert json.loads(output.getvalue())["tier"] == "ask"
