"""One recursive walk over the statements; the strictest finding wins and nothing is skipped."""

from __future__ import annotations

import time
from pathlib import Path

from sandboxrun.screening.collect import Collector
from sandboxrun.screening.facts import Tier
from sandboxrun.screening.grammar.canary import canary_commands
from sandboxrun.screening.grammar.gate import encoded
from sandboxrun.screening.grammar.parse import Parsed, parse_script
from sandboxrun.screening.grammar.plain import read_plain
from sandboxrun.screening.grammar.tree import (
    Process,
    Statement,
)
from sandboxrun.screening.hazards import is_fork_bomb
from sandboxrun.screening.judging.access import read_codes, write_codes
from sandboxrun.screening.judging.dispatch import judge_command
from sandboxrun.screening.judging.invocation import MUTATING, Verdict
from sandboxrun.screening.limits import (
    CALL_DEPTH,
    CODE_DEPTH,
    LOOSE_SECONDS,
    VALUE_CHARACTERS,
    WALK_SECONDS,
)
from sandboxrun.screening.reading import marks
from sandboxrun.screening.reading.expand import Arg
from sandboxrun.screening.reading.scope import Defined, Origin, Scope
from sandboxrun.screening.redirects import Streams, apply_redirects
from sandboxrun.screening.statements import read_command, read_group


class Walk:
    """The state of one screening."""

    def __init__(self, collector: Collector, source: bytes, binary: Path, deadline: float) -> None:
        self.collector = collector
        self._source = source
        self._binary = binary
        self._deadline = deadline
        self._cpu_deadline = time.thread_time() + WALK_SECONDS
        self._origin = Origin(0, len(source), exact=True)
        self._parsed: dict[str, Parsed] = {}
        self._processes: list[str] = []
        self._readers: dict[int, tuple[tuple[Statement, ...], Scope]] = {}
        self._depth = 0
        self._calls: list[tuple[int, tuple[str, ...] | None]] = []
        self._uncalled: dict[int, Defined] = {}
        self._exhausted = False

    # -- scripts -----------------------------------------------------------------------------

    def script(self, text: str, scope: Scope, origin: Origin, stdin: str | None) -> str:
        """Read a whole script and return what it prints."""
        outer, self._origin = self._origin, origin
        self._depth += 1
        try:
            parsed = self._parse(text)
            if parsed.doubt is not None:
                self.collector.find(parsed.doubt, *origin.place(0, len(encoded(text))))
            if parsed.statements is None:
                self.collector.read_only = False
                self._loosely(text, scope, stdin, short=parsed.doubt == "unparsed")
                return marks.UNKNOWN + marks.taint(text)
            return self.run(parsed.statements, scope, stdin)
        finally:
            self._depth -= 1
            self._origin = outer

    def _parse(self, text: str) -> Parsed:
        if text not in self._parsed:
            self._parsed[text] = parse_script(text, self._binary, self._deadline)
        return self._parsed[text]

    def _loosely(self, text: str, scope: Scope, stdin: str | None, *, short: bool) -> None:
        """Look for danger in a script that could not be read.

        Bash runs the lines before a syntax error. What is found here only ever makes the
        verdict stricter.
        """
        self._origin = Origin(self._origin.start, self._origin.end, exact=False)
        if self._depth == 1:
            # What measuring the text has cost must not keep its ends from being looked at.
            self._deadline = max(self._deadline, time.monotonic() + LOOSE_SECONDS)
        if short:
            found = canary_commands(encoded(text), self._deadline)
            pieces = [command for command in found if command != text]
            for statements in (*map(self._statements, pieces), self._before_error(text)):
                self._run_loosely(statements, scope, stdin)
        for line in _ends(text):
            for piece in (line, *line.split(";")[:_LOOSE_LINES]):
                self._run_loosely(read_plain(piece), scope, stdin)

    def _statements(self, text: str) -> tuple[Statement, ...] | None:
        return self._parse(text).statements

    def _before_error(self, text: str) -> tuple[Statement, ...] | None:
        """Return the statements of a script without its last lines, if that can be read."""
        lines = text.rstrip("\n").split("\n")
        for dropped in range(1, min(_DROPPED_LINES, len(lines) - 1) + 1):
            statements = self._statements("\n".join(lines[:-dropped]) + "\n")
            if statements is not None:
                return statements
        return None

    def _run_loosely(
        self, statements: tuple[Statement, ...] | None, scope: Scope, stdin: str | None
    ) -> None:
        if statements is not None and not self._late():
            self.run(statements, scope.copy(), stdin)

    def finish(self, scope: Scope) -> None:
        """Read the functions that nobody called: something outside may call them."""
        while self._uncalled:
            _, defined = self._uncalled.popitem()
            inner = scope.copy()
            inner.positional = None
            self._call(defined, inner, None)

    def _late(self) -> bool:
        if not self._exhausted and (
            time.thread_time() > self._cpu_deadline or time.monotonic() > self._deadline
        ):
            self._exhausted = True
            self.collector.find("limit.time", *self._origin.place(0, 1 << 40))
            self.collector.read_only = False
        return self._exhausted

    # -- statements --------------------------------------------------------------------------

    def run(self, statements: tuple[Statement, ...], scope: Scope, stdin: str | None) -> str:
        """Read statements in order; return what they print."""
        output = ""
        for statement in statements:
            if output.endswith(marks.UNKNOWN):
                # What an unknown program prints ends its line as a rule; the next command's does not
                # continue it.
                output += "\n"
            output += self.statement(statement, scope, stdin)
        return _bounded(output)

    def statement(self, statement: Statement, scope: Scope, stdin: str | None) -> str:
        """Read one statement with its redirections."""
        if self._late():
            return marks.UNKNOWN
        inner = scope.copy() if statement.background else scope
        streams = Streams(stdin)
        if statement.redirects:
            streams = apply_redirects(self, statement, inner, stdin)
        if statement.command is not None:
            output = read_command(self, statement, statement.command, inner, streams.stdin)
        else:
            # `$(< file)` is the file's text.
            output = streams.stdin if statement.redirects and streams.stdin is not None else ""
        for path in streams.sinks:
            before = inner.files.get(path, "") if streams.append else ""
            scope.files[path] = _bounded(before + output)
            self.feed(path, output)
        return "" if streams.sinks else output

    def feed(self, path: str, text: str) -> None:
        """Read the process substitution behind ``path`` again, now with what it is given."""
        place = _process_number(path)
        reader = None if place is None else self._readers.get(place)
        if reader is not None:
            statements, scope = reader
            self.run(statements, scope.copy(), text)

    # -- functions ---------------------------------------------------------------------------

    def define(self, statement: Statement, name: str, body: Statement, scope: Scope) -> None:
        """Remember a function's definition."""
        if is_fork_bomb(name, body):
            self.collector.find("fork.bomb", *self._origin.place(statement.start, statement.end))
            self.collector.read_only = False
        defined = Defined(body, self._origin)
        scope.functions[name] = defined
        scope.shadowed |= {name}
        self._uncalled[id(body)] = defined

    def call(self, name: str, args: tuple[Arg, ...], scope: Scope, stdin: str | None) -> Verdict:
        """Judge a call of a function that the script defined."""
        defined = scope.functions[name]
        self._uncalled.pop(id(defined.body), None)
        before, scope.positional = scope.positional, tuple(arg.text for arg in args)
        try:
            return Verdict(True, self._call(defined, scope, stdin))
        finally:
            scope.positional = before

    def _call(self, defined: Defined, scope: Scope, stdin: str | None) -> str:
        """Read a function's body. A recursion is followed a few times, then with unknown words."""
        body = id(defined.body)
        if sum(1 for called, _ in self._calls if called == body) >= _RECURSIONS:
            scope.positional = None
        call = (body, scope.positional)
        if call in self._calls or len(self._calls) >= CALL_DEPTH:
            return marks.UNKNOWN
        self._calls.append(call)
        outer, self._origin = self._origin, defined.origin
        try:
            return self.statement(defined.body, scope, stdin)
        finally:
            self._origin = outer
            self._calls.pop()

    # -- what expansion asks -----------------------------------------------------------------

    def substitute(self, statements: tuple[Statement, ...], scope: Scope) -> str:
        """Read a command substitution in a subshell."""
        return read_group(self, statements, scope, None, subshell=True)

    def process(self, part: Process, scope: Scope) -> str:
        """Read a process substitution; return the path that stands for it."""
        place = len(self._processes)
        self._processes.append("")
        text = read_group(
            self, part.statements, scope, marks.UNKNOWN if part.output else None, subshell=True
        )
        self._processes[place] = "" if part.output else text
        if part.output:
            self._readers[place] = part.statements, scope.copy()
        return "/dev/fd/" + chr(min(ord(marks.PROCESS) + place, ord(marks.PROCESS_END) - 1))

    def process_text(self, path: str) -> str | None:
        """Return what the process behind ``path`` prints; None for other paths."""
        place = _process_number(path)
        return None if place is None else self._processes[place]

    def prompt(self, text: str, start: int, end: int, scope: Scope) -> None:
        """Read text that bash expands once more: subscripts, prompts, arithmetic names."""
        if "$(" not in text and "`" not in text and "${" not in text:
            return
        if marks.is_unresolved(text) and "$(" not in text:
            self.collector.find("unresolved.code", *self._origin.place(start, end))
            return
        quoted = text.replace("\\", "\\\\").replace('"', '\\"')
        self.code(Arg(f': "{quoted}"', start, end), scope, None)

    # -- what rules ask ----------------------------------------------------------------------

    def find(self, code: str, *args: Arg) -> None:
        """Report a finding at the first of ``args``."""
        if code in _CHANGING:
            self.collector.read_only = False
        self.collector.find(code, *self._origin.place(args[0].start, args[0].end))

    def judge(self, args: tuple[Arg, ...], scope: Scope, stdin: str | None) -> Verdict:
        """Judge one simple command; the walk's effect follows."""
        if not args or self._late():
            return Verdict(True, "")
        placed = tuple(Arg(a.text, *self._origin.place(a.start, a.end)) for a in args)
        if not self.collector.command(placed):
            self.find("limit.commands", args[0])
            self.collector.read_only = False
            return MUTATING
        self._depth += 1
        try:
            if self._depth > 4 * CODE_DEPTH:
                self.find("limit.depth", args[0])
                self.collector.read_only = False
                return MUTATING
            verdict = judge_command(self, args, scope, stdin)
        finally:
            self._depth -= 1
        self.collector.read_only = self.collector.read_only and verdict.read_only
        return verdict

    def suspect(self, args: tuple[Arg, ...], scope: Scope) -> None:
        """Judge what only may be a command: nothing but its refusals counts."""
        outer, self.collector = self.collector, Collector()
        try:
            self.judge(args, scope.copy(), None)
        finally:
            inner, self.collector = self.collector, outer
        inner.hand_over(outer)

    def suspects(self, script: Arg, scope: Scope) -> bool:
        """Tell whether text would be refused if a shell ran it. It makes no finding."""
        outer, self.collector = self.collector, Collector()
        try:
            self.code(script, scope.copy(), None)
        finally:
            inner, self.collector = self.collector, outer
        return inner.facts().tier is Tier.NEVER

    def code(
        self,
        script: Arg,
        scope: Scope,
        stdin: str | None,
        positional: tuple[str, ...] | None = None,
    ) -> Verdict:
        """Judge text that a shell runs, wherever the text comes from."""
        text = marks.plain(script.text)
        if marks.NETWORK in text:
            self.find("code.network", script)
        if marks.DECODED in text:
            self.find("code.decoded", script)
        if marks.is_unresolved(text):
            self.find("unresolved.code", script)
            self.collector.read_only = False
        if self._depth > CODE_DEPTH:
            self.find("limit.depth", script)
            self.collector.read_only = False
            return MUTATING
        before = scope.positional
        if positional is not None:
            scope.positional = positional
        try:
            output = self.script(text, scope, self._within(script, text), stdin)
        finally:
            scope.positional = before
        return Verdict(True, output)

    def _within(self, script: Arg, text: str) -> Origin:
        """Return where ``text`` lies: exactly, where the command's bytes hold it as it is."""
        start, end = self._origin.place(script.start, script.end)
        data = encoded(text)
        place = self._source.find(data, start, end) if data else -1
        if place < 0:
            return Origin(start, end, exact=False)
        return Origin(place, place + len(data), exact=True)

    def read(self, path: Arg, scope: Scope) -> None:
        """Report what reading ``path`` means."""
        self.collector.note("reads", path.text)
        self._access(path, read_codes(path.text, scope))

    def write(self, path: Arg, scope: Scope) -> None:
        """Report what writing ``path`` means."""
        self.collector.note("writes", path.text)
        self._access(path, write_codes(path.text, scope))

    def _access(self, path: Arg, codes: list[str]) -> None:
        for code in codes:
            if code.startswith("secret"):
                self.collector.note("credentials", path.text)
            self.find(code, path)

    def note_redirection(self, operator: str, target: Arg) -> None:
        """Record a redirection to or from a file."""
        place = self._origin.place(target.start, target.end)
        self.collector.redirection(operator, Arg(target.text, *place))

    def mutates(self) -> None:
        """Record that something other than a command's own rule changes files."""
        self.collector.read_only = False

    def note_network(self, name: str) -> None:
        """Record a wish for the network."""
        self.collector.note("network", name)

    def note_privilege(self, name: str) -> None:
        """Record a wish for privileges."""
        self.collector.note("privileges", name)


_RECURSIONS = 3
_CHANGING = frozenset({"env.code", "option.program", "git.hook", "unresolved.code"})
"""Findings after which a program other than the one named may run: nothing is proved."""
_DROPPED_LINES = 2
"""Last lines without which an unparsable script is tried again."""
_LOOSE_LINES = 200
_LOOSE_CHARACTERS = 2000
_LOOSE_TEXT = 100_000


def _ends(text: str) -> list[str]:
    """Return the first and the last lines of a text, each cut to a bounded length."""
    lines = text[:_LOOSE_TEXT].split("\n")[:_LOOSE_LINES]
    if len(text) > _LOOSE_TEXT:
        lines += text[-_LOOSE_TEXT:].split("\n")[-_LOOSE_LINES:]
    return [line[:_LOOSE_CHARACTERS] for line in lines]


def _process_number(path: str) -> int | None:
    if path.startswith("/dev/fd/") and len(path) == len("/dev/fd/") + 1:
        number = ord(path[-1]) - ord(marks.PROCESS)
        return number if 0 <= number < ord(marks.PROCESS_END) - ord(marks.PROCESS) else None
    return None


def _bounded(text: str) -> str:
    return text if len(text) <= VALUE_CHARACTERS else marks.UNKNOWN + marks.taint(text)
