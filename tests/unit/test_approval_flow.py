"""From a decision to a permit and to the launch: every order, one outcome."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.approval_world import World, opened_world
from tests.policy_samples import ALLOW_ALL, document, rule

from sandboxrun.approval.approvals import Answered, Approvals, Heard, boot_clock, close_ended
from sandboxrun.approval.authorise import (
    NOBODY_TO_ASK,
    Changed,
    Ending,
    Permit,
    Stopped,
    authorise,
    confirm,
)
from sandboxrun.approval.consents import Consents, forget_workspace
from sandboxrun.approval.grants import Grants
from sandboxrun.approval.question import Answer, Approver, Question, operator_approver
from sandboxrun.approval.workspace_policies import WorkspacePolicies, inherit_restrictions
from sandboxrun.errors import EngineError, PolicyError, StateError, UnknownApprovalError
from sandboxrun.policy.document import Action, Range, Ranges, When
from sandboxrun.state.runs import Runs

pytestmark = pytest.mark.anyio

YES = Answer(approved=True, by="bob")


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with opened_world(tmp_path / "s") as opened:
        yield opened


def saying(**answer: Any) -> Approver:
    async def approve(question: Question) -> Answer:
        del question
        return Answer(**({"by": "bob"} | answer))

    return approve


async def permitted(world: World, approver: Approver | None = None) -> Permit:
    chosen = saying(approved=True) if approver is None else approver
    ended = await authorise(world.evaluate, world.approvals, approver=chosen)
    assert isinstance(ended, Permit), ended
    return ended


async def stopped(world: World, **how: Any) -> Stopped:
    ended = await authorise(world.evaluate, world.approvals, **how)
    assert isinstance(ended, Stopped), ended
    return ended


async def test_what_needs_no_question_is_permitted_and_confirmed(world: World) -> None:
    world.command = "ls"
    permit = await permitted(world)
    assert permit.approval_id is None
    assert await confirm(permit, world.evaluate, world.approvals) is None
    assert await world.approvals.pending() == ()


async def test_a_yes_permits_one_launch(world: World) -> None:
    permit = await permitted(world)
    assert permit.approved_by == "bob"
    assert permit.approval_id is not None
    row = await world.approvals.get(permit.approval_id)
    assert (row.answer, row.run_id, row.redeemed_at) == (Answered.APPROVED, world.run_id, None)
    assert await confirm(permit, world.evaluate, world.approvals) is None
    assert (await world.approvals.get(permit.approval_id)).redeemed_at is not None
    assert await confirm(permit, world.evaluate, world.approvals) == Changed()


async def test_the_operator_can_say_yes_beforehand(world: World) -> None:
    permit = await permitted(world, operator_approver("ann at this terminal"))
    assert permit.approved_by == "ann at this terminal"


async def test_a_human_no_reaches_the_model_word_for_word(world: World) -> None:
    words = "Not before the tests pass; 'ask' me after.\nReally."
    ended = await stopped(world, approver=saying(approved=False, reason=words))
    assert ended.ending is Ending.APPROVAL_DENIED
    assert words in ended.reason
    assert "`git push origin main`: Needs the network." in ended.reason
    assert "use what the image and the workspace already hold" in ended.reason


async def test_without_anybody_to_ask_it_is_denied_at_once(world: World) -> None:
    ended = await stopped(world)
    assert ended.ending is Ending.APPROVAL_DENIED
    assert NOBODY_TO_ASK in ended.reason
    assert "--approve" in ended.reason
    assert "--wait-approval" in ended.reason
    assert await world.approvals.pending() == ()


async def test_silence_is_a_no(world: World) -> None:
    ended = await stopped(world, wait_seconds=0.01)
    assert ended.ending is Ending.APPROVAL_EXPIRED
    assert "Nobody answered within 0.01 s, which means no." in ended.reason
    assert ended.approval_id is not None
    late = await world.approvals.answer(ended.approval_id, YES)
    assert late is Heard.EXPIRED
    assert (await world.approvals.get(ended.approval_id)).answer is Answered.EXPIRED


async def test_the_policys_deadline_bounds_every_wait(world: World) -> None:
    world.host = document(questions={"deadline_seconds": 0.02})
    await world.consent()
    ended = await stopped(world, wait_seconds=3600.0)
    assert ended.ending is Ending.APPROVAL_EXPIRED


async def test_the_never_list_is_beyond_approval(world: World) -> None:
    world.command = "sudo id"
    ended = await stopped(world, approver=saying(approved=True))
    assert ended.ending is Ending.REFUSED
    assert ended.approval_id is None


async def test_waiting_takes_nothing_from_the_time_limit(world: World) -> None:
    """Sixty seconds pass, by the clock the deadline runs on, before somebody says yes."""
    world.requested = {"limits": {"timeout_seconds": 5.0}}
    moved = [0]

    async def slowly(question: Question) -> Answer:
        moved[0] = 60 * 1_000_000_000
        assert question.obligations.timeout_seconds == 5.0
        return YES

    approvals = Approvals(world.store, clock=lambda: boot_clock() + moved[0])
    permit = await authorise(world.evaluate, approvals, approver=slowly)
    assert isinstance(permit, Permit)
    assert permit.decision.obligations.timeout_seconds == 5.0
    assert await confirm(permit, world.evaluate, approvals) is None


CHANGES: dict[str, dict[str, Any]] = {
    "command": {"command": "git push origin other"},
    "cwd": {"cwd": "/workspace/sub"},
    "principal": {"principal": "eve"},
    "workspace": {"workspace": "other"},
    "conversation": {"conversation": "c-2"},
    "image": {"image_id": "sha256:2"},
    "image name": {"requested": {"image": "sandboxrun/workspace:other"}},
    "environment names": {"env": {"FOO": "d1"}},
    "limits": {"requested": {"limits": {"pids": 64.0}}},
    "timeout": {"requested": {"limits": {"timeout_seconds": 9.0}}},
    "runtime": {"requested": {"runtime": "runc"}},
    "read-only": {"requested": {"read_only": True}},
    "inputs": {"requested": {"inputs": ("/data/x",)}},
    "standard input": {"stdin": "0" * 64},
    "run": {"run_id": "run-other"},
    "host policy": {"host": document(ALLOW_ALL, read_only=True)},
    "workspace policy": {"workspace_policy": document()},
}


@pytest.mark.parametrize("name", CHANGES)
async def test_an_approval_never_lets_anything_else_through(world: World, name: str) -> None:
    permit = await permitted(world)
    other = replace(world, **CHANGES[name])
    # A consent alone must not be what stops it.
    await other.consent()
    assert await confirm(permit, other.evaluate, world.approvals) == Changed()
    assert permit.approval_id is not None
    assert (await world.approvals.get(permit.approval_id)).redeemed_at is None
    await world.consent()
    assert await confirm(permit, world.evaluate, world.approvals) is None


async def test_the_value_of_a_variable_is_bound(world: World) -> None:
    world.env = {"FOO": "keyed-digest-1"}
    permit = await permitted(world)
    world.env = {"FOO": "keyed-digest-2"}
    assert await confirm(permit, world.evaluate, world.approvals) == Changed()


async def test_the_snapshot_and_other_runs_are_not_bound(world: World) -> None:
    permit = await permitted(world)
    world.snapshot = "snap-2"
    other = await world.another_run()
    assert await confirm(await permitted(other), other.evaluate, other.approvals) is None
    await Runs(world.store).settle(other.run_id, status="succeeded", outcome_json="{}")
    assert await confirm(permit, world.evaluate, world.approvals) is None


async def test_what_changes_while_asked_is_asked_again(world: World) -> None:
    asked: list[str] = []

    async def changing(question: Question) -> Answer:
        asked.append(question.command)
        if len(asked) == 1:
            world.command = "git push origin changed"
        return YES

    permit = await permitted(world, changing)
    assert asked == ["git push origin main", "git push origin changed"]
    assert permit.approval_id is not None
    row = await world.approvals.get(permit.approval_id)
    assert row.question.command == "git push origin changed"


async def test_what_never_stops_changing_is_denied(world: World) -> None:
    count = [0]

    async def changing(question: Question) -> Answer:
        del question
        count[0] += 1
        world.command = f"git push origin main{count[0]}"
        return YES

    ended = await stopped(world, approver=changing)
    assert ended.ending is Ending.APPROVAL_DENIED
    assert "kept changing" in ended.reason
    assert count[0] < 20


async def test_a_policy_that_changes_while_asked_wants_a_consent_again(world: World) -> None:
    async def changing(question: Question) -> Answer:
        del question
        world.host = document(ALLOW_ALL, read_only=True)
        return YES

    ended = await stopped(world, approver=changing)
    assert ended.ending is Ending.CONSENT_REQUIRED
    assert "consent give" in ended.reason
    await world.consent()
    assert isinstance(await permitted(world), Permit)


async def test_a_policy_that_changes_after_the_permit_stops_the_launch(world: World) -> None:
    permit = await permitted(world)
    world.host = document(rule("no", Action.DENY, When(any=True)))
    assert await confirm(permit, world.evaluate, world.approvals) == Changed()
    assert (await stopped(world)).ending is Ending.REFUSED


async def test_execution_can_be_switched_off_until_the_last_moment(world: World) -> None:
    permit = await permitted(world)
    consents = Consents(world.store)
    await consents.set_access("demo", allowed=False, by="ann")
    assert await confirm(permit, world.evaluate, world.approvals) == Changed()
    ended = await stopped(world, approver=saying(approved=True))
    assert (ended.ending, ended.decision.rule) == (Ending.REFUSED, "workspace access:access")
    await consents.set_access("demo", allowed=True, by="ann")
    assert await confirm(permit, world.evaluate, world.approvals) is None


async def test_a_consent_that_is_taken_back_stops_the_launch(world: World) -> None:
    world.command = "ls"
    permit = await permitted(world)
    consents = Consents(world.store)
    assert await consents.revoke(principal="ann", workspace="demo")
    assert not await consents.revoke(principal="ann", workspace="demo")
    assert await confirm(permit, world.evaluate, world.approvals) == Changed()
    assert (await stopped(world)).ending is Ending.CONSENT_REQUIRED


async def test_a_consent_is_for_one_principal_and_workspace(world: World) -> None:
    for other in (replace(world, principal="eve"), replace(world, workspace="other")):
        assert (await stopped(other)).ending is Ending.CONSENT_REQUIRED
    latest = await Consents(world.store).latest(principal="ann", workspace="demo")
    assert latest is not None
    assert (latest.given_by, latest.workspace) == ("ann", "demo")


async def test_an_always_is_used_until_it_is_revoked(world: World) -> None:
    first = await permitted(world, saying(approved=True, always=True))
    grants = Grants(world.store)
    (row,) = await grants.list()
    assert (row.given_by, row.grant.pattern.shown) == ("bob", "git push OPERAND…")
    assert first.decision.grant == row.grant.grant_id
    world.command = "git push origin topic"
    permit = await permitted(world)
    assert (permit.approval_id, permit.decision.grant) == (None, row.grant.grant_id)
    assert await confirm(permit, world.evaluate, world.approvals) is None
    assert await grants.revoke(row.grant.grant_id)
    assert not await grants.revoke(row.grant.grant_id)
    assert await confirm(permit, world.evaluate, world.approvals) == Changed()
    assert (await stopped(world)).ending is Ending.APPROVAL_DENIED
    assert await grants.list() == ()
    assert [each.grant.grant_id for each in await grants.list(revoked=True)] == [row.grant.grant_id]
    with pytest.raises(UnknownApprovalError, match="'grant-x'"):
        await grants.revoke("grant-x")


async def test_an_always_is_for_one_principal_and_workspace(world: World) -> None:
    await permitted(world, saying(approved=True, always=True))
    for other in (replace(world, principal="eve"), replace(world, workspace="other")):
        await other.consent()
        assert (await stopped(other)).ending is Ending.APPROVAL_DENIED


async def test_a_larger_maximum_is_asked_about_and_never_granted_for_good(world: World) -> None:
    pids = Range(default=64, maximum=128, ceiling=256)
    world.host = document(limits=Ranges(pids=pids))
    await world.consent()
    world.command = "ls"
    world.requested = {"limits": {"pids": 200.0}, "expand": frozenset({"pids"})}
    seen: list[Question] = []

    async def looking(question: Question) -> Answer:
        seen.append(question)
        return Answer(approved=True, by="bob", always=True)

    permit = await permitted(world, looking)
    assert permit.decision.obligations.limits.pids == 200
    assert seen[0].always is None
    assert await Grants(world.store).list() == ()


async def test_a_removed_workspace_leaves_nothing_to_a_new_one(world: World) -> None:
    await permitted(world, saying(approved=True, always=True))
    await Consents(world.store).set_access("demo", allowed=False, by="ann")
    await world.store.write(lambda tx: forget_workspace(tx, "demo"))
    assert await Grants(world.store).list(revoked=True) == ()
    ended = await stopped(world, approver=saying(approved=True))
    assert ended.ending is Ending.CONSENT_REQUIRED


async def test_a_fault_of_the_approver_is_a_no(world: World) -> None:
    async def broken(question: Question) -> Answer:
        del question
        raise EngineError("The approver cannot be reached.")

    ended = await stopped(world, approver=broken)
    assert ended.ending is Ending.APPROVAL_DENIED
    assert "The approver cannot be reached." in ended.reason


async def _raises(question: Question) -> Answer:
    raise KeyError(question.run_id)


async def _raises_a_group(question: Question) -> Answer:
    raise ExceptionGroup(question.run_id, [ValueError("one")])


async def _misnames(question: Question) -> Answer:
    del question
    return Answer(approved="no", by="bob")  # type: ignore[arg-type]


async def _says_nothing(question: Question) -> Any:
    del question


async def _says_true(question: Question) -> Any:
    del question
    return True


def _is_no_coroutine(question: Question) -> Any:
    del question
    return YES


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (_raises, "KeyError: "),
        (_raises_a_group, "ExceptionGroup: "),
        (_misnames, "ValidationError: "),
        (_says_nothing, "it returned NoneType instead of an Answer"),
        (_says_true, "it returned bool instead of an Answer"),
        (_is_no_coroutine, "TypeError: "),
    ],
)
async def test_whatever_is_not_an_answer_is_a_no(world: World, broken: Approver, why: str) -> None:
    ended = await stopped(world, approver=broken)
    assert ended.ending is Ending.APPROVAL_DENIED
    assert ended.reason.startswith(f"The approver failed, which is a no: {why}")
    assert ended.approval_id is not None
    assert (await world.approvals.get(ended.approval_id)).answer is Answered.DENIED
    assert await world.approvals.pending() == ()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_an_approver_that_is_cancelled_from_within_is_a_no(world: World) -> None:
    async def broken(question: Question) -> Answer:
        del question
        raise asyncio.CancelledError

    ended = await stopped(world, approver=broken)
    assert ended.ending is Ending.APPROVAL_DENIED
    assert ended.reason.startswith("The approver failed, which is a no: it was cancelled")


async def test_a_fault_of_the_store_comes_out_as_it_is(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(self: Approvals, approval_id: str, answer: Answer) -> Heard:
        del self, approval_id, answer
        raise StateError("No space is left.")

    monkeypatch.setattr(Approvals, "answer", full)
    with pytest.raises(StateError, match="No space is left"):
        await authorise(world.evaluate, world.approvals, approver=saying(approved=True))
    assert await world.approvals.pending() == ()


@pytest.mark.parametrize(
    ("how", "word"),
    [
        ({"approver": saying(approved=True)}, Answered.APPROVED),
        ({"approver": saying(approved=False)}, Answered.DENIED),
        ({"approver": _raises}, Answered.DENIED),
        ({"wait_seconds": 0.05}, Answered.EXPIRED),
    ],
)
async def test_every_question_and_its_end_are_told(
    world: World, how: dict[str, Any], word: Answered
) -> None:
    told: list[tuple[str, Answered | None]] = []
    await authorise(
        world.evaluate,
        world.approvals,
        tell=lambda asked, _: told.append((asked.approval_id, asked.answer)),
        **how,
    )
    assert [answer for _, answer in told] == [None, word]
    assert len({approval_id for approval_id, _ in told}) == 1


async def test_the_end_of_a_question_that_is_withdrawn_is_told(world: World) -> None:
    told: list[Answered | None] = []
    with anyio.move_on_after(0.05):
        await authorise(
            world.evaluate,
            world.approvals,
            wait_seconds=60,
            tell=lambda asked, _: told.append(asked.answer),
        )
    assert told == [None, Answered.CANCELLED]


async def test_nobody_is_asked_for_what_nobody_can_grant(world: World) -> None:
    world.requested = {"network": True}
    ended = await stopped(world, approver=saying(approved=True))
    assert ended.ending is Ending.APPROVAL_DENIED
    assert "network grants unavailable" in ended.reason
    assert ended.approval_id is None


async def test_cancelling_withdraws_the_question(world: World) -> None:
    shown = anyio.Event()
    ids: list[str] = []

    async def mute(question: Question) -> Answer:
        del question
        (row,) = await world.approvals.pending()
        ids.append(row.approval_id)
        shown.set()
        await anyio.sleep_forever()
        raise AssertionError

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: authorise(world.evaluate, world.approvals, approver=mute))
        with anyio.fail_after(30):
            await shown.wait()
        tasks.cancel_scope.cancel()
    assert (await world.approvals.get(ids[0])).answer is Answered.CANCELLED
    assert await world.approvals.answer(ids[0], YES) is Heard.ANSWERED_BEFORE
    assert await world.approvals.pending() == ()


async def test_an_approver_is_left_alone_when_another_answers_first(world: World) -> None:
    left: list[bool] = []

    async def mute(question: Question) -> Answer:
        del question
        (row,) = await world.approvals.pending()
        assert await world.approvals.answer(row.approval_id, YES) is Heard.RECORDED
        try:
            await anyio.sleep_forever()
        finally:
            left.append(True)
        raise AssertionError

    assert (await permitted(world, mute)).approved_by == "bob"
    assert left == [True]


async def test_a_settled_run_cannot_be_approved_or_launched(world: World) -> None:
    permit = await permitted(world)
    now = await world.evaluate()
    pending = await world.approvals.ask(
        now.question, digest=now.bound.digest(), deadline_seconds=60
    )
    await Runs(world.store).settle(world.run_id, status="cancelled", outcome_json="{}")
    assert await world.approvals.answer(pending.approval_id, YES) is Heard.RUN_ENDED
    assert await confirm(permit, world.evaluate, world.approvals) == Changed()
    assert await world.approvals.pending() == ()
    assert await world.store.write(close_ended) == 1
    assert (await world.approvals.get(pending.approval_id)).answer is Answered.CANCELLED


async def test_an_unknown_approval_is_named(world: World) -> None:
    with pytest.raises(UnknownApprovalError, match="'ask-x'"):
        await world.approvals.answer("ask-x", YES)


async def test_a_workspace_policy_narrows_and_goes_with_its_forks(world: World) -> None:
    policies = WorkspacePolicies(world.store)
    assert await policies.get("demo") is None
    file = Path(__file__).parents[2] / "policies" / "strict.toml"
    attached = await policies.attach("demo", file.read_text(encoding="utf-8"), by="ann")
    assert await policies.get("demo") == attached
    await world.store.write(lambda tx: inherit_restrictions(tx, parent="demo", child="fork"))
    await world.store.write(lambda tx: inherit_restrictions(tx, parent="none", child="other"))
    assert await policies.get("fork") == attached
    consents = Consents(world.store)
    assert (await consents.authority(principal="ann", workspace="fork")).execution
    await consents.set_access("demo", allowed=False, by="ann")
    await world.store.write(lambda tx: inherit_restrictions(tx, parent="demo", child="fork"))
    assert not (await consents.authority(principal="ann", workspace="fork")).execution
    await consents.set_access("demo", allowed=True, by="ann")
    assert await policies.get("other") is None
    world.workspace_policy = attached
    assert (await stopped(world)).ending is Ending.CONSENT_REQUIRED
    await world.consent()
    world.command = "ls"
    ended = await stopped(world)
    assert (ended.ending, ended.decision.rule) == (
        Ending.APPROVAL_DENIED,
        "workspace policy:everything",
    )
    await world.store.write(lambda tx: forget_workspace(tx, "demo"))
    assert await policies.get("demo") is None
    with pytest.raises(PolicyError):
        await policies.attach("demo", "nonsense", by="ann")
    await world.store.write(_spoil)
    with pytest.raises(PolicyError):
        await policies.get("demo")


def _spoil(tx: sqlite3.Connection) -> None:
    tx.execute("INSERT INTO workspace_policies VALUES ('demo', 'x = 1', 'eve', 'now')")


async def test_an_answer_after_the_deadline_counts_for_nothing_whoever_sleeps(world: World) -> None:
    """The owner has not noticed yet that time is up; the answer finds out by itself."""
    now = await world.evaluate()
    asked = await world.approvals.ask(now.question, digest=now.bound.digest(), deadline_seconds=60)
    later = Approvals(world.store, clock=lambda: asked.deadline_ns)
    assert await later.answer(asked.approval_id, YES) is Heard.EXPIRED
    assert (await world.approvals.get(asked.approval_id)).answer is Answered.EXPIRED
    assert (await world.approvals.wait(asked.approval_id)).answer is Answered.EXPIRED
    assert await later.pending() == ()
