"""git: what its sub-commands read, change, discard, fetch and run."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from sandboxrun.screening.judging.git_commands import SUBCOMMANDS
from sandboxrun.screening.judging.git_settings import apply_setting, read_history
from sandboxrun.screening.judging.invocation import MUTATING, Invocation, Verdict
from sandboxrun.screening.judging.options import read_options
from sandboxrun.screening.judging.paths import resolve
from sandboxrun.screening.reading import marks
from sandboxrun.screening.reading.expand import Arg

_READS: Final = Verdict(read_only=True)

_READERS: Final = frozenset(
    "status log diff show blame annotate describe shortlog rev-parse rev-list ls-files"
    " ls-tree cat-file grep name-rev merge-base for-each-ref show-ref show-branch cherry"
    " whatchanged range-diff diff-tree diff-index diff-files check-ignore check-attr"
    " check-ref-format var help version count-objects verify-commit verify-tag merge-tree"
    " patch-id get-tar-commit-id fsck check-mailmap column stripspace interpret-trailers"
    " ls-remote-local".split()
)
_NETWORK: Final = frozenset(
    "push fetch pull clone ls-remote send-email request-pull fetch-pack send-pack svn p4"
    " cvsimport http-fetch http-push imap-send credential-cache remote-http remote-https"
    " daemon instaweb".split()
)
_HISTORY: Final = frozenset(["filter-branch", "filter-repo", "prune", "replace", "fast-import"])
_GLOBAL_VALUES: Final = frozenset(
    {"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env",
     "--super-prefix", "--attr-source"}
)  # fmt: skip


def _git(inv: Invocation) -> Verdict:
    args = list(inv.args)
    scope = inv.scope
    harmless = True
    while args and args[0].text.startswith("-"):
        option = args.pop(0)
        name, equals, value = option.text.partition("=")
        if name in _GLOBAL_VALUES:
            given = option._replace(text=value) if equals else (args.pop(0) if args else option)
            if name == "-C":
                scope = scope.copy()
                scope.assign("PWD", tuple(resolve(given.text, scope)))
            elif name in ("-c", "--config-env"):
                harmless = apply_setting(inv, given) and harmless
            else:
                harmless = False
                if name == "--exec-path":
                    inv.find("option.program", given)
                inv.walk.read(given, scope)
    if not args:
        return _READS
    if marks.is_unresolved(args[0].text):
        return MUTATING
    moved = Invocation(inv.name, inv.head, tuple(args[1:]), inv.trusted, inv.stdin, scope, inv.walk)
    verdict = _subcommand(args[0], moved)
    return verdict if harmless else verdict._replace(read_only=False)


def _subcommand(name: Arg, inv: Invocation) -> Verdict:
    rule = SUBCOMMANDS.get(name.text)
    if rule is not None:
        return rule(inv)
    if name.text in _READERS:
        return read_history(name.text, inv)
    if name.text in _NETWORK:
        return _network(inv)
    if name.text in _HISTORY:
        return _history(inv)
    return MUTATING


def _network(inv: Invocation) -> Verdict:
    inv.find("network.use")
    inv.walk.note_network("git")
    options = read_options(inv.args, "ou", ("upload-pack", "receive-pack", "exec", "config"))
    for program in options.all_values("", "upload-pack", "receive-pack", "exec"):
        inv.find("option.program", program)
        inv.script(program)
    for place, arg in enumerate(inv.args[:-1]):
        if arg.text in ("-u", "-c", "--config"):
            following = inv.args[place + 1]
            if arg.text == "-u" and " " in following.text:
                inv.script(following)
            elif arg.text != "-u":
                apply_setting(inv, following)
    for operand in options.operands:
        match = re.match(r"ext::(.*)", operand.text, re.DOTALL)
        if match is not None:
            inv.script(operand._replace(text=match[1]))
    return MUTATING


def _history(inv: Invocation) -> Verdict:
    inv.find("git.history")
    options = read_options(
        inv.args,
        "",
        (
            "tree-filter",
            "index-filter",
            "msg-filter",
            "env-filter",
            "commit-filter",
            "parent-filter",
            "tag-name-filter",
            "setup",
            "subdirectory-filter",
        ),
    )
    for script in options.all_values(
        "", "tree-filter", "index-filter", "msg-filter", "env-filter", "commit-filter",
        "parent-filter", "tag-name-filter", "setup",
    ):  # fmt: skip
        inv.script(script)
    return MUTATING


RULES: Final[dict[str, Callable[[Invocation], Verdict]]] = {"git": _git}
