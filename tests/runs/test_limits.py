"""Limits by behaviour: each is hit by trying, from inside, and seen to hold."""

from __future__ import annotations

import json
import textwrap

import pytest
from run_bench import Bench

from sandboxrun import Limits, Status

pytestmark = [pytest.mark.engine, pytest.mark.docker]
MIB = 1024 * 1024


def _python(bench: Bench, script: str, **limits: object) -> dict[str, object]:
    outcome = bench.run(
        # On stdin, where screening does not see it: it would rightly refuse some of these.
        argv=("python3", "-"),
        stdin=textwrap.dedent(script).encode(),
        limits=Limits.model_validate(limits),
    )
    assert outcome.status is Status.SUCCEEDED, outcome
    found: dict[str, object] = json.loads(outcome.preview.text)
    return found


def test_two_spinners_share_half_a_cpu(bench: Bench) -> None:
    found = _python(
        bench,
        """
        import json, os, time
        for _ in range(2):
            if os.fork() == 0:
                end = time.monotonic() + 4
                while time.monotonic() < end: pass
                os._exit(0)
        began = time.monotonic()
        for _ in range(2): os.wait()
        used = sum(os.times()[2:4])
        print(json.dumps({"share": used / (time.monotonic() - began)}))
        """,
        cpus=0.5,
    )
    assert found["share"] <= 0.6  # type: ignore[operator]


def test_memory_has_no_swap_behind_it(bench: Bench) -> None:
    outcome = bench.run(
        "exec python3 -c 'x = bytearray(96 << 20)'", limits=Limits(memory_bytes=64 * MIB)
    )
    assert outcome.status is Status.OUT_OF_MEMORY
    fits = bench.run(
        "exec python3 -c 'x = bytearray(32 << 20)'", limits=Limits(memory_bytes=64 * MIB)
    )
    assert fits.status is Status.SUCCEEDED


def test_a_child_past_the_memory_limit_is_told_and_the_command_goes_on(bench: Bench) -> None:
    outcome = bench.run(
        "python3 -c 'x = bytearray(1 << 30)'; echo went on", limits=Limits(memory_bytes=64 * MIB)
    )
    assert outcome.status is Status.SUCCEEDED
    assert outcome.usage.oom_kills == 1
    assert outcome.preview.text.endswith("went on\n")
    assert "memory limit" in outcome.reason


def test_processes_and_threads_are_bounded(bench: Bench) -> None:
    found = _python(
        bench,
        """
        import json, os, time, threading
        made = 0
        try:
            for _ in range(200):
                if os.fork() == 0: time.sleep(30); os._exit(0)
                made += 1
        except OSError as error:
            print(json.dumps({"made": made, "errno": error.errno}))
        """,
        pids=32,
    )
    assert found["errno"] == 11
    assert 20 <= found["made"] <= 31  # type: ignore[operator]


def test_a_file_cannot_outgrow_its_limit(bench: Bench) -> None:
    outcome = bench.run(
        "trap '' XFSZ; head -c 3M /dev/zero > big; stat -c %s big", limits=Limits(disk_bytes=MIB)
    )
    assert str(MIB) in outcome.preview.text
    assert "File too large" in outcome.preview.text


def test_descriptors_are_bounded(bench: Bench) -> None:
    found = _python(
        bench,
        """
        import json, os
        opened = []
        try:
            while True: opened.append(os.open("/dev/null", 0))
        except OSError as error:
            print(json.dumps({"opened": len(opened), "errno": error.errno}))
        """,
        open_files=512,
    )
    assert found == {"opened": 509, "errno": 24}


@pytest.mark.parametrize("directory", ["/tmp", "/dev/shm"])
def test_a_tmpfs_is_bounded_in_bytes_and_files(bench: Bench, directory: str) -> None:
    limits = Limits(tmp_bytes=4 * MIB, shm_bytes=4 * MIB, tmp_inodes=1024)
    bytes_outcome = bench.run(
        f"head -c 64M /dev/zero > {directory}/x; stat -c %s {directory}/x", limits=limits
    )
    assert "No space left on device" in bytes_outcome.preview.text
    assert str(4 * MIB) in bytes_outcome.preview.text
    files = bench.run(
        f"cd {directory} && i=0; while : > f$i; do i=$((i+1)); [ $i -lt 5000 ] || break; done; echo $i",
        limits=limits,
    )
    assert int(files.preview.text.split()[-1]) <= 1024


def test_nothing_else_can_be_written(bench: Bench) -> None:
    outcome = bench.run(
        "for d in / /etc /usr /var /var/tmp /run /root /home /proc /sys /dev;"
        " do touch $d/x 2>/dev/null && echo wrote $d; done; true"
    )
    assert outcome.preview.text == ""


def test_limits_and_shares_are_not_raised_from_inside(bench: Bench) -> None:
    outcome = bench.run("ulimit -n 100000 || ulimit -f unlimited || ulimit -c 100 || echo refused")
    assert "refused" in outcome.preview.text
