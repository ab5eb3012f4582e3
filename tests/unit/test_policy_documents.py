"""Policy files: strict, with the place of every mistake, and true to their own examples."""

from __future__ import annotations

import tomllib
from importlib import resources
from pathlib import Path

import pytest
from tests.policy_samples import document, rule

from sandboxrun.errors import PolicyError
from sandboxrun.policy.document import Action, When
from sandboxrun.policy.examples import decide_example, wrong_examples
from sandboxrun.policy.explain import explain
from sandboxrun.policy.grants import CommandText
from sandboxrun.policy.load import SHIPPED, checked_policy, load_policy, parse_policy
from sandboxrun.policy.positions import Position, position_of
from sandboxrun.screening import screen

HEAD = 'version = 1\nname = "x"\ndescription = "For a test."\n'
RULE = """[[rules]]
id = "pushing"
action = "ask"
reason = "It leaves."
when = { program = ["git"], words = ["push"] }
matches = ["git push"]
not_matches = ["git status"]
"""


def refused(text: str) -> str:
    with pytest.raises(PolicyError) as caught:
        parse_policy(text, source="p.toml")
    return caught.value.message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (HEAD + "maximun = 3\n", "p.toml:4:1: there is no key 'maximun' here."),
        (
            HEAD + "[limits]\ncpus = { default = 1, maximum = 2, celing = 3 }\n",
            "p.toml:5:36: there is no key 'celing' here.",
        ),
        (HEAD + RULE + 'wen = "x"\n', "p.toml:11:1: there is no key 'wen' here."),
        (
            HEAD + RULE + RULE.replace("pushing", "other").replace("program", "pogram"),
            "p.toml:15:10: there is no key 'pogram' here.",
        ),
        ('version = 1\nname = "x"\n', "p.toml:1:1: 'description' is missing."),
        (HEAD + 'asks = "allow"\n', "p.toml:4:1: asks: Input should be 'ask' or 'deny'."),
        (HEAD + 'read_only = "yes"\n', "p.toml:4:1: read_only: Input should be a valid boolean."),
        (
            HEAD + "[limits]\n# é\ncpus = { default = 3, maximum = 2 }\n",
            "p.toml:6:1: limits.cpus: it must be default <= maximum <= ceiling.",
        ),
        (
            HEAD + '[limits]\npids = { default = "9", maximum = 20 }\n',
            "p.toml:5:10: limits.pids.default: Input should be a valid number.",
        ),
        (HEAD + "[limits\n", "p.toml: this is not TOML: Expected ']'"),
        (HEAD + RULE + RULE, "p.toml:1:1: two rules are called 'pushing'."),
        (HEAD + "when = 1979-05-27\n", "p.toml: a value is not text, a number or a list"),
        (HEAD + "x = nan\n", "p.toml: a value is not text, a number or a list"),
    ],
)
def test_a_mistake_is_shown_at_its_place(text: str, said: str) -> None:
    assert refused(text).startswith(said)


@pytest.mark.parametrize(
    ("when", "said"),
    [
        ("{}", "no condition is given; write `any = true`"),
        ('{ any = true, program = ["git"] }', "`any` stands alone"),
        ("{ program = [] }", "`program` is empty, so the rule could never match"),
        ("{ any = false }", "Input should be True"),
    ],
)
def test_a_condition_that_could_mean_anything_is_refused(when: str, said: str) -> None:
    text = HEAD + RULE.replace('{ program = ["git"], words = ["push"] }', when)
    assert said in refused(text)


def test_a_rule_needs_examples_of_both_kinds() -> None:
    assert "not_matches" in refused(HEAD + RULE.replace('not_matches = ["git status"]\n', ""))
    assert "'matches' is missing" in refused(HEAD + RULE.replace('matches = ["git push"]\n', "", 1))


def test_only_an_allow_lifts_findings() -> None:
    assert "only an `allow` rule can lift" in refused(HEAD + RULE + 'lifts = ["network.use"]\n')


@pytest.mark.parametrize(
    "limits",
    [
        "pids = { default = 1, maximum = 1 }",
        "pids = { default = 100.5, maximum = 200 }",
        "memory_mib = { default = 1, maximum = 64 }",
        "timeout_seconds = { default = 1, maximum = 90000 }",
        "cpus = { default = 1, maximum = 1e300 }",
        "output_mib = { default = 1, maximum = 1e300 }",
    ],
)
def test_a_limit_that_cannot_be_enforced_is_refused(limits: str) -> None:
    assert "p.toml:5:1: limits." in refused(HEAD + f"[limits]\n{limits}\n")


@pytest.mark.parametrize("path", ["data", "/data/", "/a/../b", "//a"])
def test_an_input_directory_is_an_absolute_path(path: str) -> None:
    assert "is not an absolute path" in refused(HEAD + f'[inputs]\nallow = ["{path}"]\n')


def load(tmp_path: Path, text: str) -> None:
    file = tmp_path / "p.toml"
    file.write_text(text, encoding="utf-8")
    load_policy(file, screen)


def test_examples_are_checked_when_a_policy_is_loaded(tmp_path: Path) -> None:
    load(tmp_path, HEAD + RULE)
    with pytest.raises(PolicyError, match=r"'pushing' .* does not match its example 'git pull'"):
        load(tmp_path, HEAD + RULE.replace('["git push"]', '["git pull"]'))
    with pytest.raises(PolicyError, match=r"'pushing' .* matches 'ls; git push x'"):
        load(tmp_path, HEAD + RULE.replace('["git status"]', '["ls; git push x"]'))


def test_a_policy_that_is_not_there_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine").write_text(HEAD, encoding="utf-8")
    with pytest.raises(PolicyError, match="no policy 'mine'") as caught:
        load_policy("mine", screen)
    assert "./mine" in caught.value.advice
    assert load_policy("./mine", screen).name == "x"
    with pytest.raises(PolicyError, match="cannot be read: No such file"):
        load_policy("./absent.toml", screen)
    Path("bytes.toml").write_bytes(b"\xff")
    with pytest.raises(PolicyError, match="not UTF-8 at byte 0"):
        load_policy("bytes.toml", screen)
    Path("big.toml").write_bytes(b"#" * (1 << 21))
    with pytest.raises(PolicyError, match="no policy has"):
        load_policy("big.toml", screen)


def test_the_checks_policy_cannot_be_named() -> None:
    with pytest.raises(PolicyError, match="no policy 'checks'"):
        load_policy("checks", screen)


def test_a_position_is_found_through_every_kind_of_table() -> None:
    text = 'a.b = 1\n[[r]]\nx = 1\n[[r]]\n[r.w]\n"q" = ["é", { z = 2 }] # c\n'
    assert position_of(text, ("a", "b")) == Position(1, 1)
    assert position_of(text, ("r", 0, "x")) == Position(3, 1)
    assert position_of(text, ("r", 1, "w", "q", 0)) == Position(6, 8)
    assert position_of(text, ("r", 1, "w", "q", 1, "z")) == Position(6, 15)
    assert position_of(text, ("r", 1, "other")) == Position(4, 1)
    assert position_of(text, ("nothing",)) == Position(1, 1)


def test_texts_for_people_do_not_change_a_digest() -> None:
    base = document()
    assert base.digest() == document(description="Other words.").digest()
    assert (
        base.digest()
        == document(rule("everything", Action.ALLOW, When(any=True), reason="R.")).digest()
    )
    changed = [
        document(asks="deny"),
        document(screening_asks="deny"),
        document(read_only=True),
        document(rule("everything", Action.ASK, When(any=True))),
        document(questions={"deadline_seconds": 1.0}),
    ]
    assert len({each.digest() for each in (base, *changed)}) == 1 + len(changed)


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_policy_decides_as_its_table_says(name: str) -> None:
    policy = load_policy(name, screen)
    table = policy.examples
    assert len({*table.auto, *table.ask, *table.refused}) >= 40
    assert [
        (wrong.command, wrong.expected, wrong.decision.verdict, wrong.decision.reason)
        for wrong in wrong_examples(policy, screen)
    ] == []


def test_the_shipped_policies_are_what_they_are_called() -> None:
    tables = {name: load_policy(name, screen).examples for name in SHIPPED}
    assert tables["strict"].auto == ()
    assert tables["ci"].ask == ()
    assert tables["rollout"].ask == ()
    directory = resources.files("sandboxrun") / "_data" / "policies"
    assert {entry.name for entry in directory.iterdir()} == {f"{name}.toml" for name in SHIPPED}


def test_a_table_that_is_wrong_is_found() -> None:
    wrong = document(examples={"auto": ["git push", "ls"], "ask": ["rm -rf src"]})
    assert [each.command for each in wrong_examples(wrong, screen)] == ["git push"]


EXPLAINED = [
    ("default", "ls -la", "AUTO", "Nothing in it is forbidden"),
    ("default", "pytest -q && rm -rf build", "AUTO", "Nothing in it is forbidden"),
    ("default", "git push origin main", "ASK", "Needs the network."),
    ("default", "ls && sudo id", "REFUSED", "Raises privileges."),
    ("default", "rm -rf src", "ASK", "Deletes a directory that no build makes again."),
    ("default", "$TOOL --version", "ASK", "Which program runs is known only at run time."),
    ("strict", "ls", "ASK", "Under this policy a person reads every command before it runs."),
    ("strict", "npm publish", "REFUSED", "Publishing and deploying are done by people"),
    ("ci", "make check", "AUTO", "Nothing in it is forbidden"),
    ("ci", "rm -rf src", "REFUSED", "Deletes a directory that no build makes again."),
    ("rollout", "rm -rf src", "AUTO", "Nothing in it is forbidden"),
    ("rollout", "cat ~/.ssh/id_rsa", "REFUSED", "Touches credentials outside the workspace."),
]


@pytest.mark.parametrize(("name", "command", "heading", "why"), EXPLAINED)
def test_an_explanation_is_clear_by_itself(name: str, command: str, heading: str, why: str) -> None:
    policy, facts = load_policy(name, screen), screen(command)
    text = explain(
        decide_example(policy, command, facts),
        CommandText("shell", (command.encode(),)),
        facts,
        policies=(f"host policy {name!r}",),
    )
    assert text.splitlines()[0].startswith(f"{heading}: ")
    assert f"  {command}\n" in text
    assert why in text
    assert f"Judged under: host policy {name!r}." in text
    assert ("^" in text) == (heading != "AUTO" and command != "ls")


def test_toml_of_the_repository_is_what_is_packaged() -> None:
    packaged = resources.files("sandboxrun") / "_data" / "policies"
    for name in SHIPPED:
        source = Path(__file__).parents[2] / "policies" / f"{name}.toml"
        text = (packaged / f"{name}.toml").read_text(encoding="utf-8")
        assert tomllib.loads(text) == tomllib.loads(source.read_text(encoding="utf-8"))


def test_the_documented_policy_is_true_to_its_examples() -> None:
    page = (Path(__file__).parents[2] / "docs" / "policy.md").read_text(encoding="utf-8")
    text = page.partition("```toml\n")[2].partition("```")[0]
    documented = checked_policy(text, screen, source="docs/policy.md")
    assert list(wrong_examples(documented, screen)) == []
    assert '\nname = "ours"\n' in text
