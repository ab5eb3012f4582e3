"""A decision, told to somebody who has read nothing else."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, assert_never

from sandboxrun.policy.bounds import shown
from sandboxrun.policy.decision import Decision, Objection, Source, Verdict
from sandboxrun.policy.document import Action
from sandboxrun.policy.grants import CommandText
from sandboxrun.policy.reasons import narrower_call
from sandboxrun.screening.facts import Effect, Facts

_MAX_LINES: Final = 40
_MAX_SHOWN: Final = 200
"""Lines with marks are shown beyond `_MAX_LINES`, up to this."""
_MAX_LINE: Final = 4000
_MAX_PATHS: Final = 8
_TAB: Final = "    "
_SETTINGS: Final = ("env", "images", "inputs", "limits", "network", "runtimes")
"""What a policy decides by besides its rules."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in a command, in bytes, and the number people find its explanation by."""

    number: int
    start: int
    end: int


def explain(
    decision: Decision, command: CommandText, facts: Facts, *, policies: Sequence[str]
) -> str:
    """Return the decision as text: the marked command, who decided and why, what would pass."""
    marks, groups = numbered(decision.objections)
    lines = [_heading(decision), ""]
    lines += [f"  {line}" for line in marked(command.source(), marks)]
    lines.append("")
    lines += _objections(decision, groups)
    lines += _facts(decision, facts)
    lines.append(f"Judged under: {', '.join(policies)}.")
    return "\n".join(lines)


def marked(source: bytes, marks: Sequence[Mark]) -> list[str]:
    """Return the lines of a command, each followed by one that underlines its marks.

    Control characters are shown as ``·``: nothing here can drive a terminal.
    """
    lines: list[str] = []
    start = hidden = 0
    for number, raw in enumerate(source.split(b"\n")):
        end = start + len(raw)
        here = [mark for mark in marks if _touches(mark, start, end)]
        if len(lines) >= _MAX_SHOWN or (number >= _MAX_LINES and not here):
            hidden += 1
        else:
            lines += _hidden(hidden)
            hidden = 0
            lines.append(_printable(raw[:_MAX_LINE]) + _cut(raw))
            lines += _underline(raw[:_MAX_LINE], start, here)
        start = end + 1
    return lines + _hidden(hidden)


def _hidden(count: int) -> list[str]:
    return [f"… {count} more lines are not shown"] if count else []


def _cut(raw: bytes) -> str:
    left = len(raw) - _MAX_LINE
    return f" … {left} more bytes are not shown" if left > 0 else ""


def touches(facts: Facts) -> list[str]:
    """Return what a command touches, one kind a line."""
    kinds = (
        ("writes", facts.writes),
        ("reads", facts.reads),
        ("credentials", facts.credentials),
        ("network", facts.network),
        ("privileges", facts.privileges),
    )
    lines: list[str] = []
    for kind, names in kinds:
        if names:
            more = f" and {len(names) - _MAX_PATHS} more" if len(names) > _MAX_PATHS else ""
            named = ", ".join(
                _printable(name.encode(errors="replace")) for name in names[:_MAX_PATHS]
            )
            lines.append(f"{kind}: {named}{more}")
    return lines


def _heading(decision: Decision) -> str:
    match decision.verdict:
        case Verdict.AUTO if decision.grant is not None:
            return f"AUTO: it runs without a question, because of the grant {decision.grant}."
        case Verdict.AUTO:
            return "AUTO: it runs without a question."
        case Verdict.ASK if any(each.unavailable for each in decision.objections):
            return "ASK: it would need a yes that nobody can give yet, so it does not run."
        case Verdict.ASK:
            return "ASK: it runs only if a person says yes."
        case Verdict.CONSENT_REQUIRED:
            return "CONSENT REQUIRED: somebody must accept the policies of this workspace first."
        case Verdict.REFUSED:
            return "REFUSED: it does not run, and nobody is asked."
        case _:
            assert_never(decision.verdict)


def numbered(objections: Sequence[Objection]) -> tuple[list[Mark], list[tuple[int, Objection]]]:
    """Give the objections numbers; those of one rule share one."""
    marks: list[Mark] = []
    groups: list[tuple[int, Objection]] = []
    by_key = {key: list(group) for key, group in _by_key(objections)}
    for number, group in enumerate(by_key.values(), start=1):
        groups.append((number, group[0]))
        marks += [Mark(number, *span) for objection in group for span in objection.spans]
    return marks, groups


def _by_key(objections: Sequence[Objection]) -> Iterator[tuple[str, Iterator[Objection]]]:
    order = list(dict.fromkeys(objection.key for objection in objections))
    grouped = sorted(objections, key=lambda objection: order.index(objection.key))
    return groupby(grouped, key=lambda objection: objection.key)


def _objections(decision: Decision, groups: Sequence[tuple[int, Objection]]) -> list[str]:
    lines: list[str] = []
    for number, objection in groups:
        what = {Action.DENY: "forbidden", Action.ASK: "needs a yes", Action.ALLOW: "fine"}
        lines.append(f"{number}. {objection.reason}")
        lines.append(f"   {what[objection.action]} by {_who(objection)}")
        instead = narrower_call(objection)
        if instead is not None:
            lines.append(f"   instead: {instead}")
    if not lines and decision.verdict is Verdict.CONSENT_REQUIRED:
        lines.append(decision.reason)
    elif not lines and decision.grant is None:
        lines.append("Nothing in it is forbidden, and nothing needs a person.")
    if lines:
        lines.append("")
    return lines


def _who(objection: Objection) -> str:
    match objection.source:
        case Source.SCREENING:
            return f"screening, which reads every command before it runs ({objection.rule})"
        case Source.HOST | Source.WORKSPACE:
            if objection.rule.partition(".")[0] in _SETTINGS:
                return f"`{objection.rule}` of the {objection.source}"
            return f"the rule {objection.rule!r} of the {objection.source}"
        case Source.AUTHORITY:
            return "`sandboxrun workspace access`"
        case _:
            assert_never(objection.source)


def _facts(decision: Decision, facts: Facts) -> list[str]:
    if decision.effect is Effect.READ_ONLY:
        effect = "Effect: read only. Nothing in the workspace can change."
    else:
        effect = "Effect: may change the workspace. A snapshot before it is kept to go back to."
    lines = [effect, *(f"It {line.replace(': ', ' ', 1)}." for line in _sentences(facts))]
    lines += [
        f"Limit {clamped.name}: {shown(clamped.name, clamped.requested)} was asked for, "
        f"{shown(clamped.name, clamped.effective)} is the most the {clamped.by} gives."
        for clamped in decision.clamped
    ]
    return lines


def _sentences(facts: Facts) -> list[str]:
    words = {"credentials": "touches credentials", "network": "wants the network for"}
    words |= {"privileges": "wants privileges for"}
    lines = [line.partition(": ") for line in touches(facts)]
    return [f"{words.get(kind, kind)}: {names}" for kind, _, names in lines]


def _touches(mark: Mark, start: int, end: int) -> bool:
    return mark.start < max(end, start + 1) and mark.end > start


def _underline(raw: bytes, start: int, marks: Sequence[Mark]) -> list[str]:
    """Return the lines below one line; marks that overlap get lines of their own."""
    rows: list[str] = []
    for mark in sorted(marks, key=lambda mark: (mark.start, -mark.end)):
        first = _width(raw[: max(mark.start - start, 0)])
        last = max(_width(raw[: min(mark.end, start + len(raw)) - start]), first + 1)
        label = f"{'^' * (last - first)} {mark.number}"
        if rows and len(rows[-1]) < first:
            rows[-1] = rows[-1].ljust(first) + label
        else:
            rows.append(" " * first + label)
    return rows


def _printable(raw: bytes) -> str:
    text = raw.decode("utf-8", "backslashreplace").replace("\t", _TAB)
    return "".join(each if each.isprintable() else "·" for each in text)


def _width(raw: bytes) -> int:
    """Return the columns that the printable form of ``raw`` takes; a cut character counts as one."""
    wide = sum(unicodedata.east_asian_width(each) in "WF" for each in _printable(raw))
    marks = sum(unicodedata.combining(each) != 0 for each in _printable(raw))
    return len(_printable(raw)) + wide - marks
