"""git's sub-commands that change or discard what is in the work tree."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from sandboxrun.screening.judging.git_settings import first_operand
from sandboxrun.screening.judging.invocation import MUTATING, Invocation, Verdict
from sandboxrun.screening.judging.options import read_options
from sandboxrun.screening.reading import marks

_READS: Final = Verdict(read_only=True)


def _reset(inv: Invocation) -> Verdict:
    texts = [arg.text for arg in inv.args]
    if any(text in ("--hard", "--merge", "--keep") or text.startswith("--har") for text in texts):
        inv.find("git.discard")
    elif "--" not in texts:
        operands = [t for t in texts if not t.startswith("-")]
        if operands and re.search(r"HEAD[~^@]|^[0-9a-f]{7,40}$|^origin/|@\{", operands[0]):
            inv.find("git.history")
    return MUTATING


def _clean(inv: Invocation) -> Verdict:
    options = read_options(inv.args, "e", ("exclude",))
    if options.has("n", "dry-run"):
        return _READS
    inv.find("git.discard")
    return MUTATING


def _checkout(inv: Invocation) -> Verdict:
    options = read_options(inv.args, "bB", ("orphan", "conflict"))
    texts = [arg.text for arg in inv.args]
    creates = options.has("bBt", "orphan", "track")
    operands = options.operands
    paths = "--" in texts and texts[-1] != "--"
    if (
        options.has("fpm", "force", "patch", "ours", "theirs")
        or paths
        or (
            not creates and (len(operands) > 1 or (operands and _looks_like_path(operands[0].text)))
        )
    ):
        inv.find("git.discard")
    return MUTATING


def _looks_like_path(text: str) -> bool:
    return (
        text in (".", "..", ":/")
        or text.startswith(("./", "../", "/"))
        or text.endswith("/")
        or marks.has_glob(text)
        or re.search(r"\.(?!\d+$)[A-Za-z]\w{0,5}$", text) is not None
    )


def _restore(inv: Invocation) -> Verdict:
    options = read_options(inv.args, "s", ("source",))
    if not options.has("S", "staged") or options.has("W", "worktree"):
        inv.find("git.discard")
    return MUTATING


def _switch(inv: Invocation) -> Verdict:
    options = read_options(inv.args, "cC", ("create", "force-create", "orphan"))
    if options.has("f", "force", "discard-changes"):
        inv.find("git.discard")
    return MUTATING


def _remove(inv: Invocation) -> Verdict:
    options = read_options(inv.args)
    if not options.has("", "cached"):
        if options.has("r") or any(marks.has_glob(arg.text) for arg in options.operands):
            inv.find("delete.sources")
        if options.has("f", "force"):
            inv.find("git.discard")
    return MUTATING


def _worktree(inv: Invocation) -> Verdict:
    word = first_operand(inv)
    if word == "list":
        return _READS
    if word == "remove":
        inv.find("git.discard")
    if word == "add":
        operands = [a for a in inv.args if not a.text.startswith("-")][1:2]
        for operand in operands:
            inv.walk.write(operand, inv.scope)
    return MUTATING


TREE_COMMANDS: Final[dict[str, Callable[[Invocation], Verdict]]] = {
    "reset": _reset,
    "clean": _clean,
    "checkout": _checkout,
    "restore": _restore,
    "switch": _switch,
    "rm": _remove,
    "worktree": _worktree,
}
