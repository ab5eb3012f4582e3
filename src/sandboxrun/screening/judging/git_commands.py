"""git's sub-commands: what each of them changes, discards, fetches and runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sandboxrun.screening.judging.git_settings import (
    RUN_KEYS,
    first_operand,
    read_history,
    runs_setting,
)
from sandboxrun.screening.judging.git_tree import TREE_COMMANDS
from sandboxrun.screening.judging.invocation import MUTATING, Invocation, Verdict
from sandboxrun.screening.judging.options import Options, read_options
from sandboxrun.screening.reading.expand import Arg

_READS: Final = Verdict(read_only=True)


def _branch(inv: Invocation) -> Verdict:
    options = read_options(
        inv.args,
        "u",
        (
            "set-upstream-to",
            "format",
            "sort",
            "contains",
            "merged",
            "no-merged",
            "points-at",
            "no-contains",
        ),
    )
    if options.has("D") or (options.has("d", "delete") and options.has("f", "force")):
        inv.find("git.history")
        return MUTATING
    if options.has("d", "delete"):
        return MUTATING
    lists = options.has(
        "lavr",
        "list",
        "all",
        "remotes",
        "show-current",
        "contains",
        "merged",
        "no-merged",
        "points-at",
        "format",
        "sort",
        "column",
        "verbose",
    )
    changes = options.has(
        "mMcCfut",
        "move",
        "copy",
        "force",
        "set-upstream-to",
        "unset-upstream",
        "edit-description",
        "track",
        "create-reflog",
    )
    if changes or options.doubtful:
        return MUTATING
    return _READS if lists or not options.operands else MUTATING


def _tag(inv: Invocation) -> Verdict:
    options = read_options(
        inv.args,
        "mFun",
        (
            "message",
            "file",
            "local-user",
            "contains",
            "merged",
            "sort",
            "format",
            "points-at",
            "no-contains",
            "no-merged",
        ),
    )
    if options.has("d", "delete"):
        inv.find("git.history")
        return MUTATING
    if options.has("asuFfm", "annotate", "sign", "force", "message", "file"):
        return MUTATING
    lists = options.has(
        "lnv",
        "list",
        "verify",
        "contains",
        "merged",
        "points-at",
        "sort",
        "format",
        "column",
        "no-contains",
        "no-merged",
    )
    return _READS if lists or not options.operands else MUTATING


def _stash(inv: Invocation) -> Verdict:
    word = first_operand(inv)
    if word in ("list", "show"):
        rest = inv.args[1:]
        return read_history("show", Invocation(inv.name, inv.head, rest, inv.trusted, inv.stdin,
                                          inv.scope, inv.walk))  # fmt: skip
    if word in ("drop", "clear"):
        inv.find("git.discard")
    return MUTATING


def _reflog(inv: Invocation) -> Verdict:
    word = first_operand(inv)
    if word in ("expire", "delete", "drop"):
        inv.find("git.history")
        return MUTATING
    return Verdict(not any(arg.text.startswith("--output") for arg in inv.args))


def _remote(inv: Invocation) -> Verdict:
    word = first_operand(inv)
    if word == "update" or (word == "show" and "-n" not in [a.text for a in inv.args]):
        if word == "show" and len(inv.args) == 1:
            return _READS
        inv.find("network.use")
        return MUTATING
    if word == "prune":
        inv.find("network.use")
        return MUTATING
    return _READS if word in ("", "get-url") else MUTATING


def _config(inv: Invocation) -> Verdict:
    options = read_options(inv.args, "ft", ("file", "type", "default", "blob", "comment", "value"))
    operands = list(options.operands)
    if options.has("", "global", "system") and not _config_reads(options, operands):
        inv.find("outside.write")
    file = options.value("f", "file")
    if file is not None:
        inv.walk.read(file, inv.scope)
    if options.has("e", "edit"):
        return MUTATING
    if _config_reads(options, operands):
        return Verdict(not options.doubtful)
    if operands and operands[0].text == "set":
        operands.pop(0)
    if operands and RUN_KEYS.fullmatch(operands[0].text):
        value = operands[1].text if len(operands) > 1 else ""
        if options.has("", "unset", "unset-all"):
            return MUTATING
        if value.startswith("!") or not operands[0].text.startswith("alias."):
            runs_setting(inv, operands[min(1, len(operands) - 1)], value)
    return MUTATING


def _config_reads(options: Options, operands: list[Arg]) -> bool:
    if operands and operands[0].text in (
        "set",
        "unset",
        "rename-section",
        "remove-section",
        "edit",
    ):
        return False
    if options.has(
        "", "unset", "unset-all", "add", "replace-all", "rename-section", "remove-section"
    ):
        return False
    if operands and operands[0].text in ("list", "get"):
        return True
    if options.has("l", "list", "get", "get-all", "get-regexp", "get-urlmatch", "get-color"):
        return True
    return len(operands) == 1


def _commit(inv: Invocation) -> Verdict:
    options = read_options(
        inv.args, "mFCct", ("message", "file", "reuse-message", "author", "date", "template")
    )
    if any(name.startswith("am") and "amend".startswith(name) for name in options.long):
        inv.find("git.history")
    for file in options.all_values("Ft", "file", "template"):
        if file.text != "-":
            inv.walk.read(file, inv.scope)
    return MUTATING


def _rebase(inv: Invocation) -> Verdict:
    options = read_options(inv.args, "xsX", ("exec", "onto", "strategy", "strategy-option"))
    for script in options.all_values("x", "exec"):
        inv.script(script)
    if not options.has("", "continue", "abort", "skip", "quit", "show-current-patch"):
        inv.find("git.history")
    return MUTATING


def _gc(inv: Invocation) -> Verdict:
    if any(arg.text.startswith("--prune") for arg in inv.args):
        inv.find("git.history")
    return MUTATING


def _update_ref(inv: Invocation) -> Verdict:
    if any(arg.text in ("-d", "--delete", "--stdin") for arg in inv.args):
        inv.find("git.history")
    return MUTATING


def _submodule(inv: Invocation) -> Verdict:
    word = first_operand(inv)
    if word in ("", "status", "summary"):
        return _READS
    if word in ("update", "add", "sync"):
        inv.find("network.use")
    if word == "foreach":
        rest = [arg for arg in inv.args if not arg.text.startswith("--")][1:]
        if rest:
            text = " ".join(arg.text for arg in rest)
            return inv.script(rest[0]._replace(text=text, end=rest[-1].end))
    if word == "deinit":
        inv.find("git.discard")
    return MUTATING


def _bisect(inv: Invocation) -> Verdict:
    if inv.args and inv.args[0].text == "run":
        inv.inner(inv.args[1:])
        return MUTATING
    return Verdict(bool(inv.args) and inv.args[0].text in ("log", "view", "visualize", "help"))


def _tool(inv: Invocation) -> Verdict:
    options = read_options(inv.args, "xt", ("extcmd", "tool"))
    for script in options.all_values("x", "extcmd"):
        inv.find("option.program", script)
        inv.script(script)
    return MUTATING


def _lfs(inv: Invocation) -> Verdict:
    word = first_operand(inv)
    if word in ("pull", "fetch", "push", "clone", "lock", "unlock", "locks"):
        inv.find("network.use")
    return Verdict(word in ("ls-files", "status", "env", "version"))


def _credential(inv: Invocation) -> Verdict:
    inv.find("secret.print")
    return MUTATING


def _symbolic(inv: Invocation) -> Verdict:
    options = read_options(inv.args, "m")
    return Verdict(len(options.operands) < 2 and not options.has("d", "delete"))  # noqa: PLR2004


def _notes(inv: Invocation) -> Verdict:
    return Verdict(first_operand(inv) in ("", "list", "show"))


def _archive(inv: Invocation) -> Verdict:
    options = read_options(inv.args, "o", ("output", "format", "prefix", "remote", "exec"))
    if options.value("", "remote") is not None:
        inv.find("network.use")
    for program in options.all_values("", "exec"):
        inv.script(program)
    for output in options.all_values("o", "output"):
        inv.walk.write(output, inv.scope)
    return MUTATING


def _hash_object(inv: Invocation) -> Verdict:
    return Verdict(not any(arg.text.startswith("-w") for arg in inv.args))


def _apply(inv: Invocation) -> Verdict:
    texts = [arg.text for arg in inv.args]
    reads = any(text in ("--check", "--stat", "--numstat", "--summary") for text in texts)
    return Verdict(reads and "--apply" not in texts)


def _init(inv: Invocation) -> Verdict:
    options = read_options(inv.args, "b", ("template", "separate-git-dir", "initial-branch"))
    if options.value("", "template") is not None:
        inv.find("git.hook")
    for operand in options.operands:
        inv.walk.write(operand, inv.scope)
    return MUTATING


SUBCOMMANDS: Final[dict[str, Callable[[Invocation], Verdict]]] = {
    **TREE_COMMANDS,
    "branch": _branch,
    "tag": _tag,
    "stash": _stash,
    "reflog": _reflog,
    "remote": _remote,
    "config": _config,
    "commit": _commit,
    "rebase": _rebase,
    "gc": _gc,
    "update-ref": _update_ref,
    "submodule": _submodule,
    "bisect": _bisect,
    "difftool": _tool,
    "mergetool": _tool,
    "lfs": _lfs,
    "credential": _credential,
    "credential-store": _credential,
    "symbolic-ref": _symbolic,
    "notes": _notes,
    "archive": _archive,
    "hash-object": _hash_object,
    "apply": _apply,
    "init": _init,
}
