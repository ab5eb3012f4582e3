"""What a shell and its user ask first: version, help, completion."""

from __future__ import annotations

import subprocess
from importlib.metadata import version

import pytest
from command_line import CommandLine, command_line_at

COMPLETED = """
source <(sandboxrun --show-completion)
COMP_WORDS=(sandboxrun {words}) COMP_CWORD={place}
COMPREPLY=()
_sandboxrun_completion sandboxrun
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture
def sandboxrun(tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    return command_line_at(tmp_path_factory.mktemp("s") / "s", tmp_path_factory.mktemp("home"))


def test_the_version_is_the_packages(sandboxrun: CommandLine) -> None:
    done = sandboxrun("--version")
    assert (done.returncode, done.stdout) == (0, f"sandboxrun {version('sandboxrun')}\n".encode())


@pytest.mark.parametrize("words", [("--help",), ("-h",), ("exec", "-h"), ("runs", "--help")])
def test_help_is_no_fault(sandboxrun: CommandLine, words: tuple[str, ...]) -> None:
    done = sandboxrun(*words)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"Usage: sandboxrun" in done.stdout


@pytest.mark.parametrize("words", [(), ("runs",), ("workspace",)])
def test_nothing_but_a_group_shows_its_help(
    sandboxrun: CommandLine, words: tuple[str, ...]
) -> None:
    done = sandboxrun(*words)
    assert done.returncode == 2
    assert b"Usage: sandboxrun" in done.stdout
    assert done.stderr == b""


@pytest.mark.parametrize(
    ("words", "place", "expected"),
    [("work", 1, "workspace"), ("runs ca", 2, "cancel"), ("exec --read", 2, "--read-only")],
)
def test_bash_completes(sandboxrun: CommandLine, words: str, place: int, expected: str) -> None:
    done = subprocess.run(
        ["bash", "-c", COMPLETED.format(words=words, place=place)],
        env=sandboxrun.environment,
        capture_output=True,
        check=False,
        text=True,
    )
    assert done.stdout.split() == [expected], done


def test_python_dash_m_is_the_same(sandboxrun: CommandLine) -> None:
    done = subprocess.run(
        ["python", "-m", "sandboxrun", "--version"],
        env=sandboxrun.environment,
        capture_output=True,
        check=True,
    )
    assert done.stdout == sandboxrun("--version").stdout
