"""A policy's own examples, held against it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from sandboxrun.errors import PolicyError
from sandboxrun.policy.authority import Authority, PolicyDigests, implied_consent
from sandboxrun.policy.decide import Case, decide
from sandboxrun.policy.decision import Decision, Verdict
from sandboxrun.policy.document import Allowed, Document, Rule
from sandboxrun.policy.grants import CommandText
from sandboxrun.policy.match import Match, match_rule
from sandboxrun.policy.requested import Requested
from sandboxrun.screening.facts import Facts

ScreenCommand = Callable[[str], Facts]
"""Screening of a shell command, given from outside: policy stays pure."""
ANY_IMAGE: Final = "an-image"


@dataclass(frozen=True, slots=True)
class WrongExample:
    """An example whose decision is not the one the document promises."""

    command: str
    expected: Verdict
    decision: Decision


def check_rule_examples(document: Document, screen: ScreenCommand, *, source: str) -> None:
    """Raise `PolicyError` for the first example that its rule judges otherwise."""
    for index, rule in enumerate(document.rules):
        for command in rule.matches:
            if not _matches(rule, screen(command)):
                raise PolicyError(
                    f"{source}: rule {rule.id!r} (number {index + 1}) does not match its example "
                    f"{command!r}."
                )
        for command in rule.not_matches:
            if _matches(rule, screen(command)):
                raise PolicyError(
                    f"{source}: rule {rule.id!r} (number {index + 1}) matches {command!r}, which "
                    "is an example of what it must leave alone."
                )


def wrong_examples(document: Document, screen: ScreenCommand) -> Iterator[WrongExample]:
    """Yield every row of the table of examples that the document, as the host's, decides otherwise."""
    rows = (
        (Verdict.AUTO, document.examples.auto),
        (Verdict.ASK, document.examples.ask),
        (Verdict.REFUSED, document.examples.refused),
    )
    for expected, commands in rows:
        for command in commands:
            decision = decide_example(document, command, screen(command))
            if decision.verdict is not expected:
                yield WrongExample(command, expected, decision)


def decide_example(document: Document, command: str, facts: Facts) -> Decision:
    """Return what a document decides, alone, for a shell command that asks for nothing else."""
    document = document.model_copy(update={"images": Allowed(allow=(ANY_IMAGE,))})
    digests = PolicyDigests.of(document, None)
    consent = implied_consent("you", None, digests, at="")
    case = Case(
        command=CommandText("shell", (command.encode("utf-8", "surrogatepass"),)),
        facts=facts,
        requested=Requested(form="shell", image=ANY_IMAGE),
    )
    authority = Authority(principal="you", workspace=None, consent=consent)
    return decide(case, document, None, authority)


def _matches(rule: Rule, facts: Facts) -> bool:
    return match_rule(rule, facts, "shell").match is Match.YES
