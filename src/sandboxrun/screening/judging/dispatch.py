"""From a command's words to the rules for its program."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from sandboxrun.screening.judging import tables
from sandboxrun.screening.judging.invocation import MUTATING, Invocation, Judge, Verdict
from sandboxrun.screening.judging.operands import scan_operands
from sandboxrun.screening.judging.options_that_run import option_rule
from sandboxrun.screening.judging.paths import component_matches, resolve
from sandboxrun.screening.judging.readers import READERS, judge_reader
from sandboxrun.screening.judging.rules import RULES
from sandboxrun.screening.judging.wrappers import judge_wrapper, wrapper_of
from sandboxrun.screening.reading import marks
from sandboxrun.screening.reading.expand import Arg
from sandboxrun.screening.reading.scope import Scope

if TYPE_CHECKING:
    from sandboxrun.screening.walk import Walk

_PROGRAM_DIRECTORIES: Final = frozenset(
    "/bin /sbin /usr/bin /usr/sbin /usr/local/bin /usr/local/sbin /opt/homebrew/bin /snap/bin"
    " /usr/libexec /usr/lib /lib /lib64 /usr/lib64".split()
)


def judge_command(walk: Walk, args: tuple[Arg, ...], scope: Scope, stdin: str | None) -> Verdict:
    """Judge one simple command. Its first word may be anything."""
    head = args[0]
    text = head.text
    if not marks.is_static(text):
        return _unresolved(walk, args, scope, stdin)
    if not text.isascii() and marks.HOME not in text:
        walk.find("text.name", head)
        return MUTATING
    if "/" not in text:
        if text in scope.functions:
            return walk.call(text, args[1:], scope, stdin)
        return _program(walk, text, args, scope, stdin, trusted=not scope.path_changed)
    return _path(walk, args, scope, stdin)


def _path(walk: Walk, args: tuple[Arg, ...], scope: Scope, stdin: str | None) -> Verdict:
    head = args[0]
    verdict = MUTATING
    for path in resolve(head.text, scope):
        directory, _, name = path.rpartition("/")
        if path in scope.files:
            content = head._replace(text=scope.files[path])
            positional = tuple(arg.text for arg in args[1:])
            walk.code(content, scope.copy(), stdin, positional)
        elif directory in _PROGRAM_DIRECTORIES or _climbs(head.text):
            verdict = _program(walk, name, args, scope, stdin, trusted=True)
        else:
            if not path.startswith("/workspace/"):
                walk.read(head, scope)
            verdict = _local(walk, name, args, scope, stdin)
    return verdict


def _climbs(text: str) -> bool:
    """Tell whether a relative path goes up and then into a directory of programs."""
    return text.startswith("../") and ("/bin/" in text or "/sbin/" in text)


def _local(
    walk: Walk, name: str, args: tuple[Arg, ...], scope: Scope, stdin: str | None
) -> Verdict:
    """Judge a program that is a file of the project: a name proves nothing about it."""
    if name in tables.LOCAL_TOOLS or name.startswith("python"):
        return _program(walk, name, args, scope, stdin, trusted=False)._replace(read_only=False)
    scan_operands(walk, args[1:], scope)
    _unknown_wrapper(walk, args[1:], scope)
    return Verdict(False, marks.UNKNOWN + marks.taint(stdin))


def _program(
    walk: Walk, name: str, args: tuple[Arg, ...], scope: Scope, stdin: str | None, *, trusted: bool
) -> Verdict:
    trusted = trusted and name not in scope.aliases and name not in scope.shadowed
    invocation = Invocation(name, args[0], args[1:], trusted, stdin, scope, walk)
    verdict = _ruled(invocation)
    return verdict if trusted or not verdict.read_only else verdict._replace(read_only=False)


def _ruled(inv: Invocation) -> Verdict:
    name = inv.name
    code = tables.never_code(name)
    if code is not None:
        inv.find(code)
        inv.walk.note_privilege(name)
        if name in tables.RAISERS:
            wrapper = wrapper_of(inv)
            if wrapper is not None:
                judge_wrapper(inv, wrapper)
        return MUTATING
    if _asks_version(inv):
        return Verdict(True)
    option_rule(inv)
    wrapper = wrapper_of(inv)
    if wrapper is not None:
        return judge_wrapper(inv, wrapper)
    rule = RULES.get(name)
    if rule is not None:
        return rule(inv)
    known = tables.unversioned(name)
    if known is not None:
        return _ruled(replace(inv, name=known))
    ask = tables.ask_code(name)
    if ask is not None:
        inv.find(ask)
        if ask.startswith("network"):
            inv.walk.note_network(name)
        scan_operands(inv.walk, inv.args, inv.scope)
        return MUTATING
    reader = READERS.get(name)
    if reader is not None:
        return judge_reader(inv, reader)
    scan_operands(inv.walk, inv.args, inv.scope)
    _unknown_wrapper(inv.walk, inv.args, inv.scope)
    _unknown_options(inv)
    return Verdict(False, marks.UNKNOWN + marks.taint(inv.stdin))


_TEXTS: Final = re.compile(
    r"-+(?:m|message|msg|t|title|body|b|subject|s|text|comment|description|desc|d|note|n|name|label|l"
    r"|reason|prompt|p|header|summary|pattern|regex|query|q|grep|filter|format|f|help|k|match)"
)
"""Options of programs nobody knows whose value is more likely prose than a command."""


def _unknown_options(inv: Invocation) -> None:
    """Ask about an option of an unknown program whose value reads like a refused command."""
    for place, arg in enumerate(inv.args):
        name, equals, value = arg.text.partition("=")
        before = inv.args[place - 1].text if place else ""
        if equals and name.startswith("-"):
            option, text = name, value
        elif before.startswith("-") and "=" not in before:
            option, text = before, arg.text
        else:
            continue
        if any(blank in text for blank in " \n") and not _TEXTS.fullmatch(option):
            place_of_text = arg._replace(text=text)
            if inv.walk.suspects(place_of_text, inv.scope):
                inv.find("option.program", place_of_text)


_BEHIND_WRAPPERS: Final = frozenset(
    "sudo doas pkexec su rm mkfs dd shutdown reboot nsenter unshare chroot bash sh chmod".split()
)


def _unknown_wrapper(walk: Judge, args: tuple[Arg, ...], scope: Scope) -> None:
    """Look for a refused command in the arguments of a program that nobody knows."""
    for place, arg in enumerate(args[:-1]):
        if arg.text.rpartition("/")[2] in _BEHIND_WRAPPERS:
            walk.suspect(args[place:], scope)


def _asks_version(inv: Invocation) -> bool:
    """Tell whether a known program is only asked for its version or its help."""
    return (
        len(inv.args) == 1
        and inv.name in tables.VERSIONED
        and inv.args[0].text in tables.VERSION_OPTIONS.get(inv.name, tables.USUAL_VERSION_OPTIONS)
    )


def _unresolved(walk: Walk, args: tuple[Arg, ...], scope: Scope, stdin: str | None) -> Verdict:
    head = args[0]
    text = head.text
    if marks.NETWORK in text:
        walk.find("code.network", head)
    elif marks.DECODED in text:
        walk.find("code.decoded", head)
    else:
        walk.find("unresolved.command", head)
    name = text.rpartition("/")[2]
    if marks.is_static(name) and name:
        _program(walk, name, args, scope, stdin, trusted=False)
    elif marks.has_glob(name) and not marks.is_unresolved(name):
        for candidate in tables.DANGEROUS_NAMES:
            if component_matches(name, candidate):
                _program(walk, candidate, args, scope, stdin, trusted=False)
    scan_operands(walk, args[1:], scope)
    return MUTATING
