"""The sentence a model gets: what stood in the way, and which narrower call would pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, assert_never

from sandboxrun.policy.decision import Objection, Source, Verdict
from sandboxrun.policy.document import Action
from sandboxrun.policy.grants import CommandText
from sandboxrun.screening.facts import Facts

ASKED: Final = "A person must say yes first. "
_SHOWN_BYTES: Final = 80
_SHOWN_PARTS: Final = 3
_INSTEAD: Final = {
    "code": "Save the text to a file, look at it, and run the file by its name.",
    "cluster": "Sandboxes reach no cluster; write the files it needs and leave applying them to a person.",
    "database": "Sandboxes reach no server; use a file database in the workspace.",
    "delete": "Delete only named files, or directories that a build makes again, in the workspace.",
    "device": "Use files in the workspace; devices are out of reach.",
    "engine": "Containers cannot be started from a sandbox; run the program itself.",
    "env": "Run it without setting that variable.",
    "escape": "Work inside the sandbox as it is; nothing outside it is needed to run commands.",
    "file": "Write the content that is wanted, instead of emptying files.",
    "fork": "Start a fixed number of processes.",
    "git": "Use git commands that keep what is there: status, diff, log, add, commit, stash.",
    "kill": "Name the process to end by its id.",
    "limit": "Split it into smaller commands.",
    "network": "Sandboxes have no network; use what the image and the workspace already hold.",
    "option": "Leave the option out that makes the program run another one.",
    "outside": "Write below /workspace or /tmp.",
    "parser": "Write it more simply, or put it into a script file.",
    "permission": "Change the mode of named files in the workspace.",
    "privilege": "Run it without: commands run as an unprivileged user, and the workspace is theirs.",
    "rule": "Write it more simply, or put it into a script file.",
    "secret": "Leave credentials alone; sandboxes need none.",
    "service": "Start the program itself in the foreground; a sandbox has no services.",
    "shell": "Run the commands directly; a sandbox has no network.",
    "system": "Change files of the workspace instead of the machine's.",
    "text": "Write it with plain characters.",
    "unparsed": "Mend the syntax of the command.",
    "unresolved": "Spell out the program and its operands instead of computing them.",
}
"""By the family of a finding's code: the narrower call."""


def reason_of(
    verdict: Verdict,
    against: Sequence[Objection],
    command: CommandText,
    facts: Facts,
) -> str:
    """Return the sentences for a decision."""
    match verdict:
        case Verdict.AUTO:
            return "It may run."
        case Verdict.ASK if any(objection.unavailable for objection in against):
            return f"Nobody can say yes yet. {told(against, command)}"
        case Verdict.ASK:
            return f"{ASKED}{told(against, command)}"
        case Verdict.CONSENT_REQUIRED:
            return (
                "Nobody has accepted the policies now in force for this workspace, or they "
                "changed since. `sandboxrun consent show WORKSPACE` lists them and `consent give "
                "WORKSPACE` accepts them."
            )
        case Verdict.REFUSED:
            return f"Refused. {told(against, command)} {advice_on(against, command, facts)}".strip()
        case _:
            assert_never(verdict)


def narrower_call(objection: Objection) -> str | None:
    """Return what would pass in place of what one objection is about, if that can be said."""
    if objection.source is Source.SCREENING:
        return _INSTEAD.get(objection.rule.partition(".")[0])
    match objection.rule.partition(".")[0]:
        case "env":
            return "Leave those variables out."
        case "images" | "runtimes" | "inputs":
            return "Leave that option out to get the default."
        case "network":
            return _INSTEAD["network"]
        case "limits":
            return "Ask for no more than the maximum."
        case _:
            return None


def excerpt(data: bytes) -> str:
    """Return a short, printable piece of a command on one line."""
    text = data[: 4 * _SHOWN_BYTES].decode("utf-8", "backslashreplace")
    shown = "".join(each if each.isprintable() else "·" for each in text)
    return shown if len(shown) <= _SHOWN_BYTES else shown[: _SHOWN_BYTES - 1] + "…"


def told(against: Sequence[Objection], command: CommandText) -> str:
    """Return what stands in the way, the first few of it, with the places in the command."""
    source = command.source()
    parts: list[str] = []
    for objection in _firsts(against):
        places = [source[start:end] for start, end in objection.spans]
        where = " and ".join(f"`{excerpt(place)}`" for place in places[:_SHOWN_PARTS] if place)
        parts.append(f"{where}: {objection.reason}" if where else objection.reason)
    left = len({each.reason for each in against}) - len(parts)
    more = f" {left} more objections." if left > 0 else ""
    return " ".join(parts) + more


def advice_on(against: Sequence[Objection], command: CommandText, facts: Facts) -> str:
    """Return which narrower call would pass in place of what is objected to; may be empty."""
    denials = [each for each in against if each.action is Action.DENY] or against
    advice = list(dict.fromkeys(filter(None, (narrower_call(each) for each in denials))))
    rest = _unobjected(against, command, facts)
    if rest:
        parts = "; ".join(f"`{excerpt(part)}`" for part in rest[:_SHOWN_PARTS])
        advice.append(f"Nothing speaks against {parts} without the rest.")
    return " ".join(advice[:_SHOWN_PARTS])


def _unobjected(against: Sequence[Objection], command: CommandText, facts: Facts) -> list[bytes]:
    if any(not objection.spans for objection in against):
        return []
    spans = [span for objection in against for span in objection.spans]
    source = command.source()
    return [
        source[each.start : each.end]
        for each in facts.commands
        if not any(start < each.end and each.start < end for start, end in spans)
    ]


def _firsts(against: Sequence[Objection]) -> list[Objection]:
    by_reason = {objection.reason: objection for objection in reversed(against)}
    return [each for each in against if by_reason[each.reason] is each][:_SHOWN_PARTS]
