"""Builtins of the shell: those that run text, change the scope, or hide a command."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from sandboxrun.screening.judging.access import probes_secret
from sandboxrun.screening.judging.environment import environment_rule
from sandboxrun.screening.judging.invocation import MUTATING, Invocation, Verdict
from sandboxrun.screening.judging.options import read_options
from sandboxrun.screening.judging.outputs import contents, printf_text
from sandboxrun.screening.judging.paths import resolve
from sandboxrun.screening.judging.readers import READERS, judge_reader
from sandboxrun.screening.reading import marks
from sandboxrun.screening.reading.expand import Arg

_QUIET: Final = Verdict(read_only=True, output="")


def _eval(inv: Invocation) -> Verdict:
    args = inv.args[1:] if inv.args and inv.args[0].text == "--" else inv.args
    if not args:
        return _QUIET
    text = " ".join(arg.text for arg in args)
    if not marks.is_unresolved(marks.plain(text)) or len(args) > 1:
        return inv.script(args[0]._replace(text=text, end=args[-1].end))
    return inv.script(args[0]._replace(text=text))


def _source(inv: Invocation) -> Verdict:
    options = read_options(inv.args, "p")
    if not options.operands:
        return MUTATING
    file, *rest = options.operands
    inv.walk.read(file, inv.scope)
    positional = tuple(arg.text for arg in rest) or None
    text = file_text(inv, file)
    if text is not None:
        return inv.walk.code(file._replace(text=text), inv.scope, inv.stdin, positional)
    if marks.is_unresolved(file.text):
        inv.find("unresolved.code", file)
    return MUTATING


def file_text(inv: Invocation, file: Arg) -> str | None:
    """Return what the script knows of a file's text, or None for an ordinary file."""
    if file.text in ("/dev/stdin", "/dev/fd/0", "/proc/self/fd/0", "-"):
        return inv.stdin if inv.stdin is not None else marks.UNKNOWN
    text = inv.walk.process_text(file.text)
    if text is not None:
        return text
    paths = resolve(file.text, inv.scope)
    return next((inv.scope.files[path] for path in paths if path in inv.scope.files), None)


def _exec(inv: Invocation) -> Verdict:
    options = read_options(inv.args, "a", stop=True)
    return inv.inner(options.operands) if options.operands else _QUIET


def _command(inv: Invocation) -> Verdict:
    options = read_options(inv.args, stop=True)
    if options.has("vV"):
        return Verdict(True, "".join(f"/usr/bin/{arg.text}\n" for arg in options.operands))
    return inv.inner(options.operands)


def _builtin(inv: Invocation) -> Verdict:
    return inv.inner(inv.args)


def _env(inv: Invocation) -> Verdict:
    options = read_options(inv.args, "uCS", ("unset", "chdir", "split-string"), stop=True)
    scope = inv.scope.copy()
    directory = options.value("C", "chdir")
    if directory is not None:
        scope.assign("PWD", tuple(resolve(directory.text, scope)))
    rest = list(options.operands)
    split = options.value("S", "split-string")
    if split is not None:
        words = " ".join([split.text, *(_quoted(arg.text) for arg in rest)])
        return inv.walk.code(split._replace(text=_without_assignments(words)), scope, inv.stdin)
    while rest and re.match(r"[^=/]+=", rest[0].text):
        name, _, value = rest[0].text.partition("=")
        _environment(inv, rest[0]._replace(text=name), value)
        scope.assign(name, (value,))
        rest.pop(0)
    if not rest:
        return Verdict(True)
    # env looks for a program: functions and PATH changes of the script still count.
    return inv.walk.judge(tuple(rest), scope, inv.stdin)


def _environment(inv: Invocation, place: Arg, value: str) -> None:
    environment_rule(inv.walk, place, value, inv.scope)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _without_assignments(words: str) -> str:
    return re.sub(r"^\s*(?:-\S+\s+)*", "", words)


def _cd(inv: Invocation) -> Verdict:
    options = read_options(inv.args)
    target = options.operands[0].text if options.operands else inv.scope.lookup("HOME")[0]
    if inv.name == "pushd" and (not options.operands or target.startswith(("+", "-"))):
        target = marks.UNKNOWN
    if target == "-":
        target = inv.scope.lookup("OLDPWD")[0]
    before = inv.scope.directories()
    inv.scope.assign("PWD", tuple(resolve(target or ".", inv.scope)))
    inv.scope.assign("OLDPWD", before)
    return _QUIET


def _popd(inv: Invocation) -> Verdict:
    inv.scope.assign("PWD", inv.scope.lookup("OLDPWD"))
    return _QUIET


def _set(inv: Invocation) -> Verdict:
    texts = [arg.text for arg in inv.args]
    if "--" in texts:
        inv.scope.positional = tuple(texts[texts.index("--") + 1 :])
    elif texts and not texts[0].startswith(("-", "+")):
        inv.scope.positional = tuple(texts)
    return _QUIET


def _shift(inv: Invocation) -> Verdict:
    count = inv.args[0].text if inv.args else "1"
    if inv.scope.positional is not None:
        known = count.isdigit() and int(count) <= len(inv.scope.positional)
        inv.scope.positional = inv.scope.positional[int(count) :] if known else None
    return _QUIET


def _read(inv: Invocation) -> Verdict:
    options = read_options(inv.args, "adiInNptu")
    text = contents(inv, ())
    names = [arg.text for arg in options.operands]
    _subscripts(inv, options.operands)
    array = options.value("a")
    if array is not None:
        inv.scope.assign_array(array.text, tuple(text.split()))
        return _QUIET
    lines = [line for line in text.splitlines() if line.strip(marks.EMPTY)]
    if len(names) == 1 or not names:
        inv.scope.assign(names[0] if names else "REPLY", tuple(lines) or ("",))
        return _QUIET
    for place, name in enumerate(names):
        values = []
        for line in lines:
            words = _fields(line, inv.scope.lookup("IFS")[0], len(names))
            unknown = marks.UNKNOWN + marks.taint(line)
            known = marks.is_static(line)
            values.append((words[place] if place < len(words) else "") if known else unknown)
        inv.scope.assign(name, tuple(values) or ("",))
    return _QUIET


def _fields(line: str, separators: str, most: int) -> list[str]:
    """Split a line as read does: at IFS, the last name taking the rest."""
    if not separators.strip():
        return line.split(None, most - 1)
    for separator in separators[1:]:
        line = line.replace(separator, separators[0])
    return line.split(separators[0], most - 1)


def _mapfile(inv: Invocation) -> Verdict:
    options = read_options(inv.args, "dnOsuCc")
    callback = options.value("C")
    if callback is not None:
        inv.script(callback)
    name = options.operands[0].text if options.operands else "MAPFILE"
    inv.scope.assign_array(name, tuple(contents(inv, ()).splitlines()))
    return _QUIET


def _subscripts(inv: Invocation, names: tuple[Arg, ...]) -> None:
    """Read names whose subscripts bash expands once more."""
    for name in names:
        if "[" in marks.plain(name.text):
            inv.walk.prompt(marks.plain(name.text), name.start, name.end, inv.scope)


def _names(inv: Invocation) -> Verdict:
    options = read_options(inv.args)
    _subscripts(inv, options.operands)
    if inv.name == "unset":
        for name in options.operands:
            inv.scope.arrays.pop(name.text, None)
            if options.has("f"):
                inv.scope.functions.pop(name.text, None)
            else:
                inv.scope.variables[name.text] = ("",)
    return _QUIET


def is_integer(args: Sequence[Arg]) -> bool:
    """Tell whether a declaration makes its names integers."""
    return any(re.fullmatch(r"-[A-Za-z]*i[A-Za-z]*", arg.text) for arg in args)


def _declare(inv: Invocation) -> Verdict:
    counts = is_integer(inv.args)
    for arg in inv.args:
        name, equals, value = arg.text.partition("=")
        if equals and re.fullmatch(r"[A-Za-z_]\w*", name):
            _environment(inv, arg._replace(text=name), value)
            inv.scope.assign(name, (value,))
            if counts:
                # An integer's value is arithmetic, and subscripts in it are expanded.
                inv.walk.prompt(marks.plain(value), arg.start, arg.end, inv.scope)
    _subscripts(inv, tuple(arg for arg in inv.args if not arg.text.startswith("-")))
    return Verdict(True)


def _trap(inv: Invocation) -> Verdict:
    options = read_options(inv.args)
    if len(options.operands) > 1 and options.operands[0].text not in ("-", ""):
        inv.script(options.operands[0])
    return _QUIET


def _alias(inv: Invocation) -> Verdict:
    for arg in inv.args:
        name, equals, value = arg.text.partition("=")
        if equals:
            inv.scope.aliases[name] = value
            # Only an interactive shell expands it, and one that is told to.
            inv.script(arg._replace(text=value))
    return _QUIET


def _printf(inv: Invocation) -> Verdict:
    texts = [arg.text for arg in inv.args]
    if texts[:1] == ["-v"] and len(texts) > 2:  # noqa: PLR2004 - name and format
        _subscripts(inv, inv.args[1:2])
        inv.scope.assign(texts[1], (printf_text(texts[2], texts[3:]),))
        return _QUIET
    return judge_reader(inv, READERS["printf"])


def _test(inv: Invocation) -> Verdict:
    for place, arg in enumerate(inv.args[:-1]):
        if arg.text in ("-v", "-R"):
            _subscripts(inv, inv.args[place + 1 : place + 2])
        elif re.fullmatch(r"-[a-hk-uwxGLNOS]", arg.text) and probes_secret(
            inv.args[place + 1].text, inv.scope
        ):
            inv.find("secret.probe", inv.args[place + 1])
    return _QUIET


def _kill(inv: Invocation) -> Verdict:
    targets = [arg.text for arg in inv.args]
    signalled = bool(targets) and bool(re.fullmatch(r"-(?:\w+)", targets[0]))
    if signalled:
        takes_value = targets[0] in ("-s", "-n")
        targets = targets[2:] if takes_value else targets[1:]
    if targets[:1] == ["--"]:
        targets = targets[1:]
    if any(marks.OPAQUE * 2 in arg.text for arg in inv.args):
        inv.find("service.control")
    if "-1" in targets or (len(inv.args) > 1 and "-1" in [a.text for a in inv.args[1:]]):
        inv.find("kill.all")
    elif "1" in targets:
        inv.find("escape.process")
    return Verdict(False, "")


def _enable(inv: Invocation) -> Verdict:
    if read_options(inv.args, "f").has("f"):
        inv.find("option.program")
        return MUTATING
    return _QUIET


def _complete(inv: Invocation) -> Verdict:
    options = read_options(inv.args, "oAGWFCXPS")
    for command in options.all_values("C"):
        inv.script(command)
    return _QUIET


def _hash(inv: Invocation) -> Verdict:
    options = read_options(inv.args, "p")
    file = options.value("p")
    if file is not None:
        for name in options.operands:
            # From now on the name is that file, whatever it is called.
            inv.scope.aliases[name.text] = file.text
        inv.inner((file,))
    return Verdict(file is None)


def _bind(inv: Invocation) -> Verdict:
    for binding in read_options(inv.args, "fmquxr").all_values("x"):
        inv.script(binding._replace(text=binding.text.rpartition('":')[2].lstrip()))
    return _QUIET


def _history(inv: Invocation) -> Verdict:
    return Verdict(not any(a.text.startswith("-") for a in inv.args))


def _quiet(inv: Invocation) -> Verdict:
    del inv
    return _QUIET


def _getopts(inv: Invocation) -> Verdict:
    for name in inv.args[1:2]:
        inv.scope.assign(name.text, (marks.OPAQUE,))
    inv.scope.assign("OPTARG", (marks.UNKNOWN,))
    return _QUIET


RULES: Final[dict[str, Callable[[Invocation], Verdict]]] = {
    "eval": _eval,
    "source": _source,
    ".": _source,
    "exec": _exec,
    "command": _command,
    "builtin": _builtin,
    "env": _env,
    "genv": _env,
    "cd": _cd,
    "chdir": _cd,
    "pushd": _cd,
    "popd": _popd,
    "set": _set,
    "shift": _shift,
    "read": _read,
    "mapfile": _mapfile,
    "readarray": _mapfile,
    "unset": _names,
    "let": _names,
    "wait": _names,
    **dict.fromkeys(("export", "declare", "local", "readonly", "typeset"), _declare),
    "trap": _trap,
    "alias": _alias,
    "printf": _printf,
    "test": _test,
    "[": _test,
    "kill": _kill,
    "enable": _enable,
    "complete": _complete,
    "compgen": _complete,
    "hash": _hash,
    "bind": _bind,
    "history": _history,
    "getopts": _getopts,
    **dict.fromkeys(
        ("shopt", "return", "exit", "break", "continue", "umask", "ulimit", "bg", "fg", "disown",
         "jobs", "suspend", "logout", "unalias", "compopt", "nocorrect", "times"),
        _quiet,
    ),
}  # fmt: skip
