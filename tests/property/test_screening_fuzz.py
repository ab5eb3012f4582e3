"""Both parsers and the walk against a real bash: no command may run that screening did not see."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from screening_executor import Executor, any_executor
from screening_scripts import ScriptMaker

from sandboxrun.screening import Facts, Tier, screen

_BATCH = 500
_SHORT = 300
_LONG = 20_000


def _seen(facts: Facts) -> frozenset[str]:
    names = [command.words[0].text for command in facts.commands]
    return frozenset(name.rpartition("/")[2] for name in names if name is not None)


def _batches(first: int, count: int) -> Iterator[list[str]]:
    for start in range(first, first + count, _BATCH):
        yield [
            ScriptMaker(seed).script() for seed in range(start, min(start + _BATCH, first + count))
        ]


def _compare(executor: Executor, first: int, count: int) -> Counter[str]:
    """Run and screen scripts. Return how they went; ``unseen`` counts what must not happen."""
    counts: Counter[str] = Counter()
    for scripts in _batches(first, count):
        for script, executed in zip(scripts, executor(scripts), strict=True):
            facts = screen(script)
            codes = {finding.code for finding in facts.findings}
            counts["scripts"] += 1
            counts["executed"] += len(executed)
            counts[facts.tier.value] += 1
            if unseen := executed - _seen(facts):
                # Text that no parser accepts is read loosely, and a finding says so.
                unread = codes & {"unparsed", "limit.depth", "limit.time"}
                counts["unread" if unread and facts.tier is not Tier.AUTO else "unseen"] += 1
                print(f"--- {sorted(codes)} {sorted(unseen)}\n{script}")  # noqa: T201
    return counts


@pytest.mark.engine
@pytest.mark.timeout(600)
def test_no_executed_command_is_unseen() -> None:
    counts = _compare(any_executor(), 0, _SHORT)
    assert counts["scripts"] == _SHORT
    assert counts["executed"] > _SHORT
    assert counts["unseen"] == 0


@pytest.mark.engine
@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_no_executed_command_is_unseen_in_many_scripts() -> None:
    counts = _compare(any_executor(), 1_000_000, _LONG)
    print(dict(counts))  # noqa: T201 - the figures of the long run
    assert counts["scripts"] == _LONG
    assert counts["unseen"] == 0
