"""The documentation says only what the command line takes, and all of it."""

from __future__ import annotations

import re
import runpy
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from command_line import installed

from sandboxrun.interfaces.cli.main import command_line

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`(sandboxrun [^`<\n]*)`")
PROMPT = re.compile(r"^(?:[$#] )?(?:[A-Z_]+=\S+ )*(?=sandboxrun )")
END_OF_COMMAND = {"|", ";", "&&", "||", ">", "2>", "<", "|&"}
VERBS = {
    *(
        "Build",
        "Check",
        "Create",
        "List",
        "Read",
        "Remove",
        "Run",
        "Say",
        "Show",
        "Start",
        "Verify",
    ),
    *("Accept", "End", "Find", "Give", "Leave", "Let", "Make", "Print", "Stop", "Take", "Write"),
}


def leaves(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield words, command
    for name, below in getattr(command, "commands", {}).items():
        yield from leaves(below, (*words, name))


COMMANDS = dict(leaves(command_line()))


def lines_of(page: Path) -> Iterator[str]:
    """Yield the command lines of a page: those of its blocks, joined where they are continued."""
    text = page.read_text()
    for _, block in FENCE.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            if PROMPT.match(line):
                yield PROMPT.sub("", line)
    yield from INLINE.findall(FENCE.sub("", text))


def words_of(line: str) -> list[str]:
    """Return the words of the first command of a line; what is optional counts as given."""
    line = re.sub(r"\s{2,}#.*$|…", "", line).replace("[", "").replace("]", "")
    # Numbers are written as one capital letter; a ";" stands on its own only for a shell.
    words = shlex.split(re.sub(r"(?<= )[NS](?= |$)", "1", line.replace("; ", " ; ")))
    cut = next((place for place, word in enumerate(words) if word in END_OF_COMMAND), len(words))
    return words[1:cut]


def taken(words: list[str]) -> None:
    """Parse ``words`` as the command line would. Raises what it raises."""
    path: tuple[str, ...] = ()
    while words and (*path, words[0]) in COMMANDS:
        path = (*path, words.pop(0))
    command = COMMANDS[path]
    if hasattr(command, "commands"):
        assert words in ([], ["--version"]) or set(words[0].split("|")) <= set(command.commands), (
            words
        )
        return
    if words:
        command.make_context(path[-1], words)


LINES = sorted({(page.name, line) for page in PAGES for line in lines_of(page)})


@pytest.mark.parametrize(("page", "line"), LINES, ids=[f"{page}: {line}" for page, line in LINES])
def test_the_command_line_takes_it(page: str, line: str) -> None:
    try:
        taken(words_of(line))
    except typer.TyperException as error:
        pytest.fail(f"{page}: {line}: {error.format_message()}")


def test_command_lines_are_found_and_wrong_ones_are_not_taken() -> None:
    assert len(LINES) > 40
    for wrong in ("sandboxrun exec --nope x", "sandboxrun runs show --no x", "sandboxrun nope"):
        with pytest.raises((typer.TyperException, AssertionError)):
            taken(words_of(wrong))


def test_the_reference_of_commands_is_current() -> None:
    made = runpy.run_path(str(ROOT / "scripts" / "cli_reference.py"))["reference"]()
    assert (ROOT / "docs" / "cli.md").read_text() == made, "make docs"


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", FENCE.sub("", page.read_text())):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words) or "sandboxrun")
def test_help_has_one_voice(words: tuple[str, ...]) -> None:
    command = COMMANDS[words]
    first = (command.help or "").splitlines()[0]
    assert first.endswith(".")
    assert first.split()[0].rstrip(",") in VERBS, first
    for parameter in command.params:
        if parameter.opts[0] in ("--install-completion", "--show-completion", "--help"):
            continue
        text = parameter.help
        assert text, parameter.name
        assert text.endswith("."), text
        assert text[0].isupper(), text


@pytest.mark.engine
@pytest.mark.docker
@pytest.mark.skipif(shutil.which("jq") is None, reason="the transcript needs jq")
def test_the_first_screen_of_the_readme_is_what_one_sees(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    block = next(body for kind, body in FENCE.findall(PAGES[0].read_text()) if kind == "console")
    with installed(tmp_path_factory) as sandboxrun:
        for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
            done = subprocess.run(
                ["bash", "-c", command],
                env=sandboxrun.environment,
                capture_output=True,
                check=False,
                text=True,
            )
            assert without_numbers(done.stdout) == without_numbers(shown), done


def without_numbers(text: str) -> str:
    """Leave out what differs from run to run: the uid of a workspace."""
    return re.sub(r"\d{7}", "N", text)
