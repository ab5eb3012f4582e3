"""Shells: where their script comes from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sandboxrun.screening.judging.builtins import file_text
from sandboxrun.screening.judging.invocation import MUTATING, Invocation, Verdict
from sandboxrun.screening.reading import marks
from sandboxrun.screening.reading.expand import Arg

_VALUE_OPTIONS: Final = frozenset(
    {"--rcfile", "--init-file", "-o", "+o", "-O", "+O", "--init-command"}
)


def _shell(inv: Invocation) -> Verdict:
    args = list(inv.args)
    takes_string = from_stdin = interactive = False
    string: Arg | None = None
    while args:
        text = args[0].text
        if text in ("--", "-"):
            args.pop(0)
            break
        if text in _VALUE_OPTIONS or (text[:1] in "-+" and text[-1:] in "oO" and "c" not in text):
            _value_option(inv, args[:2])
            args = args[2:]
        elif text.startswith("--command="):
            string = args[0]._replace(text=text.partition("=")[2])
            args.pop(0)
        elif text == "--command":
            takes_string = True
            args.pop(0)
        elif text.startswith("--"):
            args.pop(0)
        elif text[:1] in ("-", "+") and len(text) > 1:
            takes_string = takes_string or ("c" in text and text[0] == "-")
            from_stdin = from_stdin or "s" in text
            interactive = interactive or "i" in text
            args.pop(0)
            if takes_string and "o" in text and args:
                args.pop(0)
        else:
            break
    if string is None and takes_string:
        # An option may still stand between -c and its string.
        while args and args[0].text.startswith(("-", "+")) and len(args) > 1:
            args = args[2:] if args[0].text in _VALUE_OPTIONS else args[1:]
        string = args.pop(0) if args else None
    if string is not None:
        return _string(inv, string, args)
    if args and not from_stdin:
        return _file(inv, args)
    return _stdin(inv, args, interactive=interactive)


def _value_option(inv: Invocation, option: list[Arg]) -> None:
    if len(option) > 1 and option[0].text in ("--rcfile", "--init-file", "--init-command"):
        text = file_text(inv, option[1])
        if text is not None:
            inv.walk.code(option[1]._replace(text=text), inv.scope.copy(), None)


def _string(inv: Invocation, string: Arg, args: list[Arg]) -> Verdict:
    scope = inv.scope.copy()
    scope.assign("0", (args[0].text if args else inv.name,))
    positional = tuple(arg.text for arg in args[1:])
    verdict = inv.walk.code(string, scope, inv.stdin, positional)
    inv.scope.files.update(scope.files)
    return verdict


def _file(inv: Invocation, args: list[Arg]) -> Verdict:
    file, *rest = args
    inv.walk.read(file, inv.scope)
    text = file_text(inv, file)
    if text is not None:
        positional = tuple(arg.text for arg in rest)
        return inv.walk.code(file._replace(text=text), inv.scope.copy(), None, positional)
    if marks.NETWORK in file.text or marks.DECODED in file.text:
        inv.walk.code(file, inv.scope.copy(), None)
    for arg in rest:
        inv.walk.read(arg, inv.scope)
    return Verdict(False, marks.UNKNOWN + marks.taint(inv.stdin))


def _stdin(inv: Invocation, args: list[Arg], *, interactive: bool) -> Verdict:
    del interactive
    if inv.stdin is None:
        inv.find("unresolved.code")
        return MUTATING
    place = inv.whole._replace(text=inv.stdin)
    positional = tuple(arg.text for arg in args)
    verdict = inv.walk.code(place, inv.scope.copy(), None, positional)
    if marks.is_unresolved(inv.stdin):
        return verdict._replace(output=verdict.output + marks.SHELL)
    return verdict


def _multicall(inv: Invocation) -> Verdict:
    if not inv.args or inv.args[0].text.startswith("-"):
        return Verdict(True)
    return inv.inner(inv.args)


RULES: Final[dict[str, Callable[[Invocation], Verdict]]] = {
    **dict.fromkeys(
        ("bash", "sh", "dash", "ash", "zsh", "ksh", "ksh93", "mksh", "oksh", "pdksh", "rbash",
         "fish", "yash", "posh", "csh", "tcsh", "xonsh", "nu", "elvish", "osh", "ysh"),
        _shell,
    ),
    "busybox": _multicall,
    "toybox": _multicall,
    "coreutils": _multicall,
}  # fmt: skip
