"""One simple command on its way through the rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from sandboxrun.screening.reading import marks
from sandboxrun.screening.reading.expand import Arg
from sandboxrun.screening.reading.scope import Scope


class Verdict(NamedTuple):
    """What the rules say beyond their findings."""

    read_only: bool
    """Proved: the command changes nothing in the workspace."""
    output: str = marks.UNKNOWN
    """What it prints, as far as it is known, with marks for where it comes from."""


class Judge(Protocol):
    """What rules may ask of the walk."""

    def find(self, code: str, *args: Arg) -> None:
        """Report a finding at the first of ``args``."""
        ...

    def judge(self, args: tuple[Arg, ...], scope: Scope, stdin: str | None) -> Verdict:
        """Judge a command inside this one."""
        ...

    def suspect(self, args: tuple[Arg, ...], scope: Scope) -> None:
        """Judge what only may be a command: nothing but its refusals counts."""
        ...

    def suspects(self, script: Arg, scope: Scope) -> bool:
        """Tell whether text would be refused if a shell ran it. It makes no finding."""
        ...

    def code(
        self,
        script: Arg,
        scope: Scope,
        stdin: str | None,
        positional: tuple[str, ...] | None = None,
    ) -> Verdict:
        """Judge text that a shell runs. Positional parameters stay when None."""
        ...

    def read(self, path: Arg, scope: Scope) -> None:
        """Report what reading ``path`` means."""
        ...

    def write(self, path: Arg, scope: Scope) -> None:
        """Report what writing ``path`` means."""
        ...

    def prompt(self, text: str, start: int, end: int, scope: Scope) -> None:
        """Report what text runs that bash expands once more."""
        ...

    def process_text(self, path: str) -> str | None:
        """Return what a process substitution prints, or None for other paths."""
        ...

    def feed(self, path: str, text: str) -> None:
        """Give text to the process substitution behind ``path``; nothing for other paths."""
        ...

    def note_network(self, name: str) -> None:
        """Record a wish for the network."""
        ...

    def note_privilege(self, name: str) -> None:
        """Record a wish for privileges."""
        ...


@dataclass(frozen=True, slots=True)
class Invocation:
    """A program with its arguments, and all it is run with."""

    name: str
    """The program's own name, without directories."""
    head: Arg
    args: tuple[Arg, ...]
    trusted: bool
    """The name means the system's program: no path to somewhere else, not shadowed."""
    stdin: str | None
    """What it reads, or None where it inherits the command's own stdin."""
    scope: Scope
    walk: Judge

    @property
    def whole(self) -> Arg:
        """The command as one place."""
        return Arg(self.name, self.head.start, max([self.head.end, *(a.end for a in self.args)]))

    def find(self, code: str, arg: Arg | None = None) -> None:
        """Report a finding at ``arg``, or at the command as a whole."""
        self.walk.find(code, self.whole if arg is None else arg)

    def inner(self, args: tuple[Arg, ...], stdin: str | None = None) -> Verdict:
        """Judge a command that this one runs."""
        return self.walk.judge(args, self.scope, self.stdin if stdin is None else stdin)

    def script(self, script: Arg, positional: tuple[str, ...] | None = None) -> Verdict:
        """Judge text that this command gives to a shell."""
        return self.walk.code(script, self.scope, self.stdin, positional)


MUTATING = Verdict(read_only=False)
"""The verdict where nothing is proved."""
