"""Single decisions: who wins, what is clamped, and what the model is told."""

from __future__ import annotations

import pytest
from tests.policy_samples import (
    ALLOW_ALL,
    ANYTHING,
    authority,
    case,
    decided,
    document,
    rule,
)

from sandboxrun.errors import UsageError
from sandboxrun.model.limits import MIB, Limits
from sandboxrun.model.request import Request
from sandboxrun.policy.authority import Authority
from sandboxrun.policy.builtin import CHECKS
from sandboxrun.policy.decide import decide
from sandboxrun.policy.decision import Clamped, Decision, Source, Verdict
from sandboxrun.policy.document import Action, Document, Range, Ranges, When
from sandboxrun.policy.match import Match, match_rule
from sandboxrun.policy.requested import Requested, limits_of
from sandboxrun.screening import screen, screen_argv
from sandboxrun.screening.facts import Effect, Facts, Tier

NO_PUSH = rule("no-push", Action.DENY, When(program=("git",), words=("push",)))
ASK_MAKE = rule("make", Action.ASK, When(program=("make",)))


def verdict(command: str, *rules: object, **more: object) -> tuple[Verdict, str]:
    decision = decided(case(command), document(*rules, **more))  # type: ignore[arg-type]
    return decision.verdict, decision.rule


@pytest.mark.parametrize(
    ("command", "match"),
    [
        ("git push", Match.YES),
        ("git -C x push origin", Match.YES),
        ("/usr/bin/git push", Match.YES),
        ("ls; (cd x && git push)", Match.YES),
        ("bash -c 'git push'", Match.YES),
        ("git $VERB", Match.MAYBE),
        ("$TOOL push", Match.MAYBE),
        ("git status", Match.NO),
        ("echo git push", Match.NO),
        ("digit push", Match.NO),
    ],
)
def test_a_deny_matches_any_command_and_perhaps_what_is_unknown(command: str, match: Match) -> None:
    assert match_rule(NO_PUSH, screen(command), "shell").match is match


@pytest.mark.parametrize(
    ("command", "match"),
    [
        ("git status", Match.YES),
        ("git status; git diff", Match.YES),
        ("git status; ls", Match.NO),
        ("/usr/bin/git status", Match.NO),
        ("./git status", Match.NO),
        ("$TOOL status", Match.NO),
        ("bash -c 'git status'", Match.NO),
    ],
)
def test_an_allow_matches_only_when_every_command_surely_does(command: str, match: Match) -> None:
    only_git = rule("git", Action.ALLOW, When(program=("git",)))
    assert match_rule(only_git, screen(command), "shell").match is match


def test_an_unreadable_command_may_be_what_is_forbidden() -> None:
    facts = Facts(tier=Tier.ASK, effect=Effect.MUTATING)
    assert match_rule(NO_PUSH, facts, "shell").match is Match.MAYBE
    allow = rule("git", Action.ALLOW, When(program=("git",)))
    assert match_rule(allow, facts, "shell").match is Match.NO


def test_deny_overrides_wherever_it_stands() -> None:
    assert verdict("git push", ALLOW_ALL, NO_PUSH) == (Verdict.REFUSED, "host policy:no-push")
    assert verdict("git $X", ALLOW_ALL, NO_PUSH)[0] is Verdict.ASK


def test_the_first_of_ask_and_allow_decides() -> None:
    assert verdict("make", ASK_MAKE, ALLOW_ALL) == (Verdict.ASK, "host policy:make")
    assert verdict("make", ALLOW_ALL, ASK_MAKE)[0] is Verdict.AUTO


def test_without_a_rule_it_is_refused() -> None:
    assert verdict("ls", ASK_MAKE) == (Verdict.REFUSED, "host policy:no-rule")


def test_an_allow_lifts_only_the_findings_it_names() -> None:
    lifting = rule("all", Action.ALLOW, ANYTHING, lifts=("network.*",))
    assert verdict("git push", lifting)[0] is Verdict.AUTO
    assert verdict("git push && rm -rf src", lifting) == (
        Verdict.ASK,
        "screening:delete.sources",
    )
    assert verdict("sudo id", rule("all", Action.ALLOW, ANYTHING, lifts=("*",)))[0] is (
        Verdict.REFUSED
    )


def test_the_stricter_level_wins_from_either_side() -> None:
    strict, mild = document(rule("all", Action.ASK, ANYTHING)), document()
    ci = document(asks="deny")
    assert decided(case("ls"), mild, strict).verdict is Verdict.ASK
    assert decided(case("ls"), strict, mild).verdict is Verdict.ASK
    assert decided(case("git push"), mild, ci).verdict is Verdict.REFUSED
    assert decided(case("git push"), ci, mild).verdict is Verdict.REFUSED
    rollout = document(screening_asks="allow")
    assert decided(case("git push"), rollout).verdict is Verdict.AUTO
    assert decided(case("git push"), mild, rollout).verdict is Verdict.ASK


def test_narrower_numbers_win_and_a_cut_is_told() -> None:
    host = document(limits=Ranges(pids=Range(default=100, maximum=200)))
    mine = document(limits=Ranges(pids=Range(default=64, maximum=150)))
    assert decided(case("ls"), host, mine).obligations.limits.pids == 64
    cut = decided(case("ls", limits={"pids": 500.0}), host, mine)
    assert cut.verdict is Verdict.AUTO
    assert cut.obligations.limits.pids == 150
    assert cut.clamped == (Clamped(name="pids", requested=500, effective=150, by=Source.WORKSPACE),)
    kept = decided(case("ls", limits={"pids": 120.0}), host, mine)
    assert (kept.obligations.limits.pids, kept.clamped) == (120, ())


def test_more_than_the_maximum_is_asked_about_up_to_the_ceiling() -> None:
    host = document(limits=Ranges(memory_mib=Range(default=64, maximum=128, ceiling=512)))
    wants = {"limits": {"memory_mib": 512.0}, "expand": frozenset({"memory_mib"})}
    decision = decided(case("ls", **wants), host)
    assert (decision.verdict, decision.rule) == (Verdict.ASK, "host policy:limits.memory_mib")
    assert "It wants 512 MiB of memory" in decision.reason
    assert decision.obligations.limits.memory_bytes == 512 * MIB
    assert decision.clamped == ()
    more = {"limits": {"memory_mib": 513.0}, "expand": frozenset({"memory_mib"})}
    refused = decided(case("ls", **more), host)
    assert refused.verdict is Verdict.REFUSED
    assert "more memory than anybody may give it: 512 MiB" in refused.reason
    workspace = document(limits=Ranges(memory_mib=Range(default=64, maximum=64)))
    assert decided(case("ls", **wants), host, workspace).verdict is Verdict.REFUSED
    cut = decided(case("ls", limits={"memory_mib": 512.0}), host, workspace)
    assert cut.verdict is Verdict.AUTO
    assert cut.obligations.limits.memory_bytes == 64 * MIB
    unasked = decided(case("ls", **wants), document(limits=host.limits, asks="deny"))
    assert unasked.verdict is Verdict.REFUSED


def test_network_grants_are_unavailable() -> None:
    decision = decided(case("ls", network=True))
    assert (decision.verdict, decision.rule) == (Verdict.ASK, "host policy:network")
    assert decision.reason.startswith("Nobody can say yes yet. It wants the network: ")
    assert "network grants unavailable" in decision.reason
    asks_nobody = document(asks=Action.DENY)
    assert decided(case("ls", network=True), asks_nobody).verdict is Verdict.REFUSED


def test_another_runtime_is_an_ask() -> None:
    host = document(runtimes={"allow": ("runsc",)})
    assert decided(case("ls", runtime="runsc"), host).verdict is Verdict.AUTO
    decision = decided(case("ls", runtime="runc"), host)
    assert (decision.verdict, decision.rule) == (Verdict.ASK, "host policy:runtimes")
    assert decided(case("ls", runtime="runc")).verdict is Verdict.ASK


@pytest.mark.parametrize(
    ("wanted", "allowed", "refused_for"),
    [
        ({"env_names": ("FOO",)}, {"env": {"allow": ("LC_*",)}}, "env"),
        ({"env_names": ("FOO",)}, {"env": None}, "env"),
        ({"image": "evil:latest"}, {"images": {"allow": ("good:*",)}}, "images"),
        ({"image": "any"}, {"images": None}, "images"),
        ({"inputs": ("/data2",)}, {"inputs": {"allow": ("/data",)}}, "inputs"),
        ({"inputs": ("/data/../etc",)}, {"inputs": {"allow": ("/data",)}}, "inputs"),
        ({"inputs": ("/data",)}, {}, "inputs"),
    ],
)
def test_what_is_not_on_a_list_is_refused(
    wanted: dict[str, object], allowed: dict[str, object], refused_for: str
) -> None:
    decision = decided(case("ls", **wanted), document(**allowed))
    assert (decision.verdict, decision.rule) == (Verdict.REFUSED, f"host policy:{refused_for}")
    assert decision.advice


def test_what_is_on_a_list_passes_and_a_workspace_may_leave_lists_out() -> None:
    host = document(inputs={"allow": ("/data", "/")})
    mine = document(env=None, images=None)
    wanted = case("ls", inputs=("/data/x",), env_names=("FOO",))
    assert decided(wanted, host, mine).verdict is Verdict.AUTO


def test_a_variable_that_may_change_programs_takes_the_proof_away() -> None:
    assert decided(case("ls")).effect is Effect.READ_ONLY
    assert decided(case("ls", env_names=("LC_ALL", "TZ"))).effect is Effect.READ_ONLY
    assert decided(case("ls", env_names=("PATH",))).effect is Effect.MUTATING


def test_a_policy_can_mount_everything_read_only() -> None:
    assert decided(case("ls"), document(read_only=True)).obligations.read_only
    assert decided(case("ls"), document(), document(read_only=True)).obligations.read_only
    assert not decided(case("ls")).obligations.read_only


def without_consent(command: str, host: Document) -> Decision:
    return decide(case(command), host, None, Authority(principal="ann", workspace="demo"))


def test_a_consent_is_for_these_policies_and_comes_after_refusals() -> None:
    host, changed = document(), document(read_only=True)
    given = authority(host)
    assert decide(case("ls"), host, None, given).verdict is Verdict.AUTO
    decision = decide(case("ls"), changed, None, given)
    assert (decision.verdict, decision.consent) == (Verdict.CONSENT_REQUIRED, None)
    assert decide(case("ls"), host, document(), given).verdict is Verdict.CONSENT_REQUIRED
    assert without_consent("ls", host).verdict is Verdict.CONSENT_REQUIRED
    assert without_consent("git push", host).verdict is Verdict.CONSENT_REQUIRED
    assert without_consent("sudo id", host).verdict is Verdict.REFUSED


def test_a_switched_off_workspace_refuses_and_says_so() -> None:
    host = document()
    decision = decide(case("ls"), host, None, authority(host, execution=False))
    assert decision.verdict is Verdict.REFUSED
    assert "switched off for this workspace" in decision.reason


def test_a_refusal_says_what_and_which_narrower_call_would_pass() -> None:
    decision = decided(case("ls -la && sudo id; cat x"))
    assert decision.reason == (
        "Refused. `sudo id`: Raises privileges. Run it without: commands run as an unprivileged "
        "user, and the workspace is theirs. Nothing speaks against `ls -la`; `cat x` without the "
        "rest."
    )


def test_control_characters_never_reach_a_reason() -> None:
    decision = decided(case("sudo \x1b[31m id\nls"))
    assert decision.reason.isprintable()


def test_the_policy_of_the_checks_lets_probes_run() -> None:
    facts = Facts(tier=Tier.AUTO, effect=Effect.MUTATING)
    assert decided(case(["/probe"], facts=facts), CHECKS).verdict is Verdict.AUTO


def test_a_request_is_judged_by_what_it_names() -> None:
    request = Request.model_validate(
        {
            "argv": ["ls"],
            "env": {"B": "1", "A": "2"},
            "timeout_seconds": 5,
            "limits": {"memory_bytes": 256 * MIB, "pids": 20},
            "stdin": b"x",
            "secrets": {"C": "3"},
            "read_only": True,
            "network": True,
        }
    )
    requested = Requested.of(request, image="i", runtime="runsc")
    assert requested.limits == {"timeout_seconds": 5, "memory_mib": 256, "pids": 20}
    assert (requested.form, requested.env_names) == ("argv", ("A", "B", "C"))
    assert requested.stdin
    assert requested.read_only
    assert requested.network
    assert requested.runtime == "runsc"
    assert requested.expand == frozenset()
    larger = Requested.of(request.model_copy(update={"expand": True}), image="i")
    assert larger.expand == {"timeout_seconds", "memory_mib", "pids"}
    assert Requested.of(Request(command=b"ls"), image="i").limits == {}
    assert screen_argv(["ls"]).tier is Tier.AUTO


def test_an_unresolved_program_may_do_whatever_a_deny_forbids() -> None:
    for when in (When(network=True), When(writes=("/etc/*",)), When(reads=("*.env",))):
        forbidding = rule("no", Action.DENY, when)
        assert match_rule(forbidding, screen("$TOOL x"), "shell").match is Match.MAYBE
        assert match_rule(forbidding, screen("true"), "shell").match is Match.NO
        allowing = rule("yes", Action.ALLOW, when)
        assert match_rule(allowing, screen("$TOOL x"), "shell").match is Match.NO


@pytest.mark.parametrize(
    "limits",
    [
        {"pids": 1.0},
        {"memory_mib": 1.0},
        {"cpus": float("nan")},
        {"timeout_seconds": 0.0},
        {"x": 1},
    ],
)
def test_a_limit_that_cannot_be_enforced_is_never_judged(limits: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="cannot be enforced"):
        case("ls", limits=limits)


def test_nothing_below_an_ask_lifts() -> None:
    lifting = rule("all", Action.ALLOW, ANYTHING, lifts=("*",))
    asked = decided(case("make; git push"), document(ASK_MAKE, lifting))
    assert [each.rule for each in asked.objections] == ["make", "network.use"]
    above = decided(case("make; git push"), document(lifting, ASK_MAKE))
    assert above.verdict is Verdict.AUTO


def test_what_the_operator_set_stands_where_a_request_names_nothing() -> None:
    request = Request.model_validate({"command": b"ls", "limits": {"pids": 20}})
    defaults = limits_of(7.0, Limits(pids=30, memory_bytes=64 * MIB))
    requested = Requested.of(request, image="i", defaults=defaults)
    assert requested.limits == {"timeout_seconds": 7, "pids": 20, "memory_mib": 64}
