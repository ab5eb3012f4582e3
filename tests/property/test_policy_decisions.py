"""Whatever the documents, the facts and the grants: a decision comes, and narrower stays narrower."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.policy_samples import document, rule

from sandboxrun.policy.authority import Authority, PolicyDigests, implied_consent
from sandboxrun.policy.bounds import bounded
from sandboxrun.policy.decide import Case, decide
from sandboxrun.policy.decision import Decision, Source, Verdict
from sandboxrun.policy.document import (
    Action,
    Allowed,
    Document,
    Inputs,
    Range,
    Ranges,
    Rule,
    Runtimes,
    When,
)
from sandboxrun.policy.explain import explain
from sandboxrun.policy.grants import CommandText, Grant, Pattern, offered_pattern
from sandboxrun.policy.requested import Requested
from sandboxrun.screening.facts import (
    Effect,
    Facts,
    Finding,
    Redirection,
    ScreenedCommand,
    ScreenedWord,
    Tier,
)

RANK = {Verdict.AUTO: 0, Verdict.ASK: 1, Verdict.REFUSED: 2}
ANN = "ann"

words = st.sampled_from(["git", "push", "npm", "install", "x", "-f", "/usr/bin/git", "rm", "a*"])
patterns = st.sampled_from(["git", "push", "npm", "*", "i*", "x", "rm", "[ab]", "-?"])
codes = st.sampled_from(["delete.sources", "network.use", "privilege.raise", "git.discard", "odd"])
code_patterns = st.sampled_from(["delete.*", "network.use", "*", "odd", "git.*"])
paths = st.sampled_from(["out", "/etc/passwd", "src/…", "…", "a/b"])
names = st.sampled_from(["LANG", "PATH", "FOO", "LC_ALL"])
mostly_open = st.sampled_from([Tier.AUTO] * 8 + [Tier.ASK] * 8 + [Tier.NEVER])
"""Refusals are easy to come by; what is interesting is what almost passes."""
spans = st.tuples(st.integers(0, 30), st.integers(0, 30)).map(sorted)


@st.composite
def findings(draw: st.DrawFn) -> Finding:
    start, end = draw(spans)
    return Finding(
        code=draw(codes), reason="Because.", tier=draw(mostly_open), start=start, end=end
    )


@st.composite
def commands(draw: st.DrawFn) -> ScreenedCommand:
    start, end = draw(spans)
    texts = draw(st.lists(st.none() | words, max_size=4))
    told = tuple(ScreenedWord(text=text, start=start, end=end) for text in texts)
    return ScreenedCommand(words=told, start=start, end=end)


facts_of_any_kind = st.builds(
    Facts,
    tier=mostly_open,
    effect=st.sampled_from(Effect),
    commands=st.lists(commands(), max_size=3).map(tuple),
    findings=st.lists(findings(), max_size=2).map(tuple),
    writes=st.lists(paths, max_size=2).map(tuple),
    reads=st.lists(paths, max_size=2).map(tuple),
    network=st.lists(words, max_size=1).map(tuple),
    redirections=st.lists(
        st.builds(
            Redirection, operator=st.just(">"), target=paths, start=st.just(0), end=st.just(1)
        ),
        max_size=1,
    ).map(tuple),
)


def several(strategy: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    return st.none() | st.lists(strategy, min_size=1, max_size=2).map(tuple)


whens = st.fixed_dictionaries(
    {
        "program": several(patterns),
        "words": several(patterns),
        "findings": several(code_patterns),
        "writes": several(st.sampled_from(["*", "/etc/*", "src/*"])),
        "effect": st.none() | st.sampled_from(Effect),
        "tier": st.none() | st.sampled_from(Tier),
        "network": st.none() | st.booleans(),
        "form": st.none() | st.sampled_from(["shell", "argv"]),
    }
).map(
    lambda given: (
        When.model_validate(given)
        if any(value is not None for value in given.values())
        else When(any=True)
    )
)


@st.composite
def rules(draw: st.DrawFn, action: Action | None = None) -> Rule:
    usual = st.sampled_from([Action.ALLOW] * 4 + [Action.ASK] * 3 + [Action.DENY])
    chosen = draw(usual) if action is None else action
    lifts = draw(st.lists(code_patterns, max_size=2)) if chosen is Action.ALLOW else []
    number = draw(st.integers(0, 10**9))
    return rule(f"rule-{number}", chosen, draw(whens), lifts=tuple(lifts))


@st.composite
def ranges(draw: st.DrawFn) -> Range:
    low, high, top = sorted(draw(st.lists(st.integers(64, 4096), min_size=3, max_size=3)))
    return Range(default=low, maximum=high, ceiling=draw(st.none() | st.just(float(top))))


limits = st.builds(
    Ranges,
    memory_mib=st.none() | ranges(),
    pids=st.none() | ranges(),
    timeout_seconds=st.none() | ranges(),
)
allow_lists = st.sampled_from(
    [*[{"allow": ("*", "*")}] * 8, None, {"allow": ("image", "LANG", "FOO", "PATH")}]
)


@st.composite
def documents(draw: st.DrawFn) -> Document:
    drawn = draw(st.lists(rules(), max_size=3, unique_by=lambda each: each.id))
    if draw(st.sampled_from([True] * 7 + [False])):
        drawn.append(rule("last", Action.ALLOW, When(any=True)))
    return document(
        *drawn,
        screening_asks=draw(st.sampled_from([Action.ALLOW] * 3 + [Action.ASK] * 7 + [Action.DENY])),
        asks=draw(st.sampled_from([Action.ASK] * 9 + [Action.DENY])),
        read_only=draw(st.booleans()),
        limits=draw(limits),
        env=draw(allow_lists),
        images=draw(allow_lists),
        runtimes=draw(st.none() | st.just({"allow": ("runsc",)})),
        inputs=draw(st.none() | st.just({"allow": ("/data",)})),
    )


@st.composite
def cases(draw: st.DrawFn) -> Case:
    form: Any = draw(st.sampled_from(["shell", "argv"]))
    parts = draw(st.lists(st.binary(min_size=1, max_size=20), min_size=1, max_size=3))
    wanted = st.sampled_from(["memory_mib", "pids", "timeout_seconds"])
    return Case(
        command=CommandText(form, tuple(parts[:1] if form == "shell" else parts)),
        facts=draw(facts_of_any_kind),
        requested=Requested(
            form=form,
            image=draw(st.sampled_from(["image", "other"])),
            limits=draw(st.dictionaries(wanted, st.integers(64, 8192).map(float), max_size=3)),
            expand=draw(st.frozensets(wanted, max_size=2)),
            runtime=draw(st.sampled_from([None] * 6 + ["runsc", "runc"])),
            network=draw(st.sampled_from([False] * 12 + [True])),
            env_names=tuple(draw(st.lists(names, max_size=1))),
            inputs=draw(st.sampled_from([()] * 8 + [("/data/a",), ("/database",)])),
            read_only=draw(st.booleans()),
            stdin=draw(st.sampled_from([False] * 4 + [True])),
        ),
    )


@st.composite
def grants_for(
    draw: st.DrawFn, case: Case, host: Document, workspace: Document | None
) -> list[Grant]:
    """Return grants, many of which really cover the case."""
    asked = decided(case, host, workspace, []).objections
    keys = [f"{Source.SCREENING}:{finding.code}" for finding in case.facts.findings]
    keys += [f"{Source.SCREENING}:unexplained", *(each.key for each in asked)]
    pattern = Pattern(kind="exact", form=case.command.form, digest=case.command.digest(), shown="x")
    return [
        Grant(
            grant_id=f"grant-{number}",
            principal=draw(st.sampled_from([ANN, ANN, ANN, "bob"])),
            workspace="demo",
            pattern=pattern,
            lifts=draw(st.sampled_from([*[frozenset(keys)] * 3, frozenset(keys[:1])])),
            env_names=case.requested.env_names,
        )
        for number in range(draw(st.integers(1, 2)))
    ]


def decided(
    case: Case, host: Document, workspace: Document | None, grants: list[Grant]
) -> Decision:
    digests = PolicyDigests.of(host, workspace)
    consent = implied_consent(ANN, "demo", digests, at="")
    authority = Authority(principal=ANN, workspace="demo", consent=consent)
    return decide(case, host, workspace, authority, grants)


def not_milder(after: Decision, before: Decision) -> None:
    assert RANK[after.verdict] >= RANK[before.verdict]
    assert after.obligations.read_only >= before.obligations.read_only
    if after.verdict is not Verdict.REFUSED:
        assert after.obligations.timeout_seconds <= before.obligations.timeout_seconds
        assert after.obligations.limits.pids <= before.obligations.limits.pids
        assert after.obligations.limits.memory_bytes <= before.obligations.limits.memory_bytes


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_decision_always_comes_and_the_never_list_always_holds(data: st.DataObject) -> None:
    case = data.draw(cases())
    host, workspace = data.draw(documents()), data.draw(st.none() | documents())
    grants = data.draw(grants_for(case, host, workspace))
    decision = decided(case, host, workspace, grants)
    assert decision.reason
    assert explain(decision, case.command, case.facts, policies=("p",))
    assert Decision.model_validate_json(decision.model_dump_json()) == decision
    offered_pattern(case.command, case.facts, case.requested, decision.objections)
    never = Tier.NEVER in (case.facts.tier, *(each.tier for each in case.facts.findings))
    if never:
        assert decision.verdict is Verdict.REFUSED
    if case.requested.network:
        assert decision.verdict is not Verdict.AUTO
        assert any(each.rule == "network" for each in decision.objections)
    if Action.DENY in (host.asks, Action.ASK if workspace is None else workspace.asks):
        assert decision.verdict is not Verdict.ASK
    if decision.effect is Effect.READ_ONLY:
        assert case.facts.effect is Effect.READ_ONLY


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_adding_a_deny_rule_never_permits_more(data: st.DataObject) -> None:
    case = data.draw(cases())
    host, workspace = data.draw(documents()), data.draw(documents())
    grants = data.draw(grants_for(case, host, workspace))
    before = decided(case, host, workspace, grants)
    at_host = data.draw(st.booleans())
    changed = host if at_host else workspace
    place = data.draw(st.integers(0, len(changed.rules)))
    extra = data.draw(rules(Action.DENY)).model_copy(update={"id": "extra"})
    more = changed.model_copy(
        update={"rules": (*changed.rules[:place], extra, *changed.rules[place:])}
    )
    after = decided(case, *((more, workspace) if at_host else (host, more)), grants)
    not_milder(after, before)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_removing_a_grant_never_permits_more(data: st.DataObject) -> None:
    case = data.draw(cases())
    host, workspace = data.draw(documents()), data.draw(st.none() | documents())
    grants = data.draw(grants_for(case, host, workspace))
    before = decided(case, host, workspace, grants)
    kept = [grant for grant in grants if data.draw(st.booleans())]
    not_milder(decided(case, host, workspace, kept), before)


def narrowed(draw: st.DrawFn, given: Document) -> Document:
    """Return ``given``, narrower in one of the ways there are."""
    way = draw(st.sampled_from(sorted(_WAYS)))
    return _WAYS[way](draw, given)


def _stricter_rule(draw: st.DrawFn, given: Document) -> Document:
    if not given.rules:
        return given
    index = draw(st.integers(0, len(given.rules) - 1))
    old = given.rules[index]
    order = [Action.ALLOW, Action.ASK, Action.DENY]
    stricter = draw(st.sampled_from(order[order.index(old.action) :]))
    new = old.model_copy(update={"action": stricter})
    return given.model_copy(
        update={"rules": (*given.rules[:index], new, *given.rules[index + 1 :])}
    )


def _without_an_allow(draw: st.DrawFn, given: Document) -> Document:
    allows = [each for each in given.rules if each.action is Action.ALLOW]
    if not allows:
        return given
    gone = draw(st.sampled_from(allows))
    return given.model_copy(update={"rules": tuple(r for r in given.rules if r is not gone)})


def _fewer_lifts(draw: st.DrawFn, given: Document) -> Document:
    del draw
    rules_ = tuple(each.model_copy(update={"lifts": each.lifts[1:]}) for each in given.rules)
    return given.model_copy(update={"rules": rules_})


def _smaller_lists(draw: st.DrawFn, given: Document) -> Document:
    del draw
    env = given.env and given.env.model_copy(update={"allow": given.env.allow[1:]})
    images = given.images and given.images.model_copy(update={"allow": given.images.allow[1:]})
    inputs = given.inputs and given.inputs.model_copy(update={"allow": ()})
    return given.model_copy(update={"env": env, "images": images, "inputs": inputs})


def _lower_limits(draw: st.DrawFn, given: Document) -> Document:
    def lower(found: Range | None) -> Range | None:
        if found is None:
            return None
        maximum = float(draw(st.integers(64, int(found.maximum))))
        ceiling = draw(st.sampled_from([None, maximum, max(maximum, found.maximum)]))
        return Range(default=min(found.default, maximum), maximum=maximum, ceiling=ceiling)

    told = given.limits
    return given.model_copy(
        update={
            "limits": told.model_copy(
                update={name: lower(getattr(told, name)) for name in ("memory_mib", "pids")}
            )
        }
    )


_WAYS = {
    "stricter rule": _stricter_rule,
    "without an allow": _without_an_allow,
    "fewer lifts": _fewer_lifts,
    "smaller lists": _smaller_lists,
    "lower limits": _lower_limits,
    "screening denies": lambda _, given: given.model_copy(update={"screening_asks": Action.DENY}),
    "nobody is asked": lambda _, given: given.model_copy(update={"asks": Action.DENY}),
    "read-only": lambda _, given: given.model_copy(update={"read_only": True}),
}


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_narrowing_either_level_never_permits_more(data: st.DataObject) -> None:
    case = data.draw(cases())
    host, workspace = data.draw(documents()), data.draw(documents())
    grants = data.draw(grants_for(case, host, workspace))
    before = decided(case, host, workspace, grants)
    narrow = st.composite(narrowed)
    at_host = data.draw(st.booleans())
    if at_host:
        after = decided(case, data.draw(narrow(host)), workspace, grants)
    else:
        after = decided(case, host, data.draw(narrow(workspace)), grants)
    not_milder(after, before)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_workspace_policy_never_widens_the_hosts(data: st.DataObject) -> None:
    case = data.draw(cases())
    host, workspace = data.draw(documents()), data.draw(documents())
    grants = data.draw(grants_for(case, host, workspace))
    not_milder(decided(case, host, workspace, grants), decided(case, host, None, grants))


def _all_limits(given: Ranges) -> Ranges:
    usual = Range(default=64, maximum=4096)
    names = ("memory_mib", "pids", "timeout_seconds")
    return given.model_copy(update={name: getattr(given, name) or usual for name in names})


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_both_levels_together_are_as_strict_as_either(data: st.DataObject) -> None:
    case = data.draw(cases())
    host, workspace = data.draw(documents()), data.draw(documents())
    # As the host's, a list that is left out allows nothing; here each level has all of them.
    lists = ("env", "images", "runtimes", "inputs")
    whole = [
        level.model_copy(
            update={name: getattr(level, name) or Allowed(allow=("*",)) for name in lists[:2]}
            | {"runtimes": level.runtimes or Runtimes(), "inputs": level.inputs or Inputs()}
            | {"limits": _all_limits(level.limits)}
        )
        for level in (host, workspace)
    ]
    together = decided(case, whole[0], whole[1], [])
    for level in whole:
        not_milder(together, decided(case, level, None, []))


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_nothing_exceeds_a_maximum_without_an_ask(data: st.DataObject) -> None:
    case = data.draw(cases())
    levels = [(Source.HOST, data.draw(documents())), (Source.WORKSPACE, data.draw(documents()))]
    bounds = bounded(case.requested, levels)
    asked = {each.rule.removeprefix("limits.") for each in bounds.objections}
    for name, value in bounds.values.items():
        for _, level in levels:
            found: Range | None = getattr(level.limits, name)
            if found is not None:
                assert value <= (found.top if name in asked else found.maximum)
        wanted = case.requested.limits.get(name)
        if wanted is not None and wanted != value:
            assert name in {clamped.name for clamped in bounds.clamped}
