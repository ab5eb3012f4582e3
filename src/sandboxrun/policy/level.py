"""What one level, the host's or the workspace's, has against a request."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase

from sandboxrun.policy.decision import Objection, Source
from sandboxrun.policy.document import Action, Document, Rule
from sandboxrun.policy.match import Match, Matched, match_rule
from sandboxrun.policy.requested import Form, Requested
from sandboxrun.screening.facts import Facts, Tier


def objections_of(
    document: Document, source: Source, facts: Facts, requested: Requested
) -> tuple[Objection, ...]:
    """Return everything this level has against the request; empty when it has nothing."""
    found = [
        *_rules(document, source, facts, requested.form),
        *_allow_lists(document, source, requested),
    ]
    if document.asks is Action.DENY:
        found = [_unasked(objection, source, document) for objection in found]
    return tuple(found)


def _rules(document: Document, source: Source, facts: Facts, form: Form) -> Iterator[Objection]:
    matched = [(rule, match_rule(rule, facts, form)) for rule in document.rules]
    matched = [(rule, match) for rule, match in matched if match.match is not Match.NO]
    for rule, match in matched:
        if rule.action is Action.DENY:
            yield _denial(rule, match, source)
    lifts: list[str] = []
    decider: Rule | None = None
    for rule, match in matched:
        if rule.action is Action.DENY:
            continue
        if decider is None:
            decider = rule
            if rule.action is Action.ASK:
                yield _objection(rule, match, source, Action.ASK)
        if rule.action is Action.ASK:
            break
        # Every allow above the first ask lifts, so that taking one away never permits more.
        lifts += rule.lifts
    if decider is None:
        yield Objection(
            source=source,
            rule="no-rule",
            action=Action.DENY,
            reason=f"No rule of the {source} {document.name!r} allows it.",
        )
    yield from _screening(document.screening_asks, facts, lifts)


def _denial(rule: Rule, match: Matched, source: Source) -> Objection:
    if match.match is Match.YES:
        return _objection(rule, match, source, Action.DENY)
    doubt = _objection(rule, match, source, Action.ASK)
    return doubt.model_copy(
        update={
            "reason": f"Part of it is known only at run time and may be what is forbidden: {rule.reason}"
        }
    )


def _objection(rule: Rule, match: Matched, source: Source, action: Action) -> Objection:
    return Objection(
        source=source, rule=rule.id, action=action, reason=rule.reason, spans=match.spans
    )


def _screening(action: Action, facts: Facts, lifts: Sequence[str]) -> Iterator[Objection]:
    if action is Action.ALLOW or facts.tier is Tier.NEVER:
        return
    asking = [finding for finding in facts.findings if finding.tier is not Tier.AUTO]
    for finding in asking:
        if not _listed(finding.code, lifts):
            yield Objection(
                source=Source.SCREENING,
                rule=finding.code,
                action=action,
                reason=finding.reason,
                spans=((finding.start, finding.end),),
            )
    if facts.tier is Tier.ASK and not asking:
        yield Objection(
            source=Source.SCREENING,
            rule="unexplained",
            action=action,
            reason="Screening wants a person to look at it and did not say why.",
        )


def _allow_lists(document: Document, source: Source, requested: Requested) -> Iterator[Objection]:
    host = source is Source.HOST
    if document.env is not None or host:
        allowed = () if document.env is None else document.env.allow
        names = [name for name in requested.env_names if not _listed(name, allowed)]
        if names:
            yield _denied(source, "env", f"It sets {_named(names)}, which the {source} forbids.")
    if document.images is not None or host:
        allowed = () if document.images is None else document.images.allow
        if not _listed(requested.image, allowed):
            reason = f"The image {requested.image!r} is not one that the {source} allows."
            yield _denied(source, "images", reason)
    if document.inputs is not None or host:
        roots = () if document.inputs is None else document.inputs.allow
        outside = [path for path in requested.inputs if not _below(path, roots)]
        if outside:
            yield _denied(
                source, "inputs", f"The {source} does not let {_named(outside)} be mounted."
            )
    if requested.runtime is not None:
        yield from _runtime(document, source, requested.runtime)
    if requested.network:
        yield Objection(
            source=source,
            rule="network",
            action=Action.ASK,
            reason="It wants the network: network grants unavailable, no sandbox has any.",
            expansion=True,
            unavailable=True,
        )


def _runtime(document: Document, source: Source, runtime: str) -> Iterator[Objection]:
    if document.runtimes is None and source is not Source.HOST:
        return
    if runtime in (() if document.runtimes is None else document.runtimes.allow):
        return
    yield Objection(
        source=source,
        rule="runtimes",
        action=Action.ASK,
        reason=f"It wants the runtime {runtime!r} in place of the one the {source} gives.",
        expansion=True,
    )


def _denied(source: Source, rule: str, reason: str) -> Objection:
    return Objection(source=source, rule=rule, action=Action.DENY, reason=reason)


def _unasked(objection: Objection, source: Source, document: Document) -> Objection:
    if objection.action is not Action.ASK:
        return objection
    return unasked(objection, source, document)


def unasked(objection: Objection, source: Source, document: Document) -> Objection:
    """Return an ask as the denial it is under a policy that asks nobody."""
    reason = f"{objection.reason} The {source} {document.name!r} asks nobody about that."
    return objection.model_copy(update={"action": Action.DENY, "reason": reason})


def _listed(text: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(text, pattern) for pattern in patterns)


def _below(path: str, roots: Iterable[str]) -> bool:
    if not path.startswith("/") or "\0" in path or ".." in path.split("/"):
        return False
    whole = posixpath.normpath(path)
    return any(whole == root or whole.startswith(root.rstrip("/") + "/") for root in roots)


def _named(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names)
