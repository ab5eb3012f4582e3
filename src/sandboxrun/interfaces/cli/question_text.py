"""A question as a person at a terminal reads it."""

from __future__ import annotations

from sandboxrun.approval.question import Question
from sandboxrun.interfaces.cli.tables import printable
from sandboxrun.policy.bounds import shown
from sandboxrun.policy.explain import marked, numbered
from sandboxrun.policy.reasons import narrower_call
from sandboxrun.screening.facts import Effect


def question_text(question: Question) -> str:
    """Return the question in full: the marked command, why it asks, what it does and touches."""
    marks, groups = numbered(question.objections)
    where = question.workspace_name or question.workspace or "a throwaway workspace"
    who = question.principal
    lines = [f"{printable(who)} wants to run this in {printable(where)}:", ""]
    lines += [f"  {line}" for line in marked(question.command.encode(), marks)]
    lines.append("")
    for number, objection in groups:
        lines.append(f"{number}. {printable(objection.reason)}")
        instead = narrower_call(objection)
        if instead is not None:
            lines.append(f"   instead: {instead}")
    lines += ["", *_conditions(question)]
    return "\n".join(lines)


def _conditions(question: Question) -> list[str]:
    effect = "reads only" if question.effect is Effect.READ_ONLY else "may change the workspace"
    lines = [f"Effect: {effect}."]
    lines += [f"{printable(touched)}" for touched in question.touches]
    if question.cwd is not None:
        lines.append(f"Directory: {printable(question.cwd)}")
    if question.argv is not None:
        words = " ".join(repr(printable(word)) for word in question.argv)
        lines.append(f"Without a shell, as these words: {words}")
    wanted = question.obligations
    lines.append(f"Image: {printable(wanted.image)}. Time: {wanted.timeout_seconds:g} s.")
    if wanted.env_names:
        lines.append(f"Sets: {', '.join(map(printable, wanted.env_names))}")
    lines += [
        f"Limit {clamped.name}: cut from {shown(clamped.name, clamped.requested)} to "
        f"{shown(clamped.name, clamped.effective)}."
        for clamped in question.clamped
    ]
    if question.snapshot is not None:
        lines.append(f"Snapshot to go back to: {question.snapshot}")
    return lines
