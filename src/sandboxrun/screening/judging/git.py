"""git: what its sub-commands read, change, discard, fetch and run."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from sandboxrun.screening.judging.environment import is_harmless_command
from sandboxrun.screening.judging.invocation import MUTATING, Invocation, Verdict
from sandboxrun.screening.judging.options import Options, read_options
from sandboxrun.screening.judging.paths import resolve
from sandboxrun.screening.reading import marks
from sandboxrun.screening.reading.expand import Arg

_READS: Final = Verdict(read_only=True)

_READERS: Final = frozenset(
    "status log diff show blame annotate describe shortlog rev-parse rev-list ls-files ls-tree"
    " cat-file grep name-rev merge-base for-each-ref show-ref show-branch cherry whatchanged"
    " range-diff diff-tree diff-index diff-files check-ignore check-attr check-ref-format var help"
    " version count-objects verify-commit verify-tag merge-tree patch-id get-tar-commit-id fsck"
    " check-mailmap column stripspace interpret-trailers ls-remote-local".split()
)
_READER_WRITES: Final = ("output", "ext-diff", "textconv", "open-files-in-pager")
_NETWORK: Final = frozenset(
    "push fetch pull clone ls-remote send-email request-pull fetch-pack send-pack svn p4 cvsimport"
    " http-fetch http-push imap-send credential-cache remote-http remote-https daemon instaweb".split()
)
_HISTORY: Final = frozenset("filter-branch filter-repo prune replace fast-import".split())
_RUN_KEYS: Final = re.compile(
    r"(?:alias\..+|core\.(?:pager|editor|sshcommand|fsmonitor|hookspath|askpass|gitproxy|worktree)"
    r"|pager\..+|sequence\.editor|diff\.external|diff\..+\.(?:command|textconv)|merge\..+\.driver"
    r"|filter\..+\.(?:clean|smudge|process)|credential(?:\..+)?\.helper|gpg(?:\..+)?\.program"
    r"|difftool\..+\.cmd|mergetool\..+\.cmd|browser\..+\.cmd|man\..+\.cmd|interactive\.difffilter"
    r"|protocol\..*ext.*|uploadpack\.packobjectshook|remote\..+\.(?:uploadpack|receivepack|vcs)"
    r"|sendemail\.smtpserver|ssh\.variant|init\.templatedir|include(?:if\..+)?\.path|trailer\..+\.cmd"
    r"|submodule\..+\.update)$",
    re.IGNORECASE,
)
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
                harmless = _setting(inv, given) and harmless
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


def _setting(inv: Invocation, setting: Arg) -> bool:
    """Report a setting that runs something. True where the setting is harmless."""
    key, _, value = setting.text.partition("=")
    if not _RUN_KEYS.fullmatch(key):
        return True
    return _runs(inv, setting, value)


def _runs(inv: Invocation, place: Arg, value: str) -> bool:
    if not value or is_harmless_command(value) or value in ("true", "false", "store", "cache"):
        return True
    inv.find("git.hook", place)
    inv.script(place._replace(text=value.removeprefix("!")))
    return False


def _subcommand(name: Arg, inv: Invocation) -> Verdict:
    rule = _RULES.get(name.text)
    if rule is not None:
        return rule(inv)
    if name.text in _READERS:
        return _reader(name.text, inv)
    if name.text in _NETWORK:
        return _network(inv)
    if name.text in _HISTORY:
        return _history(inv)
    return MUTATING


def _reader(name: str, inv: Invocation) -> Verdict:
    read_only = True
    for arg in inv.args:
        text = arg.text
        if text == "--":
            break
        if text.startswith("--output") and not text.startswith("--output-indicator"):
            read_only = False
            inv.walk.write(arg._replace(text=text.partition("=")[2]), inv.scope)
        elif text.startswith(("--ext-diff", "--textconv", "--filters")):
            read_only = False
        elif name == "grep" and text.startswith(("-O", "--open-files-in-pager")):
            read_only = False
            program = text.removeprefix("-O") if text.startswith("-O") else text.partition("=")[2]
            if program:
                inv.find("option.program", arg)
                inv.script(arg._replace(text=program))
        elif name == "fsck" and text == "--lost-found":
            read_only = False
        elif name in ("merge-tree", "interpret-trailers") and text in ("--write-tree", "--in-place"):
            read_only = False
    if "--no-index" in [arg.text for arg in inv.args] or name == "diff":
        for arg in inv.args:
            if not arg.text.startswith("-"):
                inv.walk.read(arg, inv.scope)
    return Verdict(read_only)


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
                _setting(inv, following)
    for operand in options.operands:
        match = re.match(r"ext::(.*)", operand.text, re.DOTALL)
        if match is not None:
            inv.script(operand._replace(text=match[1]))
    return MUTATING


def _history(inv: Invocation) -> Verdict:
    inv.find("git.history")
    options = read_options(
        inv.args, "", ("tree-filter", "index-filter", "msg-filter", "env-filter", "commit-filter",
                       "parent-filter", "tag-name-filter", "setup", "subdirectory-filter")
    )
    for script in options.all_values(
        "", "tree-filter", "index-filter", "msg-filter", "env-filter", "commit-filter",
        "parent-filter", "tag-name-filter", "setup",
    ):  # fmt: skip
        inv.script(script)
    return MUTATING


def _branch(inv: Invocation) -> Verdict:
    options = read_options(
        inv.args, "u", ("set-upstream-to", "format", "sort", "contains", "merged", "no-merged",
                        "points-at", "no-contains")
    )
    if options.has("D") or (options.has("d", "delete") and options.has("f", "force")):
        inv.find("git.history")
        return MUTATING
    if options.has("d", "delete"):
        return MUTATING
    lists = options.has("lavr", "list", "all", "remotes", "show-current", "contains", "merged",
                        "no-merged", "points-at", "format", "sort", "column", "verbose")
    changes = options.has("mMcCfut", "move", "copy", "force", "set-upstream-to", "unset-upstream",
                          "edit-description", "track", "create-reflog")
    if changes or options.doubtful:
        return MUTATING
    return _READS if lists or not options.operands else MUTATING


def _tag(inv: Invocation) -> Verdict:
    options = read_options(
        inv.args, "mFun", ("message", "file", "local-user", "contains", "merged", "sort", "format",
                           "points-at", "no-contains", "no-merged")
    )
    if options.has("d", "delete"):
        inv.find("git.history")
        return MUTATING
    if options.has("asuFfm", "annotate", "sign", "force", "message", "file"):
        return MUTATING
    lists = options.has("lnv", "list", "verify", "contains", "merged", "points-at", "sort",
                        "format", "column", "no-contains", "no-merged")
    return _READS if lists or not options.operands else MUTATING


def _word(inv: Invocation) -> str:
    """Return the sub-command's own sub-command, or an empty string."""
    return next((arg.text for arg in inv.args if not arg.text.startswith("-")), "")


def _stash(inv: Invocation) -> Verdict:
    word = _word(inv)
    if word in ("list", "show"):
        rest = inv.args[1:]
        return _reader("show", Invocation(inv.name, inv.head, rest, inv.trusted, inv.stdin,
                                          inv.scope, inv.walk))  # fmt: skip
    if word in ("drop", "clear"):
        inv.find("git.discard")
    return MUTATING


def _reflog(inv: Invocation) -> Verdict:
    word = _word(inv)
    if word in ("expire", "delete", "drop"):
        inv.find("git.history")
        return MUTATING
    return Verdict(not any(arg.text.startswith("--output") for arg in inv.args))


def _remote(inv: Invocation) -> Verdict:
    word = _word(inv)
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
    options = read_options(
        inv.args, "ft", ("file", "type", "default", "blob", "comment", "value")
    )
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
    if operands and _RUN_KEYS.fullmatch(operands[0].text):
        value = operands[1].text if len(operands) > 1 else ""
        if options.has("", "unset", "unset-all"):
            return MUTATING
        if value.startswith("!") or not operands[0].text.startswith("alias."):
            _runs(inv, operands[min(1, len(operands) - 1)], value)
    return MUTATING


def _config_reads(options: Options, operands: list[Arg]) -> bool:
    if operands and operands[0].text in ("set", "unset", "rename-section", "remove-section", "edit"):
        return False
    if options.has("", "unset", "unset-all", "add", "replace-all", "rename-section",
                   "remove-section"):
        return False
    if operands and operands[0].text in ("list", "get"):
        return True
    if options.has("l", "list", "get", "get-all", "get-regexp", "get-urlmatch", "get-color"):
        return True
    return len(operands) == 1


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
    if options.has("fpm", "force", "patch", "ours", "theirs") or paths:
        inv.find("git.discard")
    elif not creates and (len(operands) > 1 or (operands and _looks_like_path(operands[0].text))):
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


def _remove(inv: Invocation) -> Verdict:
    options = read_options(inv.args)
    if not options.has("", "cached"):
        if options.has("r") or any(marks.has_glob(arg.text) for arg in options.operands):
            inv.find("delete.sources")
        if options.has("f", "force"):
            inv.find("git.discard")
    return MUTATING


def _gc(inv: Invocation) -> Verdict:
    if any(arg.text.startswith("--prune") for arg in inv.args):
        inv.find("git.history")
    return MUTATING


def _update_ref(inv: Invocation) -> Verdict:
    if any(arg.text in ("-d", "--delete", "--stdin") for arg in inv.args):
        inv.find("git.history")
    return MUTATING


def _worktree(inv: Invocation) -> Verdict:
    word = _word(inv)
    if word == "list":
        return _READS
    if word == "remove":
        inv.find("git.discard")
    if word == "add":
        operands = [a for a in inv.args if not a.text.startswith("-")][1:2]
        for operand in operands:
            inv.walk.write(operand, inv.scope)
    return MUTATING


def _submodule(inv: Invocation) -> Verdict:
    word = _word(inv)
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
    word = _word(inv)
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
    return Verdict(_word(inv) in ("", "list", "show"))


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


_RULES: Final[dict[str, Callable[[Invocation], Verdict]]] = {
    "branch": _branch,
    "tag": _tag,
    "stash": _stash,
    "reflog": _reflog,
    "remote": _remote,
    "config": _config,
    "reset": _reset,
    "clean": _clean,
    "checkout": _checkout,
    "restore": _restore,
    "switch": _switch,
    "commit": _commit,
    "rebase": _rebase,
    "rm": _remove,
    "gc": _gc,
    "update-ref": _update_ref,
    "worktree": _worktree,
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

RULES: Final[dict[str, Callable[[Invocation], Verdict]]] = {"git": _git}
