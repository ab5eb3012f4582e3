"""Credentials and devices among the arguments of programs that are not known more closely."""

from __future__ import annotations

import re

from sandboxrun.screening.judging.access import read_codes
from sandboxrun.screening.judging.invocation import Judge
from sandboxrun.screening.reading.expand import Arg
from sandboxrun.screening.reading.scope import Scope


def scan_operands(walk: Judge, args: tuple[Arg, ...], scope: Scope) -> None:
    """Report credentials among the arguments of a program that is not known more closely."""
    for arg in args:
        for candidate in _paths_in(arg):
            for code in read_codes(candidate.text, scope):
                if code.startswith(("secret", "escape")):
                    walk.read(candidate, scope)
                elif code == "device.raw":
                    walk.find(code, candidate)


def _paths_in(arg: Arg) -> list[Arg]:
    """Return an argument and the parts of it that programs take for paths."""
    text = arg.text
    if not text or any(blank in text for blank in " \n\t"):
        return []
    found = [arg]
    for separator in ("=", "@", "file://"):
        _, hit, rest = text.partition(separator)
        if hit and rest:
            found.append(arg._replace(text=rest.lstrip("@")))
    if ":" in text and "://" not in text:
        found.extend(arg._replace(text=piece) for piece in text.split(":"))
    if re.match(r"-[^-].", text):
        found.append(arg._replace(text=text[2:].lstrip("=@")))
    return [a for a in found if a.text]
