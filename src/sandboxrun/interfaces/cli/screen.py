"""``sandboxrun screen``: what a command would do, without running it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from sandboxrun.errors import UsageError
from sandboxrun.interfaces.cli.options import JsonOption
from sandboxrun.screening import Facts, Tier, screen, screen_argv
from sandboxrun.screening.baseline import compare

_ALLOWED_NEW_STATUS = 1


def screen_command(
    command: Annotated[
        list[str] | None,
        typer.Argument(help="A shell command; with --argv a program and its arguments."),
    ] = None,
    jsonl: Annotated[
        bool, typer.Option("--jsonl", help='Read {"id", "command"} lines from stdin.')
    ] = False,
    argv: Annotated[
        bool, typer.Option("--argv", help="The arguments are a program's own, without a shell.")
    ] = False,
    baseline: Annotated[
        Path | None, typer.Option(help="With --jsonl: count what changed against these results.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Say what a command would do: its tier, its effect and why. Nothing is run."""
    if jsonl:
        _screen_lines(baseline)
        return
    if not command or (len(command) > 1 and not argv):
        raise UsageError(
            "Give one command, or --argv and a program with its arguments, or --jsonl."
        )
    if baseline is not None:
        raise UsageError("--baseline compares results of --jsonl.")
    words = [os.fsencode(word) for word in command]
    facts = screen_argv(words) if argv else screen(words[0])
    _print(facts.model_dump(mode="json") if as_json else _verdict(facts))


def _verdict(facts: Facts) -> dict[str, Any]:
    return facts.model_dump(mode="json", include={"tier", "effect", "findings"})


def _print(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")


def _screen_lines(baseline: Path | None) -> None:
    earlier = None if baseline is None else _tiers(baseline)
    now: dict[str, Tier] = {}
    for identifier, facts in _screened(sys.stdin.buffer):
        now[_key(identifier)] = facts.tier
        if earlier is None:
            _print({"id": identifier, **_verdict(facts)})
            sys.stdout.flush()
    if earlier is not None:
        comparison = compare(earlier, now)
        _print(comparison.model_dump(mode="json"))
        if comparison.allowed_new:
            raise typer.Exit(_ALLOWED_NEW_STATUS)


def _screened(lines: Any) -> Iterator[tuple[object, Facts]]:  # noqa: ANN401 - any iterable of bytes
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        row = _row(line, f"line {number}")
        command, argv = row.get("command"), row.get("argv")
        if isinstance(command, str):
            yield row.get("id"), screen(command)
        elif isinstance(argv, list) and all(isinstance(argument, str) for argument in argv):
            yield row.get("id"), screen_argv(argv)
        else:
            raise UsageError(f'line {number} has neither a "command" nor an "argv".')


def _row(line: bytes, where: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError as invalid:
        raise UsageError(f"{where} is not JSON: {invalid}.") from invalid
    if not isinstance(row, dict):
        raise UsageError(f"{where} is not a JSON object.")
    return row


def _key(identifier: object) -> str:
    return identifier if isinstance(identifier, str) else json.dumps(identifier)


def _tiers(path: Path) -> dict[str, Tier]:
    try:
        lines = path.read_bytes().splitlines()
    except OSError as failed:
        raise UsageError(f"{path}: {failed.strerror}.") from failed
    tiers = {}
    for number, line in enumerate(lines, 1):
        if line.strip():
            row = _row(line, f"{path}, line {number}")
            try:
                tiers[_key(row.get("id"))] = Tier(str(row.get("tier")))
            except ValueError as unknown:
                raise UsageError(f"{path}, line {number} has no known tier.") from unknown
    return tiers
