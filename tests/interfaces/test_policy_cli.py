"""``policy``, ``approvals``, ``grants`` and ``consent`` on the command line."""

from __future__ import annotations

import json
import os
import pty
import sqlite3
import tempfile
import termios
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import anyio
import pytest
import typer
from tests.approval_world import World, opened_world
from typer.testing import CliRunner, Result

from sandboxrun.approval.approvals import Approval
from sandboxrun.approval.authorise import Permit, authorise
from sandboxrun.approval.consents import Consents
from sandboxrun.approval.question import Answer, Question
from sandboxrun.errors import PolicyError, UnknownWorkspaceError, UsageError
from sandboxrun.interfaces.cli import approvals, consent, grants, policy
from sandboxrun.interfaces.cli.access import access_command
from sandboxrun.interfaces.cli.terminal_approver import _Person, terminal_approver
from sandboxrun.policy.load import load_policy
from sandboxrun.screening import screen
from sandboxrun.state.opening import DATABASE

T = TypeVar("T")


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SANDBOXRUN_STATE_DIR", str(tmp_path / "s"))
    monkeypatch.setenv("SANDBOXRUN_CONFIG", str(tmp_path / "none.toml"))
    monkeypatch.setenv("SANDBOXRUN_PRINCIPAL", "ann")
    monkeypatch.setenv("COLUMNS", "250")
    return tmp_path / "s"


def call(*arguments: str) -> Result:
    """Run a command; a fault is raised as it would reach the outermost handler."""
    app = typer.Typer()
    for module in (policy, approvals, grants, consent):
        app.add_typer(module.app)
    app.command("access")(access_command)
    result = CliRunner().invoke(app, arguments)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def having(state: Path, work: Callable[[World], Awaitable[T]]) -> T:
    async def within() -> T:
        async with opened_world(state) as world:
            return await work(world)

    return anyio.run(within)


async def put(world: World) -> Approval:
    now = await world.evaluate()
    return await world.approvals.ask(now.question, digest=now.bound.digest(), deadline_seconds=600)


def test_check_says_what_holds_and_what_does_not(state: Path, tmp_path: Path) -> None:
    assert "72 rows of the table are right" in call("policy", "check", "default").stdout
    told = json.loads(call("policy", "check", "ci", "--json").stdout)
    assert (told["name"], told["rules"], told["digest"]) == (
        "ci",
        2,
        load_policy("ci", screen).digest(),
    )
    wrong = tmp_path / "wrong.toml"
    shipped = Path(__file__).parents[2] / "policies" / "rollout.toml"
    wrong.write_text(shipped.read_text(encoding="utf-8").replace("ask = []", 'ask = ["ls"]'))
    with pytest.raises(PolicyError, match="1 of its examples") as caught:
        call("policy", "check", str(wrong))
    assert "ls\n    must be ask, is auto" in caught.value.message
    assert caught.value.exit_status == 2
    assert not state.exists()


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["git push && ls"], "  git push && ls\n  ^^^"),
        (["--", "git push && ls"], "  git push && ls\n  ^^^"),
        (["--", "git", "push"], "  git push\n  ^^^"),
        (["--policy", "strict", "--", "ls"], "the host policy 'strict' (strict)"),
        (["--workspace-policy", "ci", "git push"], "REFUSED: "),
        (["--network", "ls"], "by `network` of the host policy"),
        (["--runtime", "runc", "ls"], "by `runtimes` of the host policy"),
        (["-e", "FOO=1", "ls"], "Effect: may change the workspace."),
    ],
)
def test_explain_judges_what_it_is_given(state: Path, arguments: list[str], shown: str) -> None:
    assert shown in call("policy", "explain", *arguments).stdout
    assert not state.exists()


def test_explain_gives_the_decision_as_json_and_wants_one_command(state: Path) -> None:
    told = json.loads(call("policy", "explain", "--json", "sudo id").stdout)
    assert (told["verdict"], told["tier"], told["rule"]) == (
        "refused",
        "never",
        "screening:privilege.raise",
    )
    assert told["objections"][0]["spans"] == [[0, 7]]
    for arguments in ([], ["ls", "--", "ls"], ["--"]):
        with pytest.raises(UsageError):
            call("policy", "explain", *arguments)
    assert not state.exists()


def test_the_settings_name_the_policy(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SANDBOXRUN_POLICY", "strict")
    assert "ASK: " in call("policy", "explain", "ls").stdout
    assert not state.exists()


def test_a_question_is_listed_and_answered_once(state: Path) -> None:
    async def work(world: World) -> None:
        asked = await put(world)
        listed = call_inside("approvals", "list")
        assert asked.approval_id in listed
        assert "git push origin main\n  ^^^^^^^^^^^^^^^^^^^^ 1" in listed
        (told,) = json.loads(call_inside("approvals", "list", "--json"))
        assert (told["approval_id"], told["request_digest"], told["always"]["shown"]) == (
            asked.approval_id,
            asked.request_digest,
            "git push OPERAND…",
        )
        denied = call_inside("approvals", "deny", asked.approval_id, "--reason", "Not today.")
        assert denied == "It is denied.\n"
        ended = await world.approvals.get(asked.approval_id)
        assert (ended.answer, ended.answered_by, ended.reason) == ("denied", "ann", "Not today.")
        again = call_inside("approvals", "approve", asked.approval_id, "--json", status=1)
        assert json.loads(again)["result"] == "answered_before"
        assert call_inside("approvals", "list") == "Nothing waits for an answer.\n"

    having(state, work)


def call_inside(*arguments: str, status: int = 0) -> str:
    """Run a command while an event loop runs here: it needs a thread of its own."""
    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(call, *arguments).result()
    assert result.exit_code == status, result.output
    return result.stdout


def test_an_always_becomes_a_grant_that_can_be_taken_back(state: Path) -> None:
    async def work(world: World) -> None:
        asked = await put(world)
        said = call_inside("approvals", "approve", asked.approval_id, "--always")
        assert said == "It is allowed and will not be asked again.\n"
        permit = await authorise(world.evaluate, world.approvals)
        assert isinstance(permit, Permit)
        (told,) = json.loads(call_inside("grants", "list", "--json"))
        assert (told["grant_id"], told["given_by"]) == (permit.decision.grant, "ann")
        assert "git push OPERAND…" in call_inside("grants", "list")
        assert told["workspace_name"] is None
        name_workspace(state, "demo", "the name")
        assert "the name" in call_inside("grants", "list")
        assert call_inside("grants", "revoke", told["grant_id"]) == "It is taken back.\n"
        assert "before" in call_inside("grants", "revoke", told["grant_id"])
        assert json.loads(call_inside("grants", "list", "--json")) == []
        assert told["grant_id"] in call_inside("grants", "list", "--all")
        world.command = "$TOOL"
        other = await put(world)
        with pytest.raises(UsageError, match="offers no 'always'"):
            call_inside("approvals", "approve", other.approval_id, "--always")

    having(state, work)


def name_workspace(state: Path, workspace_id: str, name: str) -> None:
    """Add a row for a workspace, whatever else the table wants to know of one."""
    with sqlite3.connect(state / DATABASE) as database:
        columns = database.execute("PRAGMA table_info(workspaces)").fetchall()
        row: dict[str, object] = {
            column: 0 if kind == "INTEGER" else "x"
            for _, column, kind, required, default, _ in columns
            if required and default is None
        }
        row |= {"workspace_id": workspace_id, "name": name}
        marks = ", ".join("?" * len(row))
        database.execute(
            f"INSERT INTO workspaces ({', '.join(row)}) VALUES ({marks})",  # noqa: S608 - a test's own
            tuple(row.values()),
        )
    database.close()


def test_a_consent_is_for_a_workspace_and_the_policies_in_force(state: Path) -> None:
    having(state, World.evaluate)
    with pytest.raises(UnknownWorkspaceError, match="'mine'"):
        call("consent", "give", "mine")
    name_workspace(state, "ws-1", "mine")
    shown = call("consent", "show", "mine")
    assert shown.exit_code == 1
    assert "Nobody has accepted policies for ann in mine." in shown.stdout
    given = json.loads(call("consent", "give", "mine", "--json").stdout)
    assert given["consent"]["digests"] == given["in_force"]
    assert call("consent", "show", "mine").exit_code == 0
    changed = call("consent", "show", "mine", "--policy", "strict")
    assert changed.exit_code == 1
    assert "Other policies were accepted" in changed.stdout
    assert call("consent", "show", "mine", "--principal", "eve").exit_code == 1
    assert call("consent", "give", "mine", "--policy", "strict").exit_code == 0
    assert call("consent", "show", "mine").exit_code == 1


def test_a_workspace_gets_a_policy_of_its_own(state: Path, tmp_path: Path) -> None:
    having(state, World.evaluate)
    name_workspace(state, "ws-1", "mine")
    assert call("consent", "give", "mine").exit_code == 0
    attached = call("policy", "attach", "mine", "strict").stdout
    assert "now has the policy 'strict'" in attached
    assert call("consent", "show", "mine").exit_code == 1
    told = json.loads(call("consent", "give", "mine", "--json").stdout)
    assert told["in_force"] == {
        "host_policy": load_policy("default", screen).digest(),
        "workspace_policy": load_policy("strict", screen).digest(),
    }
    assert call("consent", "show", "mine").exit_code == 0
    broken = tmp_path / "broken.toml"
    broken.write_text("version = 1", encoding="utf-8")
    with pytest.raises(PolicyError, match="is missing"):
        call("policy", "attach", "mine", str(broken))
    assert call("consent", "show", "mine").exit_code == 0
    assert "Only the host's" in call("policy", "detach", "mine").stdout
    assert "had no policy" in call("policy", "detach", "mine").stdout
    assert call("consent", "show", "mine").exit_code == 1
    with pytest.raises(UnknownWorkspaceError, match="'other'"):
        call("policy", "attach", "other", "strict")


def test_the_switch_of_a_workspace(state: Path) -> None:
    having(state, World.evaluate)
    name_workspace(state, "ws-1", "mine")

    async def execution(world: World) -> bool:
        consents = Consents(world.store)
        return (await consents.authority(principal="ann", workspace="ws-1")).execution

    assert having(state, execution)
    assert call("access", "mine", "off").stdout == "Commands are refused in mine.\n"
    assert not having(state, execution)
    assert call("access", "mine", "on").exit_code == 0
    assert having(state, execution)
    assert call("access", "mine", "maybe").exit_code == 2


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    ours, theirs = pty.openpty()
    quiet = termios.tcgetattr(theirs)
    quiet[3] &= ~termios.ECHO
    termios.tcsetattr(theirs, termios.TCSANOW, quiet)
    try:
        yield ours, theirs
    finally:
        os.close(ours)
        os.close(theirs)


def read_until(ours: int, end: bytes) -> bytes:
    """Return what the terminal shows, up to the last thing it is expected to show."""
    shown = b""
    while end not in shown:
        shown += os.read(ours, 1 << 16)
    return shown


def question(command: str = "git push origin main") -> Question:
    async def work() -> Question:
        with tempfile.TemporaryDirectory() as directory:
            async with opened_world(Path(directory) / "s") as world:
                world.command = command
                return (await world.evaluate()).question

    return anyio.run(work)


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("a\n", Answer(approved=True, by="ann")),
        ("always\n", Answer(approved=True, by="ann", always=True)),
        ("d\n", Answer(approved=False, by="ann")),
        (
            "d Not before 'main' is green. \n",
            Answer(approved=False, by="ann", reason="Not before 'main' is green."),
        ),
        ("yes\n\nA\na b\nd no\n", Answer(approved=False, by="ann", reason="no")),
        ("\x04", Answer(approved=False, by="ann", reason="The terminal was closed.")),
    ],
)
def test_the_person_at_the_terminal_is_asked(
    terminal: tuple[int, int], typed: str, answer: Answer
) -> None:
    ours, theirs = terminal
    os.write(ours, typed.encode())
    assert anyio.run(_Person(theirs, "ann").ask, question()) == answer
    shown = read_until(ours, b"\r\n> ").decode().replace("\r\n", "\n")
    assert "ann wants to run this in demo:" in shown
    assert "  git push origin main\n  ^^^^^^^^^^^^^^^^^^^^ 1\n" in shown
    assert "always    allow this from now on: git push OPERAND…\n" in shown


def test_what_is_not_offered_is_not_taken(terminal: tuple[int, int]) -> None:
    ours, theirs = terminal
    os.write(ours, b"always\nd\n")
    answer = anyio.run(_Person(theirs, "ann").ask, question("$TOOL \x1b[2J"))
    assert not answer.approved
    shown = read_until(ours, b"\r\n> ")
    assert b"always" not in shown
    assert b"\x1b" not in shown


def test_a_question_can_be_withdrawn_from_the_terminal(terminal: tuple[int, int]) -> None:
    ours, theirs = terminal
    asked = question()

    async def work() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_Person(theirs, "ann").ask, asked)
            with anyio.fail_after(30):
                await anyio.wait_readable(ours)
            tasks.cancel_scope.cancel()

    anyio.run(work)
    assert read_until(ours, b"withdrawn or answered elsewhere")


def test_without_a_terminal_nobody_is_asked() -> None:
    async def work() -> None:
        async with terminal_approver("ann") as approver:
            assert approver is None

    anyio.run(work)
