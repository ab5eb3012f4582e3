"""Both parsers and the walk against a real bash: no command may run that screening did not see."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from run_bench import Bench
from screening_executor import executed
from screening_scripts import ScriptMaker

from sandboxrun.screening import Facts, Tier, screen

pytestmark = pytest.mark.engine
_BATCH = 500


def _seen(facts: Facts) -> frozenset[str]:
    names = [command.words[0].text for command in facts.commands]
    return frozenset(name.rpartition("/")[2] for name in names if name is not None)


def _batches(first: int, count: int) -> Iterator[list[str]]:
    for start in range(first, first + count, _BATCH):
        yield [
            ScriptMaker(seed).script() for seed in range(start, min(start + _BATCH, first + count))
        ]


def _compare(bench: Bench, first: int, count: int) -> Counter[str]:
    """Run and screen scripts. Return how they went; ``unseen`` counts what must not happen."""
    counts: Counter[str] = Counter()
    for script, stubs in executed(bench, _batches(first, count)):
        facts = screen(script)
        codes = {finding.code for finding in facts.findings}
        counts["scripts"] += 1
        counts["executed"] += len(stubs)
        counts[facts.tier.value] += 1
        if unseen := stubs - _seen(facts):
            # Text that no parser accepts is read loosely, and a finding says so.
            unread = codes & {"unparsed", "limit.depth", "limit.time"}
            counts["unread" if unread and facts.tier is not Tier.AUTO else "unseen"] += 1
            print(f"--- {sorted(codes)} {sorted(unseen)}\n{script}")  # noqa: T201
    return counts


def test_no_executed_command_is_unseen(bench: Bench) -> None:
    counts = _compare(bench, 0, 500)
    assert counts["scripts"] == 500
    assert counts["executed"] > 1000
    assert counts["unseen"] == 0


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_no_executed_command_is_unseen_in_many_scripts(bench: Bench) -> None:
    counts = _compare(bench, 1_000_000, 20_000)
    print(dict(counts))  # noqa: T201 - the figures of the long run
    assert counts["scripts"] == 20_000
    assert counts["unseen"] == 0
