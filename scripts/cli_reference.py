#!/usr/bin/env python3
"""Print docs/cli.md: every command with its arguments and options, from the help they have."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from typing import Any

from sandboxrun.interfaces.cli.main import NAME, command_line

HEAD = """\
# Commands

Written by `make docs` from the help of the commands; `--help` shows the same.
"""
TYPERS_OWN = ("--install-completion", "--show-completion")


def sections(command: Any, words: tuple[str, ...]) -> Iterator[str]:
    """Yield the section of a command and those of the commands below it."""
    below = getattr(command, "commands", {})
    if len(words) > 1 or not below:
        yield "\n".join(section(command, words, below=bool(below)))
    for name in sorted(below):
        yield from sections(below[name], (*words, name))


def section(command: Any, words: tuple[str, ...], *, below: bool) -> Iterator[str]:
    """Yield the lines about one command."""
    level = "##" if below or len(words) == len(("sandboxrun", "exec")) else "###"
    yield f"{level} `{' '.join(words)}`\n"
    yield inspect.cleandoc(command.help or "")
    rows = [row(each) for each in command.params if each.opts[0] not in TYPERS_OWN]
    if below or not rows:
        return
    yield "\n| | |\n|---|---|"
    for name, text in rows:
        yield f"| {name} | {text} |"


def row(parameter: Any) -> tuple[str, str]:
    """Return how a parameter is written, and what it means."""
    text = (parameter.help or "").replace("|", "\\|")
    if parameter.param_type_name == "argument":
        name = str(parameter.metavar or parameter.name).upper().replace("|", "\\|")
        return f"`{name}`", text if parameter.required else f"{text} Optional."
    written = [f"`{each}`" for each in sorted(parameter.opts, key=len)]
    names = ", ".join(written) + ("" if parameter.is_flag else f" {value_of(parameter)}")
    default = parameter.default
    if default in (None, False, []) or parameter.is_flag:
        return names, text
    return names, f"{text} Default: {getattr(default, 'value', default)}."


def value_of(parameter: Any) -> str:
    """Return what stands for the value of an option."""
    longest = max(parameter.opts, key=len).lstrip("-")
    return str(parameter.metavar or longest.upper()).replace("|", "\\|")


def reference() -> str:
    """Return the whole page."""
    return "\n".join([HEAD, *(f"{each}\n" for each in sections(command_line(), (NAME,)))])


if __name__ == "__main__":
    sys.stdout.write(reference())
