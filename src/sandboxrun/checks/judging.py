"""How observations become a verdict. Pure; the common cases."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable
from typing import Final

from sandboxrun.checks.attempt import Attempt, Observation
from sandboxrun.checks.probe import Judge, Seen, Verdict, held, not_applicable, opened

_SHOWN: Final = 6
_ABSENT: Final = frozenset({errno.ENOENT, errno.ENOTDIR})


def listed(items: Iterable[object]) -> str:
    """Return the first of ``items``, and how many there are more."""
    texts = [str(item) for item in items]
    more = f" and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
    return ", ".join(texts[:_SHOWN]) + more


def refused(attempts: tuple[Attempt, ...], seen: Seen) -> Verdict:
    """Every attempt was forbidden. One that only failed for its arguments reached the kernel."""
    wrong = [f"{each}: {seen(each)}" for each in attempts if not seen(each).refused]
    if wrong:
        return opened(listed(wrong))
    return held(listed(sorted({str(seen(each)) for each in attempts})))


def failed(attempts: tuple[Attempt, ...], seen: Seen) -> Verdict:
    """No attempt worked, for whatever reason."""
    worked = [f"{each}: {seen(each)}" for each in attempts if seen(each).succeeded]
    if worked:
        return opened(listed(worked))
    return held(listed(sorted({str(seen(each)) for each in attempts})))


def unopened(attempts: tuple[Attempt, ...], seen: Seen) -> Verdict:
    """No file could be opened; where none exists, there was nothing to keep shut."""
    if all(seen(each).error in _ABSENT for each in attempts):
        return not_applicable("there are none of these files")
    return failed(attempts, seen)


def hidden(attempts: tuple[Attempt, ...], seen: Seen) -> Verdict:
    """Files and directories are empty or cannot be read; where none exists, nothing was hidden."""
    if all(seen(each).error in _ABSENT for each in attempts):
        return not_applicable("there are none of these files")
    shown = [
        f"{each.arguments[0]}: {seen(each).value} {'entries' if each.verb == 'list' else 'bytes'}"
        for each in attempts
        if seen(each).succeeded and seen(each).value > 0
    ]
    return opened(listed(shown)) if shown else held("empty or refused")


def nothing_found(what: str) -> Judge:
    """Return a judge for attempts that count: any count above zero is open."""

    def judge(attempts: tuple[Attempt, ...], seen: Seen) -> Verdict:
        found = [line for each in attempts for line in seen(each).text.splitlines()]
        count = sum(max(seen(each).value, 0) for each in attempts)
        if count or found:
            return opened(listed(found) if found else f"{count} found")
        return held(f"no {what}")

    return judge


def judged_by(judge: Callable[[Observation, Seen], Verdict]) -> Judge:
    """Return a judge for a single attempt that has to have worked to say anything."""

    def judge_one(attempts: tuple[Attempt, ...], seen: Seen) -> Verdict:
        found = seen(attempts[0])
        if not found.succeeded:
            return opened(f"{attempts[0]}: {found}")
        return judge(found, seen)

    return judge_one


def opens(mode: str, *paths: str) -> tuple[Attempt, ...]:
    """Return attempts to open files: ``r``, ``w`` or ``b`` for both."""
    return tuple(Attempt("open", (path, mode)) for path in paths)


def reads(*paths: str) -> tuple[Attempt, ...]:
    """Return attempts to read files."""
    return tuple(Attempt("read", (path,)) for path in paths)


def lists(*paths: str) -> tuple[Attempt, ...]:
    """Return attempts to list directories."""
    return tuple(Attempt("list", (path,)) for path in paths)


def calls(*names: str) -> tuple[Attempt, ...]:
    """Return attempts to make system calls."""
    return tuple(Attempt("call", (name,)) for name in names)
