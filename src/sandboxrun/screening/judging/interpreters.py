"""Interpreters: which of their arguments is code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from sandboxrun.screening.judging.builtins import file_text
from sandboxrun.screening.judging.code import printed_text, scan_code
from sandboxrun.screening.judging.invocation import MUTATING, Invocation, Verdict
from sandboxrun.screening.judging.python import scan_python
from sandboxrun.screening.reading import marks
from sandboxrun.screening.reading.expand import Arg


class Interpreter(NamedTuple):
    """How an interpreter is given its code."""

    code: str = ""
    """Short options whose value is code."""
    code_long: tuple[str, ...] = ()
    values: str = ""
    """Other short options that take a value."""
    long_values: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    """Sub-commands after which the first operand is code."""
    module: str = ""
    """Short option whose value is a module that is run."""


_INTERPRETERS: Final[dict[str, Interpreter]] = {
    **dict.fromkeys(
        ("python", "python2", "python3", "pypy", "pypy3", "ipython", "ipython3", "jython"),
        Interpreter("c", (), "WX", module="m"),
    ),
    **dict.fromkeys(("perl",), Interpreter("eE", (), "I", module="")),
    **dict.fromkeys(("ruby", "jruby", "truffleruby"), Interpreter("e", (), "IrCEK")),
    **dict.fromkeys(
        ("node", "nodejs"),
        Interpreter("ep", ("eval", "print"), "rC", ("require", "import", "loader", "env-file")),
    ),
    "bun": Interpreter("e", ("eval", "print"), words=("-e",)),
    "deno": Interpreter("", (), words=("eval",)),
    "php": Interpreter("rBER", ("run",), "dcz"),
    **dict.fromkeys(("lua", "luajit", "lua5.4", "lua5.3", "lua5.1"), Interpreter("e", (), "l")),
    "Rscript": Interpreter("e", (), ""),
    "R": Interpreter("e", (), "f"),
    "julia": Interpreter("eE", ("eval", "print"), "tpL"),
    "osascript": Interpreter("e", (), "l"),
    "tclsh": Interpreter("", ()),
    "wish": Interpreter("", ()),
    "guile": Interpreter("c", (), "l"),
    "elixir": Interpreter("e", ("eval",), "r"),
    "erl": Interpreter("", ("eval",)),
    "groovy": Interpreter("e", (), ""),
    "scala": Interpreter("e", (), ""),
    "ghc": Interpreter("e", (), "o"),
    "runghc": Interpreter("e", (), ""),
    "ocaml": Interpreter("e", (), "I"),
    "emacs": Interpreter("", ("eval", "execute"), "l", ("load",)),
    "racket": Interpreter("e", ("eval",), ""),
    "pwsh": Interpreter("c", ("Command", "command")),
    "swift-repl": Interpreter("e"),
    "tsx": Interpreter("e", ("eval",)),
    "ts-node": Interpreter("ep", ("eval", "print"), "P"),
    "sbcl": Interpreter("", ("eval",)),
    "crystal": Interpreter("", (), words=("eval",)),
    "nim-secret": Interpreter("", (), words=("e",)),
    "dart": Interpreter("", ()),
    "rails": Interpreter("", (), words=("runner", "r")),
}


def judge_interpreter(inv: Invocation) -> Verdict:
    """Judge an interpreter: the text it is given, or the file it runs."""
    kind = _INTERPRETERS.get(inv.name) or _INTERPRETERS["python3" if "py" in inv.name else "node"]
    args = list(inv.args)
    if inv.name in ("deno", "bun") and args and args[0].text == "run":
        args.pop(0)
    found = False
    rest: list[Arg] = []
    while args:
        arg = args.pop(0)
        text = arg.text
        if text.startswith("--"):
            found = _long(inv, kind, arg, args) or found
        elif text.startswith("-") and len(text) > 1:
            taken = _short(inv, kind, arg, args)
            if taken is _MODULE:
                return _module(inv, arg, args)
            found = taken is _CODE or found
        elif text in kind.words and args and not rest:
            _code(inv, args.pop(0))
            found = True
        else:
            rest = [arg, *args]
            break
    if found:
        for arg in rest:
            inv.walk.read(arg, inv.scope)
        return Verdict(False, printed_text(inv.args) + marks.taint(inv.stdin))
    return _program(inv, rest)


_CODE: Final = object()
_MODULE: Final = object()


def _long(inv: Invocation, kind: Interpreter, arg: Arg, args: list[Arg]) -> bool:
    name, equals, value = arg.text[2:].partition("=")
    if name in kind.code_long:
        if equals:
            _code(inv, arg._replace(text=value))
        elif args:
            _code(inv, args.pop(0))
        return True
    if name in kind.long_values and not equals and args:
        loaded = args.pop(0)
        inv.walk.read(loaded, inv.scope)
    return False


def _short(inv: Invocation, kind: Interpreter, arg: Arg, args: list[Arg]) -> object | None:
    text = arg.text
    for place in range(1, len(text)):
        letter = text[place]
        rest = text[place + 1 :]
        if kind.module and letter == kind.module:
            if rest:
                args.insert(0, arg._replace(text=rest))
            return _MODULE
        if letter in kind.code:
            if rest:
                _code(inv, arg._replace(text=rest))
            elif args:
                _code(inv, args.pop(0))
            return _CODE
        if letter in kind.values:
            if not rest and args:
                args.pop(0)
            return None
        if inv.name == "perl" and letter in "iMmDxF":
            return None
    return None


def _code(inv: Invocation, code: Arg) -> None:
    if "py" in inv.name or inv.name == "jython":
        scan_python(inv, code)
    elif inv.name == "pwsh":
        inv.script(code)
    else:
        scan_code(inv, code)


def _module(inv: Invocation, option: Arg, args: list[Arg]) -> Verdict:
    """Judge ``python -m module …`` as the program of that name where it is one."""
    del option
    if not args:
        return MUTATING
    name, *rest = args
    known = {"pip": "pip", "pytest": "pytest", "http.server": "http.server", "venv": "venv",
             "poetry": "poetry", "pipenv": "pipenv", "twine": "twine", "uv": "uv",
             "ensurepip": "ensurepip", "pipx": "pipx"}  # fmt: skip
    if name.text == "http.server":
        if any(a.text in ("0.0.0.0", "::") for a in rest):  # noqa: S104 - what is looked for
            inv.find("network.use")
        return MUTATING
    if name.text in ("pty", "telnetlib", "ftplib", "smtplib"):
        inv.find("network.use" if name.text != "pty" else "unresolved.code")
    if name.text in known:
        return inv.inner((name, *rest))._replace(read_only=False)
    if name.text == "timeit":
        for arg in rest:
            _code(inv, arg)
    for arg in rest:
        inv.walk.read(arg, inv.scope)
    return MUTATING


def _program(inv: Invocation, rest: list[Arg]) -> Verdict:
    """Judge an interpreter that is given a file, or reads its program from stdin."""
    if rest and rest[0].text not in ("-", "/dev/stdin"):
        file = rest[0]
        text = file_text(inv, file)
        if text is not None:
            _code(inv, file._replace(text=text))
        elif marks.NETWORK in file.text or marks.DECODED in file.text:
            _code(inv, file)
        for place, arg in enumerate(rest):
            inv.walk.read(arg, inv.scope)
            if place and rest[place - 1].text in ("-c", "--command", "-e", "--eval"):
                # `manage.py shell -c …` and its like hand code on.
                _code(inv, arg)
        return Verdict(False, marks.UNKNOWN + marks.taint(inv.stdin))
    if inv.stdin is not None:
        if inv.stdin:
            _code(inv, inv.whole._replace(text=inv.stdin))
        return MUTATING
    if rest and rest[0].text == "-":
        inv.find("unresolved.code")
    return MUTATING


RULES: Final[dict[str, Callable[[Invocation], Verdict]]] = dict.fromkeys(
    _INTERPRETERS, judge_interpreter
)
