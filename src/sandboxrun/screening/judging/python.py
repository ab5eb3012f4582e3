"""Python text, read with Python's own grammar."""

from __future__ import annotations

import ast
import re
import threading
import warnings
from typing import Final

from sandboxrun.screening.judging.code import delete, hidden_risks, scan_code
from sandboxrun.screening.judging.invocation import Invocation
from sandboxrun.screening.reading import marks
from sandboxrun.screening.reading.expand import Arg

_SHELL: Final = frozenset({"system", "popen", "getoutput", "getstatusoutput"})
_PROCESS: Final = frozenset(
    "run call check_call check_output Popen create_subprocess_exec create_subprocess_shell"
    " create_subprocess".split()
)
_EXEC: Final = frozenset(
    "execv execve execvp execvpe execl execle execlp execlpe spawnl spawnle spawnlp spawnlpe"
    " spawnv spawnve spawnvp spawnvpe posix_spawn posix_spawnp startfile spawn".split()
)
_LIST_FORMS: Final = frozenset(
    {"execv", "execve", "execvp", "execvpe", "posix_spawn", "posix_spawnp"}
)
_SPAWNERS: Final = _SHELL | _PROCESS | _EXEC
_MOST_TEXTS: Final = 64
_TREES: Final = frozenset({"rmtree", "remove_tree"})
_FILES: Final = frozenset({"remove", "unlink", "rmdir", "removedirs"})
_MODULES: Final = frozenset(
    {"os", "subprocess", "shutil", "pty", "commands", "asyncio", "sp", "sh"}
)
_MOST_CHARACTERS: Final = 64 * 1024


def scan_python(inv: Invocation, code: Arg) -> None:
    """Report what Python text would do. Text that is not Python is read loosely."""
    text = marks.plain(code.text)
    if len(text) > _MOST_CHARACTERS or not marks.is_static(text) or text.count("(") > _MOST_NESTED:
        scan_code(inv, code)
        return
    try:
        with _QUIET, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        scan_code(inv, code)
        return
    reader = _Reader(inv, code, tree)
    try:
        for node in ast.walk(tree):
            reader.node(node)
    except RecursionError:
        scan_code(inv, code)
        return
    hidden_risks(inv, code, text)
    # Strings, sockets, decoders: what is not a matter of calls is read as in any language.
    scan_code(inv, code._replace(text=_without_spawns(text)))


_MOST_NESTED: Final = 2000
_QUIET: Final = threading.Lock()
"""Filters of warnings are the process's: two threads that change them could leave them changed."""


def _without_spawns(text: str) -> str:
    """Hide the calls that the grammar has already judged from the loose reading."""
    hidden = text
    for name in ("system", "popen", "Popen", "subprocess", "check_output", "check_call",
                 "getoutput", "getstatusoutput", "rmtree", "remove_tree", "unlink", "rmdir",
                 "removedirs", "os.remove", "execvp", "execv", "execlp", "execl", "spawn",
                 "create_subprocess_exec"):  # fmt: skip
        hidden = hidden.replace(name, "call")
    if "exec(" in hidden and "decode" not in hidden and "http" not in hidden:
        hidden = hidden.replace("exec(", "call(")
    return hidden.replace("`", "'")


class _Reader:
    """Judges the calls of one text."""

    def __init__(self, inv: Invocation, code: Arg, tree: ast.Module) -> None:
        self._inv = inv
        self._code = code
        self._known: dict[str, str | list[str]] = {}
        self._imported: set[str] = set()
        self._texts = [
            node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value
        ]
        self._constants = [text for text in self._texts if text.startswith(("/", "~"))]

    def node(self, node: ast.AST) -> None:
        """Look at one node."""
        if isinstance(node, ast.ImportFrom) and (node.module or "") in _MODULES:
            self._imported.update(alias.asname or alias.name for alias in node.names)
            if any(alias.name == "*" for alias in node.names):
                self._imported |= _SHELL | _PROCESS | _EXEC | _TREES | _FILES
            for alias in node.names:
                if alias.asname:
                    self._known[alias.asname] = alias.name
        elif isinstance(node, ast.Import):
            self._imported.update(
                alias.asname
                for alias in node.names
                if alias.asname and alias.name.partition(".")[0] in _MODULES
            )
        elif isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
            if isinstance(target, ast.Name):
                value = self._value(node.value)
                if value is not None:
                    self._known[target.id] = value
                elif (spawner := self._spawner(node.value)) is not None:
                    self._imported.add(target.id)
                    self._known[target.id] = spawner
        elif isinstance(node, ast.Call):
            self._call(node)
            if any(self._spawner(argument) is not None for argument in node.args):
                self._handed_on()

    def _spawner(self, node: ast.expr) -> str | None:
        """Return the name of the function that starts programs which an expression means."""
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owned = node.value.id in _MODULES or node.value.id in self._imported
            return node.attr if owned and node.attr in _SPAWNERS else None
        if isinstance(node, ast.Name) and node.id in self._imported:
            known = self._known.get(node.id, node.id)
            return known if isinstance(known, str) and known in _SPAWNERS else None
        return None

    def _handed_on(self) -> None:
        """Judge every constant: one of them is what a function that was handed on is given."""
        for text in self._texts[:_MOST_TEXTS]:
            if self._inv.walk.suspects(self._code._replace(text=text), self._inv.scope):
                self._inv.script(self._code._replace(text=text))

    def _call(self, node: ast.Call) -> None:
        name, owned = self._named(node.func)
        for argument in node.args:
            path = self._value(argument)
            if isinstance(path, str) and (path.startswith(("/", "~")) or marks.HOME in path):
                path = marks.HOME_PATH + path[1:] if path.startswith("~") else path
                if not any(blank in path for blank in " \n"):
                    place = self._code._replace(text=path)
                    self._inv.walk.read(place, self._inv.scope)
                    if name == "open" and _writes(node):
                        self._inv.walk.write(place, self._inv.scope)
        if not owned:
            if name not in self._imported and name not in ("exec", "eval"):
                return
            real = self._known.get(name)
            name = real if isinstance(real, str) else name
        first = node.args[0] if node.args else None
        for keyword in node.keywords:
            if keyword.arg in ("args", "command", "cmd", "path") and first is None:
                first = keyword.value
        if name in ("exec", "eval") and not owned:
            self._evaluates(first)
        elif name in _SHELL:
            self._shell(first)
        elif name in _PROCESS and self._is_process(node):
            self._process(node, first)
        elif name in _EXEC and self._is_process(node):
            self._exec(name, node)
        elif name in _TREES or name in _FILES:
            self._delete(name, node, first)

    def _named(self, function: ast.expr) -> tuple[str, bool]:
        """Return a called name as `_name` does; one that getattr computes is worked out."""
        if isinstance(function, ast.Call) and _name(function.func)[0] == "getattr":
            given = self._value(function.args[1]) if len(function.args) > 1 else None
            return (given, True) if isinstance(given, str) else ("", False)
        return _name(function)

    def _is_process(self, node: ast.Call) -> bool:
        """Tell a call of subprocess or os from a method that happens to have the name."""
        if not isinstance(node.func, ast.Attribute):
            return True
        owner = node.func.value
        if isinstance(owner, ast.Name):
            return owner.id in _MODULES or owner.id in self._imported or node.func.attr == "Popen"
        return isinstance(owner, ast.Call)

    def _shell(self, first: ast.expr | None) -> None:
        value = None if first is None else self._value(first)
        if value is None:
            self._inv.find("unresolved.code", self._code)
        elif isinstance(value, str):
            self._inv.script(self._code._replace(text=value))
        else:
            self._inv.inner(tuple(self._code._replace(text=word) for word in value))

    def _process(self, node: ast.Call, first: ast.expr | None) -> None:
        if _name(node.func)[0] == "create_subprocess_exec":
            values = [self._value(arg) for arg in node.args]
            words = [value for value in values if isinstance(value, str)]
            if words:
                self._inv.inner(tuple(self._code._replace(text=word) for word in words))
            return
        self._shell(first)

    def _exec(self, name: str, node: ast.Call) -> None:
        arguments = [self._value(arg) for arg in node.args]
        if name.startswith("spawn") and name != "spawn":
            arguments = arguments[1:]
        if name in _LIST_FORMS and len(arguments) > 1 and isinstance(arguments[1], list):
            words: list[str] = arguments[1]
            program = arguments[0] if isinstance(arguments[0], str) else marks.UNKNOWN
            words = [program, *words[1:]]
        elif name == "spawn":
            value = arguments[0] if arguments else None
            words = value if isinstance(value, list) else str(value or marks.UNKNOWN).split()
        else:
            words = [a if isinstance(a, str) else marks.UNKNOWN for a in arguments]
            words = [words[0], *words[2:]] if len(words) > 1 else words
        if words:
            self._inv.inner(tuple(self._code._replace(text=word) for word in words))

    def _evaluates(self, first: ast.expr | None) -> None:
        value = None if first is None else self._value(first)
        if isinstance(value, str):
            if value and value != self._code.text:
                scan_python(self._inv, self._code._replace(text=value))
        elif first is not None:
            self._inv.find("unresolved.code", self._code)

    def _delete(self, name: str, node: ast.Call, first: ast.expr | None) -> None:
        recursive = name in _TREES
        value = None if first is None else self._value(first)
        if value is None and isinstance(node.func, ast.Attribute) and first is None:
            value = self._value(node.func.value)
        if isinstance(value, str):
            delete(self._inv, self._code, value, recursive=recursive)
        elif first is not None or recursive:
            # Which of the text's constants it is, is not known: each of them could be.
            for constant in self._constants:
                delete(self._inv, self._code, constant, recursive=False)
            if recursive:
                self._inv.find("unresolved.delete", self._code)

    def _value(self, node: ast.expr) -> str | list[str] | None:
        """Return the constant that an expression is, as far as it is one."""
        match node:
            case ast.Constant(value=str(text)):
                return text
            case ast.Constant(value=bytes(data)):
                return data.decode(errors="replace")
            case ast.Name(id=name):
                return self._known.get(name)
            case ast.List(elts=items) | ast.Tuple(elts=items):
                values = [self._value(item) for item in items]
                return [v if isinstance(v, str) else marks.UNKNOWN for v in values]
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return _added(self._value(left), self._value(right))
            case ast.BinOp(left=left, op=ast.Mod(), right=right):
                return _formatted(self._value(left), self._value(right))
            case ast.FormattedValue(value=inner, format_spec=None):
                return self._value(inner)
            case ast.JoinedStr(values=parts):
                texts = [self._value(part) for part in parts]
                return "".join(t if isinstance(t, str) else marks.UNKNOWN for t in texts)
            case ast.Call():
                return self._called(node)
            case ast.Subscript(
                value=ast.Attribute(attr="environ"), slice=ast.Constant(value="HOME")
            ):
                return marks.HOME_PATH
            case _:
                return None

    def _called(self, node: ast.Call) -> str | list[str] | None:
        name, _ = _name(node.func)
        first = self._value(node.args[0]) if node.args else None
        if name == "home" or (name in ("getenv", "get") and first == "HOME"):
            return marks.HOME_PATH
        if name == "compile":
            return first
        if name == "chr" and node.args and isinstance(node.args[0], ast.Constant):
            code = node.args[0].value
            return chr(code) if isinstance(code, int) and 0 <= code < 0x110000 else None  # noqa: PLR2004
        if name == "join" and isinstance(node.func, ast.Attribute):
            separator = self._value(node.func.value)
            if isinstance(separator, str) and isinstance(first, list):
                return separator.join(first)
            paths = [self._value(arg) for arg in node.args]
            if paths and all(isinstance(path, str) for path in paths):
                return "/".join(str(path) for path in paths)
        if name in ("split", "strip", "lower", "expanduser", "Path", "str", "abspath", "PurePath"):
            inner = first
            if isinstance(node.func, ast.Attribute) and first is None:
                inner = self._value(node.func.value)
            if name == "split" and isinstance(inner, str):
                return inner.split()
            return inner.lower() if name == "lower" and isinstance(inner, str) else inner
        return None


def _writes(node: ast.Call) -> bool:
    """Tell whether a call of open has a mode that writes."""
    modes = [*node.args[1:2], *(k.value for k in node.keywords if k.arg == "mode")]
    return any(isinstance(m, ast.Constant) and set(str(m.value)) & set("wax+") for m in modes)


def _formatted(
    pattern: str | list[str] | None, values: str | list[str] | None
) -> str | list[str] | None:
    """Return what the percent operator makes of texts."""
    if not isinstance(pattern, str) or values is None or re.search(r"%[^s%]", pattern):
        # Only what cannot ask for a width: that could be of any length.
        return None
    try:
        return pattern % (tuple(values) if isinstance(values, list) else values)
    except (TypeError, ValueError):
        return None


def _added(left: str | list[str] | None, right: str | list[str] | None) -> str | list[str] | None:
    if isinstance(left, list) and isinstance(right, list):
        return [*left, *right]
    if isinstance(left, list) or isinstance(right, list) or (left is None and right is None):
        return None
    return (left or marks.UNKNOWN) + (right or marks.UNKNOWN)


def _name(function: ast.expr) -> tuple[str, bool]:
    """Return a called name, and whether it belongs to something."""
    if isinstance(function, ast.Attribute):
        return function.attr, True
    if isinstance(function, ast.Call) and _name(function.func)[0] == "getattr":
        named = function.args[1] if len(function.args) > 1 else None
        if isinstance(named, ast.Constant) and isinstance(named.value, str):
            return named.value, True
    return (function.id, False) if isinstance(function, ast.Name) else ("", False)
