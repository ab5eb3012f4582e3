"""The table of questions. One answer wins, from whichever process; silence is a no.

Deadlines run on CLOCK_BOOTTIME, which every process of one boot shares and nobody sets; the wall
time in a row is for people. A row's owner is the owner of its run.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from time import CLOCK_BOOTTIME, clock_gettime_ns
from typing import Any, Final

import anyio
import anyio.to_thread

from sandboxrun.approval.grants import insert_grant
from sandboxrun.approval.question import Answer, Question
from sandboxrun.errors import UnknownApprovalError
from sandboxrun.model.ids import new_id
from sandboxrun.state.clock import rfc3339, timestamp
from sandboxrun.state.owner import Owner
from sandboxrun.state.requests import POLL_SECONDS
from sandboxrun.state.store import Store

_NS: Final = 1_000_000_000
_COLUMNS: Final = (
    "a.approval_id, a.run_id, a.request_digest, a.asked_at, a.expires_at, a.deadline_ns,"
    " a.answer, a.answered_by, a.answered_at, a.reason, a.redeemed_at, a.detail, r.owner, r.status"
)
_FROM: Final = "FROM approvals AS a JOIN runs AS r ON r.run_id = a.run_id"


def boot_clock() -> int:
    """Return nanoseconds since boot, suspended time included."""
    return clock_gettime_ns(CLOCK_BOOTTIME)


class Answered(StrEnum):
    """How a question ended."""

    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    """Nobody answered in time."""
    CANCELLED = "cancelled"
    """Whoever asked went away."""


class Heard(StrEnum):
    """What became of an answer."""

    RECORDED = "recorded"
    ANSWERED_BEFORE = "answered_before"
    EXPIRED = "expired"
    """It came too late."""
    RUN_ENDED = "run_ended"
    """The run has its outcome already, or nobody is left who could act on the answer."""


@dataclass(frozen=True, slots=True)
class Approval:
    """One question as the store knows it. ``answer`` is None while it is pending."""

    approval_id: str
    run_id: str
    request_digest: str
    asked_at: str
    expires_at: str
    """Wall time, for people."""
    deadline_ns: int
    """On `boot_clock`."""
    answer: Answered | None
    answered_by: str | None
    answered_at: str | None
    reason: str | None
    redeemed_at: str | None
    """When a run was started on it. That happens once."""
    question: Question
    owner: Owner
    run_status: str | None


class OwnAnswer:
    """What somebody in this process answers to one question, whenever they do."""

    def __init__(self) -> None:
        self._answer: Answer | None = None
        self.given = anyio.Event()

    def give(self, answer: Answer) -> None:
        """Answer. The first one counts."""
        if not self.given.is_set():
            self._answer = answer
            self.given.set()

    def take(self) -> Answer | None:
        """Return the answer once, and None before and afterwards."""
        answer, self._answer = self._answer, None
        return answer


@dataclass(frozen=True, slots=True)
class Approvals:
    """The questions of all processes."""

    store: Store
    clock: Callable[[], int] = boot_clock

    async def ask(self, question: Question, *, digest: str, deadline_seconds: float) -> Approval:
        """Put a question about a run of this process. See `Store.write` for cancellation.

        ``digest`` is `Bound.digest` of the request. Raises `StateError`.
        """
        approval_id = new_id("ask")
        now = datetime.now(UTC)
        values = (
            approval_id,
            question.run_id,
            digest,
            rfc3339(now),
            rfc3339(now + timedelta(seconds=deadline_seconds)),
            self.clock() + int(deadline_seconds * _NS),
            question.model_dump_json(),
        )

        def insert(tx: sqlite3.Connection) -> Approval:
            tx.execute(
                "INSERT INTO approvals (approval_id, run_id, request_digest, asked_at,"
                " expires_at, deadline_ns, detail) VALUES (?, ?, ?, ?, ?, ?, ?)",
                values,
            )
            return _get(tx, approval_id)

        return await self.store.write(insert, durable=False)

    async def answer(self, approval_id: str, answer: Answer) -> Heard:
        """Answer a question of any process; the first answer in time wins.

        With ``always``, the grant the question offers is given in the same step. Raises
        `UnknownApprovalError`, `StateError`. See `Store.write` for cancellation.
        """
        asked = await self.get(approval_id)
        if not await anyio.to_thread.run_sync(asked.owner.is_alive):
            return Heard.RUN_ENDED
        return await self.store.write(lambda tx: self._answer(tx, approval_id, answer))

    def _answer(self, tx: sqlite3.Connection, approval_id: str, answer: Answer) -> Heard:
        asked = _get(tx, approval_id)
        if asked.answer is Answered.EXPIRED:
            return Heard.EXPIRED
        if asked.answer is not None:
            return Heard.ANSWERED_BEFORE
        if asked.run_status is not None:
            return Heard.RUN_ENDED
        if self.clock() >= asked.deadline_ns:
            _close(tx, approval_id, Answered.EXPIRED)
            return Heard.EXPIRED
        word = Answered.APPROVED if answer.approved else Answered.DENIED
        _close(tx, approval_id, word, by=answer.by, reason=answer.reason)
        if answer.approved and answer.always:
            insert_grant(tx, asked.question, given_by=answer.by)
        return Heard.RECORDED

    async def close(self, approval_id: str, word: Answered) -> Approval:
        """End a question without an answer, unless it has one; return it as it is then.

        Raises `UnknownApprovalError`, `StateError`. See `Store.write` for cancellation.
        """

        def close(tx: sqlite3.Connection) -> Approval:
            _close(tx, approval_id, word)
            return _get(tx, approval_id)

        return await self.store.write(close, durable=False)

    async def wait(self, approval_id: str, *, own: OwnAnswer | None = None) -> Approval:
        """Wait for an answer until the deadline, and return the question as it ended.

        An answer of another process is seen within 200 ms; ``own`` is recorded as soon as it is
        given, if it is the first. Raises `StateError`. Cancellation leaves the question pending:
        close it.
        """
        mine = OwnAnswer() if own is None else own
        while (asked := await self.get(approval_id)).answer is None:
            if (answer := mine.take()) is not None:
                await self.answer(approval_id, answer)
                continue
            left = (asked.deadline_ns - self.clock()) / _NS
            if left <= 0:
                return await self.close(approval_id, Answered.EXPIRED)
            await _pause(min(POLL_SECONDS, left), mine.given)
        return asked

    async def get(self, approval_id: str) -> Approval:
        """Return one. Raises `UnknownApprovalError`. Cancellation leaves nothing."""
        return await self.store.read(lambda tx: _get(tx, approval_id))

    async def pending(self) -> tuple[Approval, ...]:
        """Return the questions that can be answered now, oldest first.

        Those whose run ended, whose owner died or whose time is up are left out. Cancellation
        leaves nothing.
        """

        def select(tx: sqlite3.Connection) -> tuple[Approval, ...]:
            rows = tx.execute(
                f"SELECT {_COLUMNS} {_FROM} WHERE a.answer IS NULL AND r.status IS NULL"
                " AND a.deadline_ns > ? ORDER BY a.asked_at, a.approval_id",
                (self.clock(),),
            )
            return tuple(_approval(row) for row in rows)

        found = await self.store.read(select)
        return await anyio.to_thread.run_sync(
            lambda: tuple(each for each in found if each.owner.is_alive())
        )


async def _pause(seconds: float, given: anyio.Event) -> None:
    if given.is_set():
        await anyio.sleep(seconds)
        return
    with anyio.move_on_after(seconds):
        await given.wait()


def redeem(tx: sqlite3.Connection, approval_id: str, digest: str, owner: Owner) -> bool:
    """Use an approval for the one launch it allows, inside a caller's transaction.

    False, and nothing changes, when it is not a yes to exactly this request, was used already,
    or belongs to a run that ended or another process owns.
    """
    done = tx.execute(
        "UPDATE approvals SET redeemed_at = ? WHERE approval_id = ? AND request_digest = ?"
        " AND answer = 'approved' AND redeemed_at IS NULL AND run_id IN"
        " (SELECT run_id FROM runs WHERE status IS NULL AND owner = ?)",
        (timestamp(), approval_id, digest, str(owner)),
    )
    return done.rowcount == 1


def close_ended(tx: sqlite3.Connection) -> int:
    """Close the questions of runs that have their outcome; return how many. For recovery."""
    done = tx.execute(
        "UPDATE approvals SET answer = 'cancelled', answered_at = ? WHERE answer IS NULL"
        " AND run_id IN (SELECT run_id FROM runs WHERE status IS NOT NULL)",
        (timestamp(),),
    )
    return done.rowcount


def _close(
    tx: sqlite3.Connection,
    approval_id: str,
    word: Answered,
    *,
    by: str | None = None,
    reason: str | None = None,
) -> None:
    tx.execute(
        "UPDATE approvals SET answer = ?, answered_by = ?, answered_at = ?, reason = ?"
        " WHERE approval_id = ? AND answer IS NULL",
        (word.value, by, timestamp(), reason, approval_id),
    )


def _get(tx: sqlite3.Connection, approval_id: str) -> Approval:
    row = tx.execute(
        f"SELECT {_COLUMNS} {_FROM} WHERE a.approval_id = ?",
        (approval_id,),
    ).fetchone()
    if row is None:
        raise UnknownApprovalError(f"There is no approval {approval_id!r}.")
    return _approval(row)


def _approval(row: tuple[Any, ...]) -> Approval:
    *told, answer, by, answered_at, reason, redeemed_at, detail, owner, run_status = row
    approval_id, run_id, digest, asked_at, expires_at, deadline_ns = told
    return Approval(
        approval_id,
        run_id,
        digest,
        asked_at,
        expires_at,
        deadline_ns,
        None if answer is None else Answered(answer),
        by,
        answered_at,
        reason,
        redeemed_at,
        Question.model_validate_json(detail),
        Owner.parse(owner),
        run_status,
    )
