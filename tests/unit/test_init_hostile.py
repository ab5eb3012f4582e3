"""What a hostile child of the same user can do to the init: nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from init_process import ROOT, built_init, exact_order, needs_namespaces, run_in_init

from sandboxrun.init.records import ExitKind
from sandboxrun.model.ordering import Ordering

pytestmark = needs_namespaces
ATTACKS = (ROOT / "tests" / "unit" / "init_attacks.py").read_text()


@pytest.fixture(scope="module")
def binary() -> Iterator[Path]:
    with built_init() as path:
        yield path


def _attack(
    binary: Path, which: str, ordering: Ordering = Ordering.ARRIVAL
) -> list[tuple[str, str]]:
    result = run_in_init(binary, ["python3", "-c", ATTACKS, which], ordering=ordering)
    assert result.code == 0, result.output.decode()
    lines = result.stream("stdout").decode().splitlines()
    assert lines[-1] == "end\treached"
    return [(name, answer) for name, answer in (line.split("\t") for line in lines[:-1])]


def test_priorities_and_limits_of_the_init_are_out_of_reach(binary: Path) -> None:
    answers = _attack(binary, "priorities")
    assert len(answers) == 3 * 3 * 7 + 2 * 2 + 2 * 3 * 2
    assert {answer for _, answer in answers} == {"EPERM"}


def test_programs_may_still_set_their_own(binary: Path) -> None:
    answers = _attack(binary, "own")
    assert {answer for _, answer in answers} == {"ok"}
    result = run_in_init(binary, "taskset -p 1 $$ && nice -n 5 true && ionice -c3 true")
    assert result.code == 0


def test_intrusions_are_refused(binary: Path) -> None:
    answers = _attack(binary, "intrusions")
    assert len(answers) > 50
    refused = {"EPERM", "EACCES", "ENOENT", "ESRCH", "EINVAL", "EBADF"}
    assert [pair for pair in answers if pair[1] not in refused] == []


@pytest.mark.parametrize("which", ["signals", "pipes", "pending"])
@pytest.mark.parametrize("ordering", [Ordering.ARRIVAL, Ordering.EXACT])
def test_the_init_survives(binary: Path, which: str, ordering: Ordering) -> None:
    _attack(binary, which, ordering)


def test_processes_cannot_trace_each_other(binary: Path) -> None:
    code = (
        "import ctypes, errno, os, time\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "child = os.fork() or time.sleep(1000)\n"
        "for request, target in ((16, child), (0x4206, child), (0, 0), (0x4206, 1)):\n"
        "    assert libc.ptrace(request, target, None, None) == -1\n"
        "    assert ctypes.get_errno() == errno.EPERM, (request, ctypes.get_errno())\n"
        "part = (ctypes.c_ulong * 2)(0, 8)\n"
        "for call in (libc.process_vm_readv, libc.process_vm_writev):\n"
        "    assert call(child, part, 1, part, 1, 0) == -1\n"
        "    assert ctypes.get_errno() == errno.EPERM\n"
    )
    for ordering in Ordering.ARRIVAL, Ordering.EXACT:
        result = run_in_init(binary, ["python3", "-c", code], ordering=ordering)
        assert result.code == 0, result.output


def test_foreign_system_call_tables_are_closed(binary: Path) -> None:
    code = (
        "import ctypes, errno, os\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "if os.uname().machine == 'x86_64':\n"
        "    assert libc.syscall(0x40000000 + 141, 0, 1, 19) == -1\n"
        "    assert ctypes.get_errno() == errno.ENOSYS, ctypes.get_errno()\n"
    )
    assert run_in_init(binary, ["python3", "-c", code]).code == 0


SURVIVORS = {
    "plain": "sleep 1000 & setsid sleep 1000 & nohup sleep 1000 & ",
    "double forks": "(setsid sh -c 'sleep 1000 & sleep 1000 &' &); ",
    "ignorers": "(trap '' TERM INT HUP; while :; do sleep 1; done) & ",
    "stopped": "sleep 1000 & kill -STOP $!; ",
    "forking": "f() { while :; do (exit) & wait; done; }; f & f & ",
    "zombies": "python3 -c 'import os,time\nfor i in range(50):\n os.fork() or os._exit(0)\n"
    "time.sleep(1000)' & sleep 0.2; ",
    "output": "yes & yes >&2 & ",
    "daemons": "python3 -c 'import os,time\nif os.fork(): os._exit(0)\nos.setsid()\n"
    "if os.fork(): os._exit(0)\ntime.sleep(1000)'; ",
    "vforks": "python3 -c 'import subprocess\nwhile True: subprocess.run([\"true\"])' & ",
    "subreaper": "python3 -c 'import ctypes,os,time\nctypes.CDLL(None).prctl(36,1)\n"
    "os.fork() or os.fork() or time.sleep(1000)\ntime.sleep(1000)' & sleep 0.2; ",
}


@pytest.mark.parametrize("survivor", SURVIVORS)
@pytest.mark.parametrize("ordering", [Ordering.ARRIVAL, Ordering.EXACT])
def test_nothing_survives_the_command(binary: Path, survivor: str, ordering: Ordering) -> None:
    result = run_in_init(binary, SURVIVORS[survivor] + "exit 3", ordering=ordering)
    assert result.code == 3
    assert result.record.leftover >= 1
    assert result.record.elapsed_us < 20_000_000


@pytest.mark.parametrize("survivor", SURVIVORS)
def test_nothing_survives_the_deadline(binary: Path, survivor: str) -> None:
    command = SURVIVORS[survivor] + "sleep 1000"
    record = run_in_init(binary, command, deadline_ms=700).record
    assert record.kind is ExitKind.DEADLINE
    assert record.elapsed_us < 20_000_000


@exact_order
def test_a_killed_writer_is_not_waited_for(binary: Path) -> None:
    command = (
        "for i in 1 2 3 4 5 6 7 8; do (while :; do echo $i >&2; done) & done; sleep 0.1;"
        "for i in $(seq 30); do (while :; do echo x >&2; done) & sleep 0.01; kill -9 $!; done;"
        "echo end"
    )
    result = run_in_init(binary, command, ordering=Ordering.EXACT)
    assert result.code == 0
    assert result.stream("stdout") == b"end\n"
