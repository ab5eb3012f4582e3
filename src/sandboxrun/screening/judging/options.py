"""Options of a command line, read the way getopt does."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from sandboxrun.screening.reading import marks
from sandboxrun.screening.reading.expand import Arg


class Options(NamedTuple):
    """What a command line says."""

    short: frozenset[str]
    long: tuple[str, ...]
    """Long options as typed, without dashes and value; they may be abbreviated."""
    values: tuple[tuple[str, Arg], ...]
    """Options with their values."""
    operands: tuple[Arg, ...]
    doubtful: bool
    """An unquoted unknown stands where it could be an option."""

    def has(self, letters: str = "", *names: str) -> bool:
        """Tell whether one of the short ``letters`` or long ``names`` is given."""
        if any(letter in self.short for letter in letters):
            return True
        return any(_could_mean(typed, name) for typed in self.long for name in names)

    def value(self, letters: str = "", *names: str) -> Arg | None:
        """Return the last value given to one of these options."""
        found = None
        for name, value in self.values:
            known = name in letters if len(name) == 1 else any(_could_mean(name, n) for n in names)
            found = value if known else found
        return found

    def all_values(self, letters: str = "", *names: str) -> list[Arg]:
        """Return every value given to one of these options."""
        return [
            value
            for name, value in self.values
            if (name in letters if len(name) == 1 else any(_could_mean(name, n) for n in names))
        ]


def _could_mean(typed: str, name: str) -> bool:
    """Tell whether getopt takes ``typed`` for ``name``: it accepts unambiguous beginnings."""
    return typed == name or (len(typed) > 1 and name.startswith(typed))


def read_options(
    args: Iterable[Arg],
    short_values: str = "",
    long_values: Iterable[str] = (),
    *,
    stop: bool = False,
) -> Options:
    """Read ``args``. ``stop`` ends the options at the first operand, as wrappers do."""
    arguments = list(args)
    longs = tuple(long_values)
    short: set[str] = set()
    long: list[str] = []
    values: list[tuple[str, Arg]] = []
    operands: list[Arg] = []
    doubtful = False
    at = 0
    while at < len(arguments):
        argument = arguments[at]
        text = argument.text
        at += 1
        if text == "--":
            operands.extend(arguments[at:])
            break
        if len(text) > 1 and text.startswith("--"):
            name, equals, value = text[2:].partition("=")
            long.append(name)
            if equals:
                values.append((name, argument._replace(text=value)))
            elif any(_could_mean(name, known) for known in longs) and at < len(arguments):
                values.append((name, arguments[at]))
                at += 1
        elif len(text) > 1 and text.startswith("-"):
            taken = _cluster(argument, arguments[at : at + 1], short_values, short, values)
            at += taken
        else:
            doubtful = doubtful or text.startswith(marks.SPLAT)
            operands.append(argument)
            if stop:
                operands.extend(arguments[at:])
                break
    return Options(frozenset(short), tuple(long), tuple(values), tuple(operands), doubtful)


def _cluster(
    argument: Arg,
    following: list[Arg],
    short_values: str,
    short: set[str],
    values: list[tuple[str, Arg]],
) -> int:
    """Read a cluster of short options. Return how many further arguments it took."""
    text = argument.text
    for place in range(1, len(text)):
        letter = text[place]
        short.add(letter)
        if letter in short_values:
            rest = text[place + 1 :]
            if rest:
                values.append((letter, argument._replace(text=rest)))
                return 0
            values.extend((letter, value) for value in following)
            return len(following)
    return 0
