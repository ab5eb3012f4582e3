"""Does a rule match a command? Three answers: what is known only at run time may be anything."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from fnmatch import fnmatchcase

from sandboxrun.policy.document import Action, Rule, When
from sandboxrun.policy.requested import Form
from sandboxrun.screening.facts import Facts, ScreenedCommand, Tier

UNKNOWN_PART = "…"
"""What screening shows for the part of a path that is known only at run time."""


class Match(IntEnum):
    """Ordered: several conditions match as well as the weakest of them."""

    NO = 0
    MAYBE = 1
    YES = 2


@dataclass(frozen=True, slots=True)
class Matched:
    """How a rule matched, and the bytes of the command it matched on."""

    match: Match
    spans: tuple[tuple[int, int], ...] = ()


def match_rule(rule: Rule, facts: Facts, form: Form) -> Matched:
    """Return whether ``rule`` matches a command with these facts.

    A rule that denies or asks matches when one of the simple commands does, and may match where
    words are unknown. A rule that allows matches only when every simple command surely does.
    """
    whole = _whole(rule.when, facts, form)
    if whole is Match.NO:
        return Matched(Match.NO)
    cautious = rule.action is not Action.ALLOW
    commands = _commands(rule.when, facts, cautious=cautious)
    findings = _findings(rule.when, facts)
    match = min(whole, commands.match, findings.match)
    if match is Match.NO or (match is Match.MAYBE and not cautious):
        return Matched(Match.NO)
    return Matched(match, (*commands.spans, *findings.spans))


def _whole(when: When, facts: Facts, form: Form) -> Match:
    if when.form is not None and when.form != form:
        return Match.NO
    if when.effect is not None and when.effect is not facts.effect:
        return Match.NO
    if when.tier is not None and when.tier is not facts.tier:
        return Match.NO
    least = Match.MAYBE if _runs_anything(facts) else Match.NO
    wants_network = when.network is None or when.network == bool(facts.network)
    return min(
        Match.YES if wants_network else least,
        max(least, _paths(when.writes, facts.writes)),
        max(least, _paths(when.reads, facts.reads)),
    )


def _runs_anything(facts: Facts) -> bool:
    """Tell whether a program is known only at run time: it may write, read and reach anything."""
    if not facts.commands:
        return facts.tier is not Tier.AUTO
    return any(not each.words or each.words[0].text is None for each in facts.commands)


def _paths(patterns: Sequence[str] | None, paths: Iterable[str]) -> Match:
    if patterns is None:
        return Match.YES
    best = Match.NO
    for path in paths:
        if any(fnmatchcase(path, pattern) for pattern in patterns):
            return Match.YES
        if UNKNOWN_PART in path:
            best = Match.MAYBE
    return best


def _findings(when: When, facts: Facts) -> Matched:
    if when.findings is None:
        return Matched(Match.YES)
    spans = tuple(
        (finding.start, finding.end)
        for finding in facts.findings
        if any(fnmatchcase(finding.code, pattern) for pattern in when.findings)
    )
    return Matched(Match.YES if spans else Match.NO, spans)


def _commands(when: When, facts: Facts, *, cautious: bool) -> Matched:
    if when.program is None and when.words is None:
        return Matched(Match.YES)
    if not facts.commands:
        # Nothing could be read: surely not what an allow means, perhaps what a deny does.
        return Matched(Match.MAYBE if cautious and _runs_anything(facts) else Match.NO)
    each = [_command(when, command, cautious=cautious) for command in facts.commands]
    if not cautious:
        return Matched(min(each))
    best = max(each)
    spans = tuple(
        (command.start, command.end)
        for command, match in zip(facts.commands, each, strict=True)
        if match is best and match is not Match.NO
    )
    return Matched(best, spans)


def _command(when: When, command: ScreenedCommand, *, cautious: bool) -> Match:
    head, *rest = [word.text for word in command.words] or [None]
    program = _program(when.program, head, cautious=cautious)
    return min(program, _words(when.words, rest))


def _program(patterns: Sequence[str] | None, head: str | None, *, cautious: bool) -> Match:
    if patterns is None:
        return Match.YES
    if head is None:
        return Match.MAYBE
    names = {head}
    if cautious:
        # `/usr/bin/git` is git when git is forbidden; `./git` is not git when git is allowed.
        names.add(head.rpartition("/")[2])
    found = any(fnmatchcase(name, pattern) for name in names for pattern in patterns)
    return Match.YES if found else Match.NO


def _words(patterns: Sequence[str] | None, words: Sequence[str | None]) -> Match:
    if patterns is None:
        return Match.YES
    weakest = Match.YES
    for pattern in patterns:
        if any(word is not None and fnmatchcase(word, pattern) for word in words):
            continue
        if None not in words:
            return Match.NO
        weakest = Match.MAYBE
    return weakest
