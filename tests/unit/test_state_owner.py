"""Who owns a run, and whether that process can still act."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from sandboxrun.state.owner import Owner

_CHILD = "import sys; from sandboxrun.state.owner import Owner; print(Owner.current(), flush=True); sys.stdin.read()"


def test_it_survives_being_text() -> None:
    owner = Owner.current()
    assert Owner.parse(str(owner)) == owner
    assert owner.pid == os.getpid()


@pytest.mark.parametrize("text", ["", "1", "1.2.3.4", "1.2.x.4", "-1.2." + "a" * 36 + ".4"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not an owner"):
        Owner.parse(text)


def test_the_caller_is_alive() -> None:
    assert Owner.current().is_alive()


def test_a_process_is_alive_until_killed_and_dead_as_a_zombie() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        owner = Owner.parse(child.stdout.readline().strip())
        assert owner.pid == child.pid
        assert owner.is_alive()
        child.kill()
        # Wait for the end without reaping: the pid is still taken, by a zombie.
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert not owner.is_alive()
    assert not owner.is_alive()


def test_a_reused_pid_is_not_the_owner() -> None:
    now = Owner.current()
    assert not replace(now, start_ticks=now.start_ticks + 1).is_alive()


def test_nothing_of_another_boot_is_alive() -> None:
    other = "0" * 8 + "-0000-0000-0000-" + "0" * 12
    now = Owner.current()
    assert not replace(now, boot_id=other).is_alive()
    assert not replace(now, boot_id=other, pid_namespace=1).is_alive()


def test_what_cannot_be_looked_up_counts_as_alive() -> None:
    assert replace(Owner.current(), pid_namespace=1, pid=4_000_000).is_alive()


def test_a_name_full_of_parentheses_does_not_hide_the_start_time() -> None:
    script = "open('/proc/self/comm', 'w').write(') S 1 (x) 2');" + _CHILD
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        owner = Owner.parse(child.stdout.readline().strip())
        assert owner.is_alive()
        assert owner.start_ticks >= Owner.current().start_ticks
