"""Redirections: what a statement reads instead of its stdin, and where its output goes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sandboxrun.screening.grammar.tree import Literal, Redirect, Statement, Word
from sandboxrun.screening.judging.paths import resolve
from sandboxrun.screening.reading import marks
from sandboxrun.screening.reading.expand import Arg, Expander, unsplit
from sandboxrun.screening.reading.scope import Scope

if TYPE_CHECKING:
    from sandboxrun.screening.walk import Walk

_DUPLICATE: Final = re.compile(r"(?:\d+-?|-)$")
_SOCKET: Final = re.compile(r"/dev/(?:tcp|udp)/")
_SILENT: Final = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/full"})
_TABS: Final = re.compile(r"^\t+", re.MULTILINE)


@dataclass(slots=True)
class Streams:
    """Where a statement's stdin comes from and its stdout goes."""

    stdin: str | None
    sinks: list[str] = field(default_factory=list)
    """Resolved paths that stdout goes to."""
    append: bool = False


def apply_redirects(walk: Walk, statement: Statement, scope: Scope, stdin: str | None) -> Streams:
    """Report what the redirections of ``statement`` touch and return its streams."""
    streams = Streams(stdin)
    for redirect in statement.redirects:
        _apply(walk, redirect, scope, streams)
    return streams


def _apply(walk: Walk, redirect: Redirect, scope: Scope, streams: Streams) -> None:
    expander = Expander(scope, walk)
    if redirect.body is not None:
        text = _document(redirect, expander)
        if redirect.fd in (None, "0"):
            streams.stdin = text
        return
    if redirect.operator == "<<<":
        texts = [unsplit(text) for text in expander.encoded(redirect.target)]
        text = texts[0] if len(texts) == 1 else "\n".join(texts)
        if redirect.fd in (None, "0"):
            streams.stdin = text + "\n"
        return
    for alternative in expander.fields(redirect.target):
        for target in alternative[:1]:
            _target(walk, redirect, target, scope, streams)


def _document(redirect: Redirect, expander: Expander) -> str:
    body = redirect.body
    if body is None:
        return ""
    if _quoted(redirect.target):
        text = "".join(part.text for part in body.parts if isinstance(part, Literal))
    else:
        text = expander.document(body)
    return _TABS.sub("", text) if redirect.operator == "<<-" else text


def _quoted(delimiter: Word) -> bool:
    return any(not isinstance(p, Literal) or "\\" in p.text for p in delimiter.parts)


def _target(walk: Walk, redirect: Redirect, target: Arg, scope: Scope, streams: Streams) -> None:
    operator = redirect.operator
    if operator in ("<&", ">&") and _DUPLICATE.fullmatch(target.text):
        _duplicate(redirect, target.text, scope, streams)
        return
    walk.note_redirection(operator, target)
    if _SOCKET.match(target.text):
        walk.find("network.use", target)
        walk.note_network(target.text)
        # A socket is read and written: whoever has it as a descriptor can take orders from it.
        streams.stdin = marks.NETWORK + marks.UNKNOWN
        usual = "0" if operator[0] == "<" else "1"
        scope.files["&" + (redirect.fd or usual)] = streams.stdin
        return
    if operator in ("<", "<&", "<>"):
        if redirect.fd in (None, "0"):
            streams.stdin = _contents(walk, target, scope)
        walk.read(target, scope)
    if operator not in ("<", "<&"):
        _output(walk, redirect, target, scope, streams)


def _duplicate(redirect: Redirect, target: str, scope: Scope, streams: Streams) -> None:
    number = target.rstrip("-")
    flow = scope.files.get("&" + number)
    if redirect.operator == "<&" and redirect.fd in (None, "0"):
        streams.stdin = marks.UNKNOWN if flow is None else flow
    elif flow is not None and marks.NETWORK in flow and redirect.fd in (None, "1"):
        streams.stdin = flow


def _contents(walk: Walk, target: Arg, scope: Scope) -> str:
    text = walk.process_text(target.text)
    if text is not None:
        return text
    for path in resolve(target.text, scope):
        if path in scope.files:
            return scope.files[path]
    return "" if target.text == "/dev/null" else marks.UNKNOWN


def _output(walk: Walk, redirect: Redirect, target: Arg, scope: Scope, streams: Streams) -> None:
    if walk.process_text(target.text) is not None:
        streams.sinks.append(target.text)
        return
    if target.text in _SILENT:
        if target.text == "/dev/null" and redirect.fd in (None, "1"):
            streams.sinks.append(target.text)
        return
    walk.write(target, scope)
    walk.mutates()
    if redirect.fd in (None, "1"):
        streams.sinks.extend(resolve(target.text, scope))
        streams.append = ">>" in redirect.operator
