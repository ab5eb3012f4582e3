"""What a script has said so far: variables, functions, files, the working directory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from sandboxrun.screening.grammar.tree import Statement
from sandboxrun.screening.limits import ALTERNATIVES
from sandboxrun.screening.reading.marks import HOME_PATH, OPAQUE, UNKNOWN

WORKSPACE: Final = "/workspace"

_INITIAL: Final[dict[str, tuple[str, ...]]] = {
    "HOME": (HOME_PATH,),
    "PWD": (WORKSPACE,),
    "SHELL": ("/bin/bash",),
    "BASH": ("/bin/bash",),
    "IFS": (" \t\n",),
    "TMPDIR": ("/tmp",),  # noqa: S108 - the sandbox's own tmpfs
    "?": (OPAQUE,),
    "$": (OPAQUE,),
    "!": (OPAQUE,),
    "#": (OPAQUE,),
    "-": (OPAQUE,),
    "PPID": (OPAQUE,),
    "RANDOM": (OPAQUE,),
    "SECONDS": (OPAQUE,),
    "LINENO": (OPAQUE,),
    "UID": (OPAQUE,),
    "EUID": (OPAQUE,),
    "USER": (OPAQUE,),
    "HOSTNAME": (OPAQUE,),
    "OSTYPE": ("linux-gnu",),
    "0": ("bash",),
}


def joined(*groups: tuple[str, ...]) -> tuple[str, ...]:
    """Return the alternatives of all ``groups``; too many become one unknown."""
    values = tuple(dict.fromkeys(value for group in groups for value in group))
    return values if len(values) <= ALTERNATIVES else (UNKNOWN, *values[: ALTERNATIVES - 1])


class Defined(NamedTuple):
    """A function's body and where the script lies that defines it."""

    body: Statement
    origin: Origin


class Origin(NamedTuple):
    """Where a script's text lies in the command that is screened.

    With ``exact`` its first byte is the command's byte ``start``; otherwise all of it stands for
    the bytes from ``start`` to ``end``.
    """

    start: int
    end: int
    exact: bool

    def place(self, start: int, end: int) -> tuple[int, int]:
        """Return the command's span for a span of the script."""
        if not self.exact:
            return self.start, self.end
        return min(self.start + start, self.end), min(self.start + end, self.end)


@dataclass(slots=True)
class Scope:
    """The state that a script's statements change while they are read."""

    variables: dict[str, tuple[str, ...]] = field(default_factory=lambda: dict(_INITIAL))
    arrays: dict[str, tuple[str, ...]] = field(default_factory=dict)
    functions: dict[str, Defined] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    """Text that the script itself wrote into files, by path."""
    positional: tuple[str, ...] | None = ()
    """The positional parameters, or None where they are unknown."""
    possible: tuple[tuple[str, ...], ...] = ()
    """Positional parameters that it may have where they are unknown."""
    shadowed: frozenset[str] = frozenset()
    """Names that no longer mean the program of that name."""
    path_changed: bool = False

    def copy(self) -> Scope:
        """Return a scope whose changes stay its own."""
        return Scope(
            dict(self.variables),
            dict(self.arrays),
            dict(self.functions),
            dict(self.aliases),
            dict(self.files),
            self.positional,
            self.possible,
            self.shadowed,
            self.path_changed,
        )

    def lookup(self, name: str) -> tuple[str, ...]:
        """Return what variable ``name`` can hold."""
        if name.isdigit() and name != "0":
            return self._positional(int(name) - 1)
        if name in self.arrays:
            elements = self.arrays[name]
            return elements[:1] or ("",)
        return self.variables.get(name, (UNKNOWN,))

    def _positional(self, place: int) -> tuple[str, ...]:
        if self.positional is None:
            return (UNKNOWN, *(p[place] for p in self.possible if place < len(p)))
        return (self.positional[place],) if place < len(self.positional) else ("",)

    def elements(self, name: str) -> tuple[str, ...] | None:
        """Return the elements behind ``@`` of ``name``, or None where they are unknown."""
        if name in ("@", "*"):
            return self.positional
        if name in self.arrays:
            return self.arrays[name]
        values = self.variables.get(name)
        return values if values is not None and len(values) == 1 else None

    def assign(self, name: str, values: tuple[str, ...]) -> None:
        """Set a variable."""
        self.arrays.pop(name, None)
        self.variables[name] = joined(values)
        if name == "PATH":
            self.path_changed = True

    def assign_array(self, name: str, elements: tuple[str, ...]) -> None:
        """Set an array."""
        self.variables.pop(name, None)
        self.arrays[name] = elements

    def directories(self) -> tuple[str, ...]:
        """Return what the working directory can be."""
        return self.variables.get("PWD", (UNKNOWN,))

    def absorb(self, other: Scope) -> None:
        """Make this the scope after a branch that may or may not have been taken."""
        for name in self.variables.keys() | other.variables.keys():
            mine = self.variables.get(name, (UNKNOWN,))
            theirs = other.variables.get(name, (UNKNOWN,))
            if mine != theirs:
                self.variables[name] = joined(mine, theirs)
        for name, elements in other.arrays.items():
            if self.arrays.setdefault(name, elements) != elements:
                self.arrays[name] = (UNKNOWN,)
        for name in other.arrays.keys() & self.variables.keys():
            del self.variables[name]
        self.functions.update(other.functions)
        self.aliases.update(other.aliases)
        self.files.update(other.files)
        if (self.positional, self.possible) != (other.positional, other.possible):
            known = [p for p in (self.positional, other.positional) if p]
            both = dict.fromkeys((*self.possible, *other.possible, *known))
            self.possible = tuple(both)[:ALTERNATIVES]
            self.positional = None
        self.shadowed |= other.shadowed
        self.path_changed = self.path_changed or other.path_changed
