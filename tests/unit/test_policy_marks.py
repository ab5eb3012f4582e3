"""The marked command: every mark is seen, and nothing in it drives a terminal."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.policy_samples import case, decided

from sandboxrun.approval.binding import Bound
from sandboxrun.approval.question import question_of
from sandboxrun.policy.decide import Case
from sandboxrun.policy.explain import Mark, marked
from sandboxrun.policy.grants import CommandText
from sandboxrun.screening import screen
from sandboxrun.screening.facts import Finding, Tier


def test_a_mark_stands_below_its_place() -> None:
    assert marked(b"ls && rm x", [Mark(1, 6, 8), Mark(2, 9, 10)]) == [
        "ls && rm x",
        "      ^^ 1",
        "         ^ 2",
    ]
    assert marked("é 漢 rm".encode(), [Mark(1, 7, 9)]) == ["é 漢 rm", "     ^^ 1"]
    assert marked(b"\trm", [Mark(1, 1, 3)]) == ["    rm", "    ^^ 1"]


def test_a_mark_over_two_lines_stands_below_both() -> None:
    assert marked(b"a b\nc", [Mark(1, 2, 5)]) == ["a b", "  ^ 1", "c", "^ 1"]


def test_marks_far_down_are_shown_and_what_is_left_out_is_counted() -> None:
    lines = marked(b"x\n" * 99 + b"rm", [Mark(1, 198, 200)])
    assert lines[40:] == ["… 59 more lines are not shown", "rm", "^^ 1"]
    assert marked(b"x" * 5000, [])[0].endswith(" … 1000 more bytes are not shown")


@given(st.binary(max_size=60), st.lists(st.tuples(st.integers(0, 70), st.integers(0, 70))))
def test_anything_can_be_marked(source: bytes, places: list[tuple[int, int]]) -> None:
    marks = [Mark(n, min(place), max(place)) for n, place in enumerate(places)]
    lines = marked(source, marks)
    assert all(line.isprintable() for line in lines)


def test_marks_of_a_question_count_in_what_is_shown() -> None:
    raw = b"echo \xff\xfe; git push"
    found = screen("git push").model_copy(
        update={
            "findings": (Finding(code="network.use", reason="R.", tier=Tier.ASK, start=9, end=17),)
        }
    )
    judged = case("x", facts=found)
    command = CommandText("shell", (raw,))
    decision = decided(Case(command=command, facts=judged.facts, requested=judged.requested))
    bound = Bound(
        run_id="run-1",
        command=command,
        principal="ann",
        conversation=None,
        workspace="demo",
        image_id=None,
        obligations=decision.obligations,
        digests=decision.digests,
    )
    question = question_of(decision, bound, judged.facts, judged.requested, touches=())
    shown = question.command.encode()
    pushes = [each for each in question.objections if each.rule == "network.use"]
    assert [shown[start:end] for each in pushes for start, end in each.spans] == [b"git push"]
