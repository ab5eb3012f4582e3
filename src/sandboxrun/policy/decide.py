"""Stage 2: from facts, policies, authority and grants to one decision. Pure and total."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sandboxrun.model.limits import MIB
from sandboxrun.policy.authority import Authority, PolicyDigests
from sandboxrun.policy.bounds import Bounds, bounded
from sandboxrun.policy.decision import Decision, Objection, Obligations, Source, Verdict
from sandboxrun.policy.document import Action, Document
from sandboxrun.policy.grants import CommandText, Grant, covering_grant
from sandboxrun.policy.level import objections_of, unasked
from sandboxrun.policy.reasons import advice_on, reason_of
from sandboxrun.policy.requested import Requested
from sandboxrun.screening.facts import Effect, Facts, Tier


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Everything that is judged about one request."""

    command: CommandText
    facts: Facts
    requested: Requested


def decide(
    case: Case,
    host_policy: Document,
    workspace_policy: Document | None,
    authority: Authority,
    grants: Sequence[Grant] = (),
) -> Decision:
    """Return what happens to a request. Never raises; the stricter level wins.

    In this order: the never-list, then whatever denies, then a missing consent, then the asks,
    which one grant may answer. Nothing of it reads a clock, a file or a setting.
    """
    levels = [(Source.HOST, host_policy)]
    if workspace_policy is not None:
        levels.append((Source.WORKSPACE, workspace_policy))
    digests = PolicyDigests.of(host_policy, workspace_policy)
    bounds = bounded(case.requested, levels)
    objections = _objections(case, levels, authority, bounds)
    denials = [each for each in objections if each.action is Action.DENY]
    asks = [each for each in objections if each.action is Action.ASK]
    consent = authority.consent
    if consent is not None and not consent.covers(authority, digests):
        consent = None
    grant: Grant | None = None
    if denials:
        verdict, tier, against = Verdict.REFUSED, Tier.NEVER, [*denials, *asks]
    else:
        if asks:
            grant = covering_grant(
                grants, authority, case.requested, case.command, case.facts, asks
            )
        against = [] if grant is not None else asks
        tier = Tier.ASK if against else Tier.AUTO
        verdict = Verdict.ASK if against else Verdict.AUTO
        if consent is None:
            verdict = Verdict.CONSENT_REQUIRED
    return Decision(
        verdict=verdict,
        tier=tier,
        effect=_effect(case),
        rule=_rule(verdict, against, grant, host_policy),
        reason=reason_of(verdict, against, case.command, case.facts),
        advice=advice_on(against, case.command, case.facts),
        objections=tuple(against),
        findings=case.facts.findings,
        obligations=_obligations(case.requested, levels, bounds),
        clamped=bounds.clamped,
        digests=digests,
        grant=None if grant is None else grant.grant_id,
        consent=None if consent is None else consent.consent_id,
        deadline_seconds=min(document.questions.deadline_seconds for _, document in levels),
    )


def _objections(
    case: Case,
    levels: Sequence[tuple[Source, Document]],
    authority: Authority,
    bounds: Bounds,
) -> list[Objection]:
    found = list(_never(case.facts))
    if not authority.execution:
        found.append(
            Objection(
                source=Source.AUTHORITY,
                rule="access",
                action=Action.DENY,
                reason="Running commands is switched off for this workspace.",
            )
        )
    for source, document in levels:
        found += objections_of(document, source, case.facts, case.requested)
    found += _expansions(levels, bounds)
    # Both levels pass on what screening asks; the stricter of two equal ones is kept.
    distinct: dict[tuple[str, tuple[tuple[int, int], ...]], Objection] = {}
    for objection in found:
        key = (objection.key, objection.spans)
        kept = distinct.get(key)
        if kept is None or kept.action is not Action.DENY:
            distinct[key] = objection
    return list(distinct.values())


def _never(facts: Facts) -> list[Objection]:
    found = [
        Objection(
            source=Source.SCREENING,
            rule=finding.code,
            action=Action.DENY,
            reason=finding.reason,
            spans=((finding.start, finding.end),),
        )
        for finding in facts.findings
        if finding.tier is Tier.NEVER
    ]
    if facts.tier is Tier.NEVER and not found:
        found.append(
            Objection(
                source=Source.SCREENING,
                rule="unexplained",
                action=Action.DENY,
                reason="Screening refuses it and did not say why.",
            )
        )
    return found


def _expansions(levels: Sequence[tuple[Source, Document]], bounds: Bounds) -> Sequence[Objection]:
    for source, document in levels:
        if document.asks is Action.DENY:
            return [
                unasked(each, source, document) if each.action is Action.ASK else each
                for each in bounds.objections
            ]
    return bounds.objections


def _effect(case: Case) -> Effect:
    # A variable may make a known reader run or write something else.
    if case.requested.environment_is_inert:
        return case.facts.effect
    return Effect.MUTATING


def _rule(
    verdict: Verdict, against: Sequence[Objection], grant: Grant | None, host: Document
) -> str:
    if verdict is Verdict.CONSENT_REQUIRED:
        return f"{Source.AUTHORITY}:consent"
    if against:
        return against[0].key
    return f"{Source.HOST}:{host.name}" if grant is None else f"grant:{grant.grant_id}"


def _obligations(
    requested: Requested, levels: Sequence[tuple[Source, Document]], bounds: Bounds
) -> Obligations:
    return Obligations(
        limits=bounds.limits(),
        timeout_seconds=bounds.values["timeout_seconds"],
        output_bytes=int(bounds.values["output_mib"] * MIB),
        image=requested.image,
        runtime=requested.runtime,
        read_only=requested.read_only or any(document.read_only for _, document in levels),
        env_names=requested.env_names,
        inputs=requested.inputs,
    )
