"""An 'always' covers what was shown, and nothing that only looks like it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.policy_samples import case, decided

from sandboxrun.policy.decide import Case
from sandboxrun.policy.decision import Verdict
from sandboxrun.policy.grants import Grant, Pattern, offered_pattern


def offered(judged: Case) -> Pattern | None:
    decision = decided(judged)
    assert decision.verdict is Verdict.ASK
    return offered_pattern(judged.command, judged.facts, judged.requested, decision.objections)


def always(command: str | list[str], **wanted: object) -> Grant:
    """Return the grant that an 'always' to a command gives."""
    judged = case(command, **wanted)  # type: ignore[arg-type]
    pattern = offered(judged)
    assert pattern is not None
    return Grant(
        grant_id="grant-1",
        principal="ann",
        workspace="demo",
        pattern=pattern,
        lifts=frozenset(each.key for each in decided(judged).objections),
        env_names=judged.requested.env_names,
    )


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("npm install left-pad", "npm install OPERAND…"),
        ("pip install -U requests", "pip install -U OPERAND…"),
        ("git push origin main", "git push OPERAND…"),
        ("  npm  install left-pad ", "npm install OPERAND…"),
        (["npm", "install", "left-pad"], "npm install OPERAND…"),
        ("npm install", "npm install"),
        ("'npm' install left-pad", "'npm' install left-pad"),
        ("n\\pm install left-pad", "n\\pm install left-pad"),
        ("npm install 'left-pad'", "npm install 'left-pad'"),
        ("npm install left-pad > log", "npm install left-pad > log"),
        ("FOO=1 npm install left-pad", "FOO=1 npm install left-pad"),
        ("npm install left-pad && ls", "npm install left-pad && ls"),
        ("/usr/bin/npm install left-pad", "/usr/bin/npm install left-pad"),
        ("npm --prefix=x install left-pad", "npm --prefix=x install left-pad"),
        ("rm -rf src", "rm -rf src"),
        ("git reset --hard", "git reset --hard"),
        ("curl https://example.com", "curl https://example.com"),
        ("git push origin +main", "git push origin +main"),
        ("pip install ../x", "pip install ../x"),
    ],
)
def test_what_is_offered_is_no_wider_than_what_is_safe(
    command: str | list[str], shown: str
) -> None:
    pattern = offered(case(command))
    assert pattern is not None
    assert pattern.shown == shown
    assert (pattern.kind == "operands") == shown.endswith("OPERAND…")


@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        ("$TOOL install x", {}),
        ("npm install $PACKAGE", {}),
        ("git push $(cat branch)", {}),
        ("git push", {"stdin": True}),
        ("ls", {"runtime": "runc"}),
        ("git push", {"runtime": "runc"}),
    ],
)
def test_nothing_is_offered_for_what_is_unknown_or_more(
    command: str, wanted: dict[str, object]
) -> None:
    assert offered(case(command, **wanted)) is None


INSTALL = "npm install left-pad"


@pytest.mark.parametrize(
    "command",
    ["npm install right-pad", "npm install a b@1.2", "npm install @scope/x", "npm  install   y"],
)
def test_an_operand_pattern_covers_other_operands(command: str) -> None:
    decision = decided(case(command), grants=[always(INSTALL)])
    assert (decision.verdict, decision.grant) == (Verdict.AUTO, "grant-1")
    assert decision.objections == ()


@pytest.mark.parametrize(
    "command",
    [
        "npm install -g left-pad",
        "npm install --prefix=/etc left-pad",
        "npm install",
        "npm ci left-pad",
        "pip install left-pad",
        "npm install left-pad; npm install x",
        "npm install left-pad && ls",
        "npm install left-pad > out",
        "npm install left-pad | cat",
        "npm install left-pad &",
        "PATH=. npm install left-pad",
        "FOO=1 npm install left-pad",
        "npm install $X",
        "npm install $(id)",
        "npm install `id`",
        "npm install {a,b}",
        "npm install *",
        "npm install ~/x",
        "npm install /etc",
        "npm install ../x",
        "npm install a/../../x",
        "npm install https://example.com/x.tgz",
        "npm install git+ssh://x",
        "npm install 'x'",
        'npm install "x"',
        "npm install x\nls",
        "npm install x # y",
        "./npm install x",
        "'npm' install x",
        "time npm install x",
        "sudo npm install x",
        "env npm install x",
        "bash -c 'npm install x'",
    ],
)
def test_an_operand_pattern_covers_nothing_else(command: str) -> None:
    decision = decided(case(command), grants=[always(INSTALL)])
    assert decision.verdict is not Verdict.AUTO
    assert decision.grant is None


def test_an_exact_pattern_covers_the_same_bytes_in_the_same_directory() -> None:
    grant = always("rm -rf src", cwd="/workspace")
    covered = decided(case("rm -rf src", cwd="/workspace"), grants=[grant])
    assert covered.verdict is Verdict.AUTO
    for other in (
        case("rm -rf src ", cwd="/workspace"),
        case("rm -rf src", cwd="/workspace/x"),
        case("rm -rf lib", cwd="/workspace"),
        case(["rm", "-rf", "src"], cwd="/workspace"),
    ):
        assert decided(other, grants=[grant]).verdict is Verdict.ASK


def test_an_argv_is_not_a_script_and_its_parts_are_not_joined() -> None:
    grant = always(["rm", "-rf", "src"])
    assert decided(case(["rm", "-rf", "src"]), grants=[grant]).verdict is Verdict.AUTO
    assert decided(case("rm -rf src"), grants=[grant]).verdict is Verdict.ASK
    joined = case(["rm", "-rf", "src"]).command.digest()
    assert joined != case(["rm", "-rf src"]).command.digest()


def test_a_grant_is_for_its_asks_principal_workspace_and_variables() -> None:
    grant = always(INSTALL)
    judged = case(INSTALL)
    assert decided(judged, grants=[grant]).verdict is Verdict.AUTO
    narrowed = [
        grant.model_copy(update={"lifts": frozenset({"screening:other"})}),
        grant.model_copy(update={"principal": "bob"}),
        grant.model_copy(update={"workspace": "other"}),
    ]
    assert decided(judged, grants=narrowed).verdict is Verdict.ASK
    both = case("npm install x && rm -rf src")
    whole = always("npm install x && rm -rf src")
    assert decided(both, grants=[whole]).verdict is Verdict.AUTO
    halves = [whole.model_copy(update={"lifts": frozenset({key})}) for key in whole.lifts]
    assert len(halves) == 2
    assert decided(both, grants=halves).verdict is Verdict.ASK
    with_env = case(INSTALL, env_names=("NODE_OPTIONS",))
    assert decided(with_env, grants=[grant]).verdict is Verdict.ASK
    given_env = always(INSTALL, env_names=("NODE_OPTIONS",))
    assert decided(with_env, grants=[given_env]).verdict is Verdict.AUTO
    assert decided(case(INSTALL, stdin=True), grants=[grant]).verdict is Verdict.ASK
    assert decided(case(INSTALL, runtime="runc"), grants=[grant]).verdict is Verdict.ASK


@settings(max_examples=200, deadline=None)
@given(st.text(st.sampled_from("npm instalx-@/.$`'\"\\;&|>()*{}=#\n\t"), max_size=12))
def test_whatever_follows_an_operand_pattern_is_plain_operands(rest: str) -> None:
    command = f"npm install {rest}"
    if not rest.strip():
        return
    judged = case(command)
    if decided(judged, grants=[always(INSTALL)]).grant is not None:
        operands = rest.split(" ")
        assert all(
            not word or (word[0] not in "-/$" and not set(word) & set("$`'\"\\;&|>()*{}#\n\t"))
            for word in operands
        )
