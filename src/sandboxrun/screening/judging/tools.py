"""Tools with an option, or a language of their own, that runs other programs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from sandboxrun.screening.judging.code import scan_code
from sandboxrun.screening.judging.invocation import MUTATING, Invocation, Verdict
from sandboxrun.screening.judging.options import read_options
from sandboxrun.screening.judging.paths import resolve
from sandboxrun.screening.judging.python import scan_python
from sandboxrun.screening.judging.secrets import holds_secrets
from sandboxrun.screening.reading import marks
from sandboxrun.screening.reading.expand import Arg


def _tar(inv: Invocation) -> Verdict:
    args = list(inv.args)
    if args and not args[0].text.startswith("-") and re.fullmatch(r"[A-Za-z]+", args[0].text):
        args[0] = args[0]._replace(text="-" + args[0].text)
    values = ("to-command", "checkpoint-action", "use-compress-program", "rsh-command", "file",
              "directory", "info-script", "new-volume-script", "exclude", "exclude-from",
              "files-from", "transform", "owner", "group", "mode", "index-file", "listed-incremental",
              "strip-components", "checkpoint", "warning", "mtime", "format")  # fmt: skip
    options = read_options(args, "fCITFXgbKNHV", values)
    for program in options.all_values("IF", "to-command", "use-compress-program", "rsh-command",
                                      "info-script", "new-volume-script"):  # fmt: skip
        if re.fullmatch(
            r"(?:p?x?i?gzip|pigz|xz|zstd|bzip2|pbzip2|lz4|lzip|brotli)(?: -\S+)*", program.text
        ):
            continue
        inv.find("option.program", program)
        inv.script(program)
    for action in options.all_values("", "checkpoint-action"):
        if action.text.startswith("exec="):
            inv.find("option.program", action)
            inv.script(action._replace(text=action.text[5:]))
    lists = options.has("t", "list") and not options.has("xcrujA", "extract", "get", "create")
    compares = options.has("d", "diff", "compare")
    directory = options.value("C", "directory")
    archive = options.value("f", "file")
    if options.has("cruA", "create", "append", "update"):
        _archives(inv, options.operands, archive, directory)
    else:
        if archive is not None:
            inv.walk.read(archive, inv.scope)
        if directory is not None and not lists:
            inv.walk.write(directory, inv.scope)
        if options.has("x", "extract") and options.has("P", "absolute-names"):
            inv.find("outside.write")
    prints = options.has("O", "to-stdout") and options.has("x", "extract", "get")
    read_only = (lists or compares or prints) and not options.has("", "index-file")
    return Verdict(read_only, marks.UNKNOWN + marks.taint(inv.stdin))


def _archives(
    inv: Invocation, operands: tuple[Arg, ...], archive: Arg | None, directory: Arg | None
) -> None:
    scope = inv.scope
    if directory is not None:
        scope = scope.copy()
        scope.assign("PWD", tuple(resolve(directory.text, scope)))
    for operand in operands:
        inv.walk.read(operand, scope)
        for path in resolve(operand.text, scope):
            if path.startswith("/") and holds_secrets(path) and "-" not in operand.text[:1]:
                inv.find("secret.below", operand)
    if archive is not None and archive.text != "-":
        inv.walk.write(archive, inv.scope)


def _zip(inv: Invocation) -> Verdict:
    for place, arg in enumerate(inv.args):
        if arg.text in ("-TT", "--unzip-command") and place + 1 < len(inv.args):
            inv.find("option.program", arg)
            inv.script(inv.args[place + 1])
    options = read_options(inv.args, "xitbnP")
    for place, operand in enumerate(options.operands):
        if place == 0:
            inv.walk.write(operand, inv.scope)
        else:
            inv.walk.read(operand, inv.scope)
    return MUTATING


def _unzip(inv: Invocation) -> Verdict:
    options = read_options(inv.args, "xPd")
    directory = options.value("d")
    reads = options.has("lpvtzcZ")
    if directory is not None and not reads:
        inv.walk.write(directory, inv.scope)
    for operand in options.operands[:1]:
        inv.walk.read(operand, inv.scope)
    return Verdict(reads)


def _editor(inv: Invocation) -> Verdict:
    """Vim and its kin: `!` runs a shell, `+cmd` and `-c cmd` run an editor command."""
    args = list(inv.args)
    for place, arg in enumerate(args):
        text = arg.text
        if text.startswith("+"):
            _ex(inv, arg._replace(text=text[1:]))
        elif (text == "--cmd" or re.fullmatch(r"-[A-Za-z]*[cS]", text)) and place + 1 < len(args):
            _ex(inv, args[place + 1])
        elif not text.startswith("-"):
            inv.walk.read(arg, inv.scope)
    if inv.stdin and marks.is_static(inv.stdin):
        for line in inv.stdin.splitlines():
            _ex(inv, inv.head._replace(text=line))
    return MUTATING


def _ex(inv: Invocation, command: Arg) -> None:
    text = command.text.lstrip(": ")
    match = re.match(
        r"(?:%|\d+(?:,\d+)?|r|silent!?|exec(?:ute)? ['\"]|w)?\s*!\s*(.+)", text, re.DOTALL
    )
    if match is not None:
        inv.script(command._replace(text=match[1].rstrip("'\"")))
    for call in re.finditer(
        r"(?:system|systemlist|os\.execute|jobstart|term_start|vim\.fn\.system)\s*\(\s*['\"](.+?)['\"]\s*\)",
        text,
    ):
        inv.script(command._replace(text=call[1]))
    match = re.match(r"(?:e|edit|r|read|w|write|source|so)\s+(\S+)", text)
    if match is not None:
        path = match[1]
        inv.walk.read(
            command._replace(
                text=path.replace("~", marks.HOME_PATH, 1) if path[0] == "~" else path
            ),
            inv.scope,
        )


def _debugger(inv: Invocation) -> Verdict:
    args = list(inv.args)
    options = {"-ex", "-iex", "--eval-command", "-o", "--one-line", "-O", "--batch-command"}
    rest: tuple[Arg, ...] = ()
    for place, arg in enumerate(args):
        text = arg.text
        value = args[place + 1] if place + 1 < len(args) else None
        if text in options and value is not None:
            _debugger_command(inv, value)
        elif text.partition("=")[0] in options and "=" in text:
            _debugger_command(inv, arg._replace(text=text.partition("=")[2]))
        elif text in ("-p", "--pid", "-pid") and value is not None and value.text == "1":
            inv.find("escape.process", arg)
        elif text in ("--args", "--") and not rest:
            rest = tuple(args[place + 1 :])
    if rest:
        inv.inner(rest)
    return MUTATING


def _debugger_command(inv: Invocation, command: Arg) -> None:
    match = re.match(
        r"\s*(?:!|shell\s|pipe\s|platform shell\s|make\s)\s*(.*)", command.text, re.DOTALL
    )
    if match is not None:
        inv.script(command._replace(text=match[1]))
    match = re.match(r"\s*(?:python|py|script|python-interactive)\s+(.*)", command.text, re.DOTALL)
    if match is not None:
        scan_python(inv, command._replace(text=match[1]))


_DESTROYS: Final = re.compile(
    r"\b(?:drop\s+(?:table|database|schema|view|index|column|user|role|keyspace|collection)"
    r"|truncate\b|delete\s+from|alter\s+table\s+\S+\s+drop|dropDatabase|deleteMany|\.drop\(|\.remove\("
    r"|flushall|flushdb)",
    re.IGNORECASE,
)
_SQL_COMMENT: Final = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:''|[^'])*'", re.DOTALL)
_SHELL_META: Final = re.compile(
    r"^\s*(?:\\!|\.(?:shell|system)|\\o\s*\||\\g\s*\||system|\\\!|!)\s*(.+)$", re.MULTILINE
)


def _sqlite(inv: Invocation) -> Verdict:
    options = read_options(inv.args, "", ("cmd", "init", "separator"))
    args = [a for a in inv.args if not a.text.startswith("-")]
    sources = [*args[1:], *options.all_values("", "cmd")]
    for place, arg in enumerate(inv.args):
        if arg.text in ("-cmd", "-init") and place + 1 < len(inv.args):
            sources.append(inv.args[place + 1])
    for database in args[:1]:
        inv.walk.read(database, inv.scope)
    if inv.stdin and marks.is_static(inv.stdin):
        sources.append(inv.whole._replace(text=inv.stdin))
    for source in sources:
        _sql(inv, source)
    return MUTATING


def _sql(inv: Invocation, source: Arg) -> None:
    for match in _SHELL_META.finditer(source.text):
        inv.script(source._replace(text=match[1].strip("'\"")))
    if _DESTROYS.search(_SQL_COMMENT.sub("''", source.text)):
        inv.find("delete.data", source)


def _client(inv: Invocation) -> Verdict:
    """Judge a client of a database server."""
    inv.find("database.use")
    inv.walk.note_network(inv.name)
    for arg in inv.args:
        if not arg.text.startswith("-") or arg.text.startswith(("-c", "-e", "--command", "--eval")):
            _sql(inv, arg)
    if inv.stdin and marks.is_static(inv.stdin):
        _sql(inv, inv.whole._replace(text=inv.stdin))
    return MUTATING


def _expect(inv: Invocation) -> Verdict:
    texts = [a for place, a in enumerate(inv.args) if place and inv.args[place - 1].text == "-c"]
    if inv.stdin and marks.is_static(inv.stdin):
        texts.append(inv.whole._replace(text=inv.stdin))
    for text in texts:
        for match in re.finditer(r"\b(?:spawn|exec|system)\s+([^;\n\]]+)", text.text):
            inv.script(text._replace(text=match[1]))
    for arg in inv.args:
        inv.walk.read(arg, inv.scope)
    return MUTATING


def _emacs(inv: Invocation) -> Verdict:
    for place, arg in enumerate(inv.args):
        if arg.text in ("--eval", "-eval", "--execute", "-f") and place + 1 < len(inv.args):
            scan_code(inv, inv.args[place + 1])
        elif arg.text.startswith("--eval="):
            scan_code(inv, arg._replace(text=arg.text.partition("=")[2]))
        elif not arg.text.startswith("-"):
            inv.walk.read(arg, inv.scope)
    return MUTATING


def _screen(inv: Invocation) -> Verdict:
    if [a.text for a in inv.args] in (["-ls"], ["-list"]):
        return MUTATING
    options = read_options(inv.args, "SchtTpes", stop=True)
    operands = [a for a in options.operands if not a.text.startswith("-")]
    for place in (0, 1):
        if len(operands) > place:
            inv.inner(tuple(operands[place:]))
    for arg in operands:
        if " " in arg.text:
            inv.script(arg)
    return MUTATING


RULES: Final[dict[str, Callable[[Invocation], Verdict]]] = {
    **dict.fromkeys(("tar", "gtar", "bsdtar", "star"), _tar),
    "zip": _zip,
    "unzip": _unzip,
    **dict.fromkeys(("vim", "vi", "nvim", "view", "ex", "ed", "rvim", "gvim", "vimdiff", "nano",
                     "pico", "micro", "joe", "hx", "kak"), _editor),
    "red": _editor,
    **dict.fromkeys(("gdb", "lldb", "cgdb", "gdb-multiarch"), _debugger),
    **dict.fromkeys(("sqlite3", "sqlite", "duckdb", "sqlite-utils"), _sqlite),
    **dict.fromkeys(("psql", "mysql", "mariadb", "mysqladmin", "mongosh", "mongo", "redis-cli",
                     "cqlsh", "clickhouse-client", "sqlcmd", "sqlplus", "pgcli", "mycli", "usql"),
                    _client),
    "expect": _expect,
    "emacs": _emacs,
    "screen": _screen,
}  # fmt: skip
