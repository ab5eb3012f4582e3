"""Programs that look for files and run others on what they find."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from sandboxrun.screening.judging.deletion import deletion_codes
from sandboxrun.screening.judging.invocation import Invocation, Verdict
from sandboxrun.screening.judging.options import read_options
from sandboxrun.screening.judging.outputs import contents
from sandboxrun.screening.judging.paths import Place, place_of, resolve
from sandboxrun.screening.judging.readers import READERS, judge_reader
from sandboxrun.screening.judging.secrets import is_key_name
from sandboxrun.screening.reading import marks
from sandboxrun.screening.reading.expand import Arg

_EXECUTES: Final = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_WRITES: Final = frozenset({"-fprint", "-fprint0", "-fls", "-fprintf"})
_CHANGES: Final = frozenset(
    ["chmod", "chown", "chgrp", "mv", "shred", "truncate", "rm", "unlink", "rmdir"]
)


def _find(inv: Invocation) -> Verdict:
    args = list(inv.args)
    while args and (args[0].text in ("-H", "-L", "-P") or re.match(r"-(?:O\d|D)", args[0].text)):
        args.pop(0)
    roots = []
    while args and not args[0].text.startswith(("-", "(", "!")):
        roots.append(args.pop(0))
    roots = roots or [inv.head._replace(text=".")]
    read_only = not any(root.text.startswith(marks.SPLAT) for root in roots)
    searched = any(is_key_name(name) for name in _names(args))
    for root in roots:
        inv.walk.read(root, inv.scope)
        if searched and _wide(root, inv):
            inv.find("secret.probe", root)
    at = 0
    while at < len(args):
        test = args[at].text
        if test in _EXECUTES:
            end = _command_end(args, at + 1)
            _execute(inv, args[at + 1 : end], roots, args)
            at = end
        elif test == "-delete":
            read_only = False
            _delete(inv, roots, args[at])
        elif test in _WRITES:
            read_only = False
            for target in args[at + 1 : at + 2]:
                inv.walk.write(target, inv.scope)
        elif test.startswith((marks.SPLAT, "-files0-from")):
            read_only = False
        at += 1
    return Verdict(read_only, _found(inv, roots, args))


def _found(inv: Invocation, roots: list[Arg], tests: list[Arg]) -> str:
    found = "".join(f"{root.text}\n{root.text.rstrip('/')}/{marks.UNKNOWN}\n" for root in roots)
    if any(_outside(root, inv) for root in roots) and any(is_key_name(n) for n in _names(tests)):
        found += f"{marks.HOME_PATH}/.ssh/id_rsa\n"
    return found


def _names(tests: list[Arg]) -> list[str]:
    """Return the patterns of names that the tests of find ask for."""
    return [
        tests[place + 1].text
        for place, test in enumerate(tests[:-1])
        if test.text in ("-name", "-iname", "-path", "-wholename", "-ipath")
    ]


def _outside(root: Arg, inv: Invocation) -> bool:
    return not any(
        path.startswith("/workspace") or not path.startswith("/")
        for path in resolve(root.text, inv.scope)
    )


def _command_end(args: list[Arg], start: int) -> int:
    for place in range(start, len(args)):
        text = args[place].text
        if text == ";" or (text == "+" and place > start and args[place - 1].text == "{}"):
            return place
    return len(args)


def _wide(root: Arg, inv: Invocation) -> bool:
    wide = (Place.ROOT, Place.SYSTEM, Place.STATE, Place.HOME)
    return any(place_of(path) in wide for path in resolve(root.text, inv.scope))


def _execute(inv: Invocation, command: list[Arg], roots: list[Arg], tests: list[Arg]) -> None:
    if not command:
        return
    names = _names(tests)
    changes = command[0].text.rpartition("/")[2] in _CHANGES
    for root in roots:
        outside = _outside(root, inv)
        if changes and _wide(root, inv):
            inv.find("delete.system", root)
        if outside and any(is_key_name(name) for name in names):
            inv.find("secret.read", root)
        found = root.text if outside else root.text.rstrip("/") + "/" + marks.UNKNOWN
        inner = tuple(arg._replace(text=arg.text.replace("{}", found)) for arg in command)
        inv.inner(inner)
    if changes and command[0].text.rpartition("/")[2] in ("rm", "unlink", "rmdir", "shred"):
        inv.find("delete.bulk", command[0])


def _delete(inv: Invocation, roots: list[Arg], place: Arg) -> None:
    inv.find("delete.bulk", place)
    for root in roots:
        for code in deletion_codes(root.text, inv.scope, recursive=True):
            if code not in ("delete.workspace", "delete.sources"):
                inv.find(code, root)


_XARGS_VALUES: Final = "adEIiLlnPs"


def _xargs(inv: Invocation) -> Verdict:
    options = read_options(
        inv.args,
        "adEILnPs",
        (
            "arg-file",
            "delimiter",
            "eof",
            "replace",
            "max-lines",
            "max-args",
            "max-procs",
            "max-chars",
            "process-slot-var",
        ),
        stop=True,
    )
    command = options.operands or (inv.head._replace(text="echo"),)
    source = options.value("a", "arg-file")
    if source is not None:
        inv.walk.read(source, inv.scope)
        text = contents(inv, (source,))
    else:
        text = inv.stdin if inv.stdin is not None else ""
    replace = options.value("I", "replace")
    pattern = replace.text if replace is not None else ("{}" if options.has("i") else None)
    return Verdict(True, _run_on(inv, command, text, pattern))


def _run_on(inv: Invocation, command: tuple[Arg, ...], text: str, pattern: str | None) -> str:
    place = command[-1]
    if pattern is not None:
        output = ""
        for line in text.splitlines()[:_MOST_LINES] or [marks.UNKNOWN]:
            inner = tuple(a._replace(text=a.text.replace(pattern, line)) for a in command)
            output = inv.inner(inner, "").output
        return output
    words = [place._replace(text=word) for word in _words(text)]
    output = inv.inner((*command, *words), "").output
    if len(words) > 1 and all(marks.is_static(word.text) for word in words):
        # -n1 and its kin make a command for each of them.
        inv.inner((*command, words[-1]), "")
    return output


_MOST_LINES: Final = 16
_WORD: Final = re.compile(r"\"([^\"\n]*)\"|'([^'\n]*)'|([^\s]+)")


def _words(text: str) -> list[str]:
    found = []
    for match in _WORD.finditer(text):
        word = next(group for group in match.groups() if group is not None)
        found.append(word)
        if len(found) > _MOST_WORDS:
            return [marks.UNKNOWN + marks.taint(text)]
    return found or ([marks.UNKNOWN] if text else [])


_MOST_WORDS: Final = 64


def _fd(inv: Invocation) -> Verdict:
    args = list(inv.args)
    for place, arg in enumerate(args):
        if arg.text in ("-x", "-X", "--exec", "--exec-batch"):
            command = [a for a in args[place + 1 :] if a.text != ";"]
            if not any("{" in a.text for a in command) and command:
                command.append(command[-1]._replace(text="./" + marks.UNKNOWN))
            _execute(inv, command, [inv.head._replace(text=".")], [])
            return Verdict(True)
    return judge_reader(inv, READERS["fd"])


def _rg(inv: Invocation) -> Verdict:
    options = read_options(inv.args, "", ("pre", "hostname-bin"))
    for program in options.all_values("", "pre", "hostname-bin"):
        if program.text:
            inv.find("option.program", program)
            inv.script(program)
    return judge_reader(inv, READERS["rg"])


def _grep(inv: Invocation) -> Verdict:
    verdict = judge_reader(inv, READERS["grep"])
    options = read_options(inv.args, "efmABCdD", ("regexp", "file", "include", "exclude"))
    recursive = options.has("rR", "recursive", "dereference-recursive")
    operands = options.operands if options.has("ef", "regexp", "file") else options.operands[1:]
    for operand in operands:
        for path in resolve(operand.text, inv.scope):
            if recursive and place_of(path) in (Place.ROOT, Place.HOME, Place.SYSTEM):
                inv.find("secret.search", operand)
    return verdict


RULES: Final[dict[str, Callable[[Invocation], Verdict]]] = {
    "find": _find,
    "gfind": _find,
    "xargs": _xargs,
    "gxargs": _xargs,
    "fd": _fd,
    "fdfind": _fd,
    "rg": _rg,
    "grep": _grep,
}
