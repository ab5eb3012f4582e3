"""Nothing outlives its run: whatever hid, refused or attacked is gone with the container."""

from __future__ import annotations

import textwrap
import time
from pathlib import Path
from typing import Any

import pytest
from run_bench import Bench

from sandboxrun import Limits, Outcome, Status

pytestmark = [pytest.mark.engine, pytest.mark.docker]
GONE_SECONDS = 1.0

HIDERS = {
    "background": "sleep 1234 & setsid sleep 1234 & nohup sleep 1234 >/dev/null 2>&1 &",
    "double fork": "(setsid sh -c '(sleep 1234 &) &' &)",
    "ignores": "sh -c 'trap \"\" TERM INT HUP QUIT; while :; do sleep 1234; done' &",
    "stopped": "sh -c 'kill -STOP $$; sleep 1234' &",
    "holds stdout": "(exec sleep 1234) &",
    "closes everything": "(exec >&- 2>&- <&-; exec sleep 1234) &",
    "zombies": (
        "python3 -c 'import os,time\nfor _ in range(50):\n if os.fork() == 0: os._exit(0)\n"
        "time.sleep(1234)' &"
    ),
    "forks on": "sh -c 'while :; do sleep 0.01 & done' 2>/dev/null &",
    "vfork storm": (
        "python3 -c 'import subprocess\nwhile True: subprocess.run([\"true\"])' 2>/dev/null &"
    ),
    "pids saturated": "python3 -c 'import os,time\ntry:\n while os.fork(): pass\nexcept OSError: pass\ntime.sleep(1234)' &",
}
ATTACKS = {
    "signals": "for s in $(seq 1 64); do kill -$s 1 2>/dev/null; done; kill -9 -1; true",
    "prlimit": """
        import ctypes, os, resource, struct
        libc = ctypes.CDLL(None)
        for tid in {1, 2, 3, 4, 5} - {os.getpid()}:
            for limit in range(16):
                libc.syscall(302, tid, limit, struct.pack("QQ", 0, 0), None)
        """,
    "scheduling": """
        import os
        for tid in {1, 2, 3, 4, 5} - {os.getpid()}:
            for call in (
                lambda: os.sched_setscheduler(tid, os.SCHED_IDLE, os.sched_param(0)),
                lambda: os.sched_setaffinity(tid, {0}),
                lambda: os.setpriority(os.PRIO_PROCESS, tid, 19),
                lambda: os.setpriority(os.PRIO_PGRP, tid, 19),
                lambda: os.setpriority(os.PRIO_USER, os.getuid(), 19),
            ):
                try: call()
                except OSError: pass
        """,
    "its memory": """
        for name in ("mem", "environ", "maps", "fd/0", "fd/1", "root/etc/passwd", "exe"):
            try: open(f"/proc/1/{name}", "rb").read(1); print("READ", name)
            except OSError: pass
        """,
    "its pipes": """
        import os, fcntl
        os.set_blocking(1, False); os.set_blocking(2, False)
        for _ in range(200):
            for fd in (1, 2):
                try: os.write(fd, b"x" * 65536)
                except OSError: pass
        """,
}


def _processes(container_marker: str) -> list[str]:
    """Name processes of the host whose command line holds the marker."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                line = (
                    (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
                )
            except OSError:
                continue
            if container_marker in line:
                found.append(line)
    return found


def _bash(bench: Bench, script: str, **fields: Any) -> Outcome:
    """Run a script that screening does not see: some of these it would rightly refuse."""
    return bench.run(argv=("bash", "-s"), stdin=script.encode(), **fields)


@pytest.mark.parametrize("name", HIDERS)
def test_a_job_left_behind_does_not_delay_the_result_and_is_gone_with_it(
    bench: Bench, name: str
) -> None:
    began = time.monotonic()
    outcome = _bash(bench, HIDERS[name] + "\necho done", timeout_seconds=60, limits=Limits(pids=64))
    assert time.monotonic() - began < 30  # far from the 60 s it would take to wait for it
    assert outcome.status is Status.SUCCEEDED, outcome
    assert "done" in outcome.preview.text
    assert _processes("sleep 1234") == []


@pytest.mark.parametrize("name", HIDERS)
def test_whatever_hides_is_gone_a_second_after_the_timeout(bench: Bench, name: str) -> None:
    outcome = _bash(
        bench, HIDERS[name] + "\nwait; sleep 1234", timeout_seconds=0.7, limits=Limits(pids=64)
    )
    ended = time.monotonic()
    assert outcome.status is Status.TIMED_OUT, outcome
    while _processes("sleep 1234"):
        assert time.monotonic() - ended < GONE_SECONDS
    assert bench.leftovers() == []


@pytest.mark.parametrize("name", ATTACKS)
def test_the_init_survives_its_children_or_its_death_is_told(bench: Bench, name: str) -> None:
    script = textwrap.dedent(ATTACKS[name])
    if name == "signals":
        # Its last signal ends the shell itself: PID 1 lives on and records that.
        assert _bash(bench, script).status in {Status.SUCCEEDED, Status.SIGNALED}
        return
    outcome = bench.run(argv=("python3", "-c", script + "\nprint('attacked')"))
    assert outcome.status is Status.SUCCEEDED, outcome
    assert outcome.preview.text.endswith("attacked\n")
    assert "READ" not in outcome.preview.text


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attacker_is_killed_from_outside_all_the_same(bench: Bench, name: str) -> None:
    script = textwrap.dedent(ATTACKS[name])
    command = script + "\nsleep 1234" if name == "signals" else ""
    argv = ("python3", "-c", script + "\nimport time; time.sleep(1234)")
    if name == "signals":
        outcome = _bash(
            bench, "trap '' TERM; " + command.replace("kill -9 -1; ", ""), timeout_seconds=0.7
        )
    else:
        outcome = bench.run(argv=argv, timeout_seconds=0.7)
    assert outcome.status is Status.TIMED_OUT, outcome
    assert bench.leftovers() == []


def volumes(bench: Bench) -> set[str]:
    """Name all volumes of this installation but for those that wait for the next commands."""
    bench.portal.call(bench.runner.idle)
    ours = ("volume", "ls", "-q", "--filter", f"label=sandboxrun.installation={bench.installation}")
    return set(bench.docker(*ours).stdout.decode().split()) - bench.runner.kept_ready


def test_two_hundred_runs_leave_nothing(bench: Bench) -> None:
    before = volumes(bench)
    statuses = [bench.run(f"exit {number % 3}").status for number in range(200)]
    assert statuses.count(Status.SUCCEEDED) == 67
    assert bench.leftovers() == []
    assert volumes(bench) == before
