"""The second parser's processes: what happens to one is a finding, and never the caller's end."""

from __future__ import annotations

import os
import random
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from screening_corpora import NAMES, rows

from sandboxrun.screening import Tier, screen
from sandboxrun.screening.grammar import canary
from sandboxrun.screening.grammar.canary import canary_commands, canary_doubt
from sandboxrun.screening.grammar.canary_processes import (
    CanaryCrashedError,
    CanaryLateError,
    CanaryProcesses,
)
from sandboxrun.screening.grammar.canary_worker import NAMES as ASK_NAMES
from sandboxrun.screening.grammar.canary_worker import SEEN

_FAR = 1e9
_STUB = """
    import os, signal, struct, sys
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    with open({record!r}, "a") as record:
        print(os.getpid(), file=record)

    def say(word, *offsets):
        answers.write(struct.pack(f">BI{{len(offsets)}}I", word, len(offsets), *offsets))
        answers.flush()

    say(0)
    while head := requests.read(9):
        script = requests.read(struct.unpack(">BfI", head)[2])
        if script == b"crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        if script == b"hang":
            signal.pause()
        if script == b"stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        if script == b"lie":
            say(1, 1 << 31)
        if script == b"flood":
            answers.write(struct.pack(">BI", 1, 1 << 31))
            while True:
                answers.write(bytes(1 << 16))
        if script == b"then die":
            say(1, 7)
            sys.exit()
        say(1, len(script))
"""


@pytest.fixture
def record(tmp_path: Path) -> Path:
    return tmp_path / "started"


@pytest.fixture
def stub(tmp_path: Path, record: Path) -> Iterator[CanaryProcesses]:
    """Yield processes of a program that does what the script says."""
    program = tmp_path / "stub.py"
    program.write_text(textwrap.dedent(_STUB.format(record=str(record))))
    processes = CanaryProcesses(program)
    yield processes
    for process in processes._idle:
        process.end()


def _ask(processes: CanaryProcesses, script: bytes, wait: float = 60) -> tuple[int, ...]:
    word, offsets = processes.ask(ASK_NAMES, script, seconds=1, wait_seconds=wait)
    assert word == SEEN
    return offsets


def _started(record: Path) -> list[int]:
    return [int(line) for line in record.read_text().split()]


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_process_is_kept_and_used_again(stub: CanaryProcesses, record: Path) -> None:
    assert [_ask(stub, b"a" * n) for n in (1, 2, 3)] == [(1,), (2,), (3,)]
    assert len(_started(record)) == 1


@pytest.mark.parametrize("script", [b"crash", b"lie", b"flood"])
def test_a_process_that_goes_wrong_is_replaced(
    stub: CanaryProcesses, record: Path, script: bytes
) -> None:
    assert _ask(stub, b"before") == (6,)
    with pytest.raises(CanaryCrashedError):
        _ask(stub, script)
    # Twice: the first may have been gone before, and only a new one tells.
    assert len(_started(record)) == 2
    assert not any(map(_alive, _started(record)))
    assert _ask(stub, b"after") == (5,)


@pytest.mark.parametrize("script", [b"hang", b"stop"])
def test_a_process_that_does_not_answer_is_killed(
    stub: CanaryProcesses, record: Path, script: bytes
) -> None:
    with pytest.raises(CanaryLateError):
        _ask(stub, script, wait=0.2)
    assert not any(map(_alive, _started(record)))
    assert _ask(stub, b"after") == (5,)


def test_a_process_that_ended_in_between_is_not_a_crash(
    stub: CanaryProcesses, record: Path
) -> None:
    assert _ask(stub, b"then die") == (7,)
    os.waitid(os.P_PID, _started(record)[0], os.WEXITED | os.WNOWAIT)
    assert _ask(stub, b"next") == (4,)
    assert len(_started(record)) == 2


def test_a_program_that_is_not_there_is_a_crash(tmp_path: Path) -> None:
    with pytest.raises(CanaryCrashedError):
        _ask(CanaryProcesses(tmp_path / "absent.py"), b"ls")


def test_any_number_may_ask_at_once(stub: CanaryProcesses, record: Path) -> None:
    answers: list[tuple[int, ...]] = []
    together = threading.Barrier(8)

    def ask(number: int) -> None:
        together.wait()
        answers.extend(_ask(stub, b"a" * number) for _ in range(20))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == sorted((n,) for n in range(1, 9) for _ in range(20))
    assert sum(map(_alive, _started(record))) <= 4


def test_a_fork_does_not_share_its_parents_process(stub: CanaryProcesses, record: Path) -> None:
    assert _ask(stub, b"parent") == (6,)
    child = os.fork()
    if child == 0:
        os._exit(0 if _ask(stub, b"child") == (5,) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert _ask(stub, b"parent again") == (12,)
    assert len(_started(record)) == 2


def test_a_crash_and_a_late_answer_are_findings(
    stub: CanaryProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(canary, "_processes", lambda: stub)
    assert canary_doubt(b"ls", frozenset({2}), _FAR) is None
    assert canary_doubt(b"ls", frozenset({0}), _FAR) == "parser.disagree"
    assert canary_doubt(b"crash", frozenset(), _FAR) == "parser.crashed"
    assert canary_doubt(b"ls", frozenset({2}), 0) == "limit.time"
    assert canary_doubt(b"a|" * 500, frozenset(), _FAR) == "limit.size"
    assert canary_commands(b"crash", _FAR) == []
    facts = screen("crash")
    assert facts.tier is Tier.ASK
    assert [finding.code for finding in facts.findings] == ["parser.crashed"]


def test_the_caller_never_loads_the_second_parser() -> None:
    """It would crash whoever has it in the process."""
    assert "tree_sitter_bash" not in sys.modules


_TOKENS = (
    "if ", "then ", "fi", "case ", "esac", "in ", "for ", "do ", "done", "while ", "function ",
    "[[", "]]", "((", "))", "{", "}", "(", ")", "`", "$(", "$((", "${", "$", "\\", "\n", "\t", " ",
    "'", '"', "$'", "<<", "<<-", "<<<", "EOF", "'EOF'", "<(", ">(", "|", "&&", "||", "&", ";", ";;",
    ">", "<", ">>", ">&", "2", "!", "#", "%", "/", "^", ",", "@", "*", "?", "[", "]", "=", "+=",
    "=~", "-", "a", "x", "echo ", "export ", "$x", "${x:-", "${!x}", "a[", "x=(", "~", "{a,b}",
    "{1..3}", "\r", "é", "日", "\U0001f600", "\U0010fffd", "+(", "@(", "\x1b", "\x01", "\x7f",
)  # fmt: skip


def test_no_text_was_found_that_crashes_it() -> None:
    """Random text of tokens, of mutated commands and of single characters."""
    assert _crashes(seed=1, scripts=3000, processes=3) == []


@pytest.mark.slow
def test_text_as_it_is_crashes_it() -> None:
    """Why bytes beyond ASCII are hidden from it. It looks them up in a table for bytes."""
    assert _crashes(seed=1, scripts=3000, processes=30, plain=None) != []


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_no_text_was_found_that_crashes_it_in_many_scripts() -> None:
    assert _crashes(seed=2, scripts=200_000, processes=100) == []


def _crashes(
    seed: int, scripts: int, processes: int, plain: bytes | None = canary._PLAIN
) -> list[bytes]:
    source = random.Random(seed)
    commands = [row.command for name in NAMES for row in rows(name)]
    crashed = []
    for _ in range(processes):
        # A new process lies elsewhere in memory, and what crashes one may spare another.
        fresh = CanaryProcesses()
        for _ in range(scripts // processes):
            script = _any_script(source, commands).encode("utf-8", "surrogatepass")[:1024]
            try:
                fresh.ask(ASK_NAMES, script.translate(plain), seconds=1, wait_seconds=60)
            except CanaryCrashedError:
                crashed.append(script)
        for process in fresh._idle:
            process.end()
    return crashed


def _any_script(source: random.Random, commands: list[str]) -> str:
    length = source.choice((5, 20, 60, 200))
    match source.randrange(4):
        case 0:
            return "".join(source.choice(_TOKENS) for _ in range(length))
        case 1:
            return "".join(chr(source.randrange(1, 0x80)) for _ in range(length))
        case 2:
            rare = (source.randrange(0x80, 0xD800), source.randrange(0xE000, 0x110000), ord("{"))
            return "".join(chr(source.choice(rare)) for _ in range(length))
        case _:
            text = list(source.choice(commands) + "\n" + source.choice(commands))
            for _ in range(source.randrange(1, 8)):
                text.insert(source.randrange(len(text) + 1), source.choice(_TOKENS))
                del text[source.randrange(len(text))]
            return "".join(text)
