"""Results as JUnit XML, for CI systems. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import quoteattr

from sandboxrun.checks.probe import State
from sandboxrun.checks.result import Result


def junit(results: Sequence[Result]) -> str:
    """Return one test case for each result; what counts as a failure is what breaks a promise."""
    failures = sum(result.broken for result in results)
    skipped = sum(_skipped(result) for result in results)
    cases = "".join(map(_case, results))
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<testsuite name="sandboxrun verify" tests="{len(results)}" failures="{failures}" '
        f'errors="0" skipped="{skipped}">\n{cases}</testsuite>\n'
    )


def _skipped(result: Result) -> bool:
    return not result.broken and result.state is not State.HELD


def _case(result: Result) -> str:
    head = f"  <testcase classname={_quoted(result.group.value)} name={_quoted(result.id)}"
    message = _quoted(f"{result.severity.value}: {result.told}")
    if result.broken:
        return f"{head}><failure message={message}/></testcase>\n"
    if _skipped(result):
        return f"{head}><skipped message={message}/></testcase>\n"
    return f"{head}/>\n"


def _quoted(text: str) -> str:
    """Without the characters no XML document may have."""
    return quoteattr("".join(c if c in "\t\n" or c.isprintable() else "?" for c in text))
