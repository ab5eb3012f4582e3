"""What the tests of policy and approval have in common."""

from __future__ import annotations

from collections.abc import Sequence

from sandboxrun.policy.authority import Authority, Consent, PolicyDigests, implied_consent
from sandboxrun.policy.decide import Case, decide
from sandboxrun.policy.decision import Decision
from sandboxrun.policy.document import Action, Allowed, Document, Rule, When
from sandboxrun.policy.grants import CommandText, Grant
from sandboxrun.policy.requested import Requested
from sandboxrun.screening import screen, screen_argv
from sandboxrun.screening.facts import Facts

IMAGE = "sandboxrun/workspace:latest"


def rule(id_: str, action: Action, when: When, **more: object) -> Rule:
    fields: dict[str, object] = {"reason": f"Because of {id_}.", "matches": ("x",)}
    if not when.any:
        fields["not_matches"] = ("y",)
    return Rule.model_validate({"id": id_, "action": action, "when": when} | fields | more)


ANYTHING = When(any=True)
ALLOW_ALL = rule("everything", Action.ALLOW, ANYTHING)


def document(*rules: Rule, **more: object) -> Document:
    fields: dict[str, object] = {
        "version": 1,
        "name": "test",
        "description": "For tests.",
        "env": Allowed(allow=("*",)),
        "images": Allowed(allow=("*",)),
        "rules": rules or (ALLOW_ALL,),
    }
    return Document.model_validate(fields | more)


def shell(command: str, *, cwd: str | None = None) -> CommandText:
    return CommandText("shell", (command.encode(),), cwd)


def argv(*words: str) -> CommandText:
    return CommandText("argv", tuple(word.encode() for word in words))


def case(
    command: str | Sequence[str],
    *,
    facts: Facts | None = None,
    cwd: str | None = None,
    **wanted: object,
) -> Case:
    """Return a case of a shell command, or of an argv when given a list."""
    given = {"image": IMAGE} | wanted
    if isinstance(command, str):
        found = screen(command) if facts is None else facts
        requested = Requested(form="shell", **given)  # type: ignore[arg-type]
        return Case(command=shell(command, cwd=cwd), facts=found, requested=requested)
    found = screen_argv(command) if facts is None else facts
    requested = Requested(form="argv", **given)  # type: ignore[arg-type]
    return Case(command=argv(*command), facts=found, requested=requested)


def authority(
    host: Document,
    workspace: Document | None = None,
    *,
    consent: Consent | None = None,
    name: str | None = "demo",
    principal: str = "ann",
    execution: bool = True,
) -> Authority:
    """Return the authority of somebody who consented, unless another consent is given."""
    digests = PolicyDigests.of(host, workspace)
    given = implied_consent(principal, name, digests, at="now") if consent is None else consent
    return Authority(principal=principal, workspace=name, consent=given, execution=execution)


def decided(
    judged: Case,
    host: Document | None = None,
    workspace: Document | None = None,
    grants: Sequence[Grant] = (),
) -> Decision:
    host = document() if host is None else host
    return decide(judged, host, workspace, authority(host, workspace), grants)
