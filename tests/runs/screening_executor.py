"""What a script really runs: a real bash with recording stubs, inside the project's own sandbox."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future

from run_bench import Bench

from sandboxrun import Outcome
from sandboxrun.model.status import Status

# Read scripts from stdin and run each in a bash of its own, with nothing but stubs and the base
# tools on PATH. The answer is one line a script: the stubs it ran. They are read at the very end,
# so that what a script left running has had its time; each has a directory and a record of its own.
_DRIVER = rb"""
set -u
mkdir /tmp/s /tmp/r /tmp/w
for n in $(seq 0 29); do
  printf '#!/bin/sh\necho "${0##*/}" >> "$R"\nexit %d\n' $((n % 2)) > /tmp/s/k$n
done
chmod +x /tmp/s/*
export PATH=/tmp/s:/usr/bin:/bin HOME=/tmp/w
number=0
while IFS= read -r -d '' script; do
  number=$((number + 1))
  mkdir /tmp/w/$number
  : > /tmp/r/$number
  (cd /tmp/w/$number
   R=/tmp/r/$number exec timeout -s KILL 10 bash --noprofile --norc -c "$script"
  ) </dev/null >/dev/null 2>&1
done
sleep 1
for record in $(seq $number); do
  mapfile -t names < /tmp/r/$record
  printf '%s\n' "${names[*]}"
done
"""


def executed(
    bench: Bench, batches: Iterable[Sequence[str]]
) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield every script with the stubs it ran. One batch is ahead of what is yielded."""
    waiting: deque[tuple[Sequence[str], Future[Outcome]]] = deque()
    for scripts in batches:
        waiting.append((scripts, _started(bench, scripts)))
        if len(waiting) > 1:
            yield from _answers(*waiting.popleft())
    for scripts, running in waiting:
        yield from _answers(scripts, running)


def _started(bench: Bench, scripts: Sequence[str]) -> Future[Outcome]:
    stdin = b"".join(script.encode() + b"\0" for script in scripts)
    run = functools.partial(bench.runner.run, _DRIVER, stdin=stdin, timeout_seconds=900)
    return bench.portal.start_task_soon(run)


def _answers(
    scripts: Sequence[str], running: Future[Outcome]
) -> Iterator[tuple[str, frozenset[str]]]:
    outcome = running.result()
    assert outcome.status is Status.SUCCEEDED, outcome.reason
    assert not outcome.preview.truncated
    lines = outcome.preview.text.split("\n")[:-1]
    assert len(lines) == len(scripts)
    for script, line in zip(scripts, lines, strict=True):
        yield script, frozenset(line.split())
