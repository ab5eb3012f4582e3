"""What simple programs print, where that is decided by their words and their stdin."""

from __future__ import annotations

import base64
import binascii
import codecs
import re
from collections.abc import Callable
from typing import Final

from sandboxrun.screening.grammar.ansi import unescape, unescape_echo
from sandboxrun.screening.judging.invocation import Invocation
from sandboxrun.screening.judging.options import read_options
from sandboxrun.screening.judging.paths import resolve
from sandboxrun.screening.reading import marks
from sandboxrun.screening.reading.expand import Arg


def contents(inv: Invocation, operands: tuple[Arg, ...]) -> str:
    """Return what is in the files ``operands`` name, or stdin where there are none."""
    if not operands:
        return inv.stdin if inv.stdin is not None else marks.UNKNOWN
    found = []
    for operand in operands:
        if operand.text in ("-", "/dev/stdin"):
            found.append(inv.stdin if inv.stdin is not None else marks.UNKNOWN)
            continue
        text = inv.walk.process_text(operand.text)
        if text is None:
            paths = resolve(operand.text, inv.scope)
            text = next((inv.scope.files[p] for p in paths if p in inv.scope.files), marks.UNKNOWN)
        found.append(text)
    return "".join(found)


def _unknown(inv: Invocation, text: str) -> str:
    del inv
    return marks.UNKNOWN + marks.taint(text)


def _echo(inv: Invocation) -> str:
    args = list(inv.args)
    escapes, newline = False, "\n"
    while args and re.fullmatch(r"-[neE]+", args[0].text):
        letters = args.pop(0).text
        escapes = "e" in letters or (escapes and "E" not in letters)
        newline = "" if "n" in letters else newline
    text = " ".join(arg.text for arg in args)
    return (unescape_echo(text) if escapes else marks.plain(text)) + newline


_DIRECTIVE: Final = re.compile(r"%(?:%|[-+ #0]*\*?\d*(?:\.\d*)?([sbqcdiouxXfeEgGn]|\([^)]*\)T))")


def printf_text(fmt: str, values: list[str]) -> str:
    """Return what printf prints for a format and its values."""
    fmt = unescape_echo(unescape(fmt) if "\\0" not in fmt else fmt)
    rest = list(values)
    out = []
    for _ in range(64):
        before = len(rest)
        out.append(_DIRECTIVE.sub(lambda match: _directive(match, rest), fmt))
        if not rest or len(rest) == before:
            break
    return marks.plain("".join(out))


def _directive(match: re.Match[str], rest: list[str]) -> str:
    if match[1] is None:
        return "%"
    value = rest.pop(0) if rest else ""
    match match[1]:
        case "b":
            return unescape_echo(value)
        case "c":
            return value[:1]
        case "s" | "q":
            return value
        case "x" | "X" | "o":
            return _number(value, match[1])
        case _:
            return value if value.isdigit() else marks.OPAQUE


def _number(value: str, kind: str) -> str:
    return format(int(value), kind) if value.isdigit() else marks.OPAQUE


def _printf(inv: Invocation) -> str:
    args = [arg.text for arg in inv.args]
    if args[:1] == ["-v"]:
        return ""
    if args[:1] == ["--"]:
        args = args[1:]
    return printf_text(args[0], args[1:]) if args else ""


def _files(values: str = "", long_values: tuple[str, ...] = ()) -> Callable[[Invocation], str]:
    def output(inv: Invocation) -> str:
        options = read_options(inv.args, values, long_values)
        return contents(inv, options.operands)

    return output


def _listing(inv: Invocation) -> str:
    """Return what ls prints: names without a directory, or the operands a pattern matches."""
    operands = read_options(inv.args, "IwT", ("ignore", "width", "sort", "time")).operands
    patterns = [operand.text for operand in operands if marks.has_glob(operand.text)]
    return "".join(f"{text}\n" for text in patterns or [marks.OPAQUE])


def _grep(inv: Invocation) -> str:
    """Return what grep could print of known text: any of its lines."""
    options = read_options(inv.args, "efmABCdD", ("regexp", "file"))
    if options.has("clLqoZn", "count", "files-with-matches", "quiet", "only-matching"):
        return marks.UNKNOWN + marks.taint(inv.stdin)
    operands = options.operands if options.has("ef", "regexp") else options.operands[1:]
    return contents(inv, operands)


def _lines(change: Callable[[list[str]], list[str]]) -> Callable[[Invocation], str]:
    def output(inv: Invocation) -> str:
        options = read_options(inv.args, "nckStf", ("lines", "bytes"))
        text = contents(inv, options.operands)
        if not marks.is_static(text):
            return text
        return "".join(line + "\n" for line in change(text.splitlines()))

    return output


def _head(inv: Invocation) -> str:
    options = read_options(inv.args, "nc", ("lines", "bytes"))
    text = contents(inv, options.operands)
    count = options.value("n", "lines")
    if not marks.is_static(text) or (count is not None and not count.text.isdigit()):
        return text
    lines = text.splitlines(keepends=True)
    return "".join(lines[: 10 if count is None else int(count.text)])


def _base64(inv: Invocation) -> str:
    options = read_options(inv.args, "wbio", ("wrap", "input"))
    text = contents(inv, options.operands)
    if not options.has("dD", "decode"):
        return _encoded(text)
    return _decoded(text, lambda data: base64.b64decode(data, validate=False))


def _base32(inv: Invocation) -> str:
    options = read_options(inv.args, "w", ("wrap",))
    text = contents(inv, options.operands)
    return _decoded(text, base64.b32decode) if options.has("d", "decode") else _encoded(text)


def _encoded(text: str) -> str:
    if not marks.is_static(text):
        return marks.UNKNOWN + marks.taint(text)
    return base64.b64encode(text.encode(errors="replace")).decode() + "\n"


def _decoded(text: str, decode: Callable[[bytes], bytes]) -> str:
    """Return decoded text, marked as such so that running it is refused."""
    mark = marks.DECODED + marks.taint(text)
    if not marks.is_static(text):
        return mark + marks.UNKNOWN
    try:
        plain = decode("".join(text.split()).encode(errors="replace"))
    except (binascii.Error, ValueError):
        return mark + marks.UNKNOWN
    # The mark would keep known text from being a known value: a decoded word may be one.
    return plain.decode(errors="replace") + mark


def _xxd(inv: Invocation) -> str:
    options = read_options(inv.args, "clsgonR")
    text = contents(inv, options.operands[:1])
    if not options.has("r"):
        return marks.UNKNOWN + marks.taint(text)
    return _decoded(text, binascii.unhexlify)


def _tr(inv: Invocation) -> str:
    text = contents(inv, ())
    options = read_options(inv.args)
    sets = [_tr_set(arg.text) for arg in options.operands]
    if not marks.is_static(text) or not all(marks.is_static(marks.plain(a.text)) for a in inv.args):
        return marks.UNKNOWN + marks.taint(text)
    if options.has("d") and sets:
        return "".join(c for c in text if c not in sets[0])
    if len(sets) != 2 or options.has("cC", "complement") or not sets[1]:  # noqa: PLR2004
        return text
    first, second = sets
    second = (second + second[-1] * len(first))[: len(first)]
    changed = text.translate(dict(zip(map(ord, first), second, strict=True)))
    # Only letters turned into letters hide something; case and separators do not.
    hides = changed != text and changed.lower() != text.lower() and _turns_letters(first, second)
    return changed + (marks.DECODED if hides else "")


def _turns_letters(first: str, second: str) -> bool:
    pairs = zip(first, second, strict=True)
    return any(a.isalpha() and b.isalpha() and a.lower() != b.lower() for a, b in pairs)


_CLASSES: Final = {
    "[:upper:]": "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "[:lower:]": "abcdefghijklmnopqrstuvwxyz",
    "[:digit:]": "0123456789",
    "[:space:]": " \t\n\r\f\v",
}
_RANGE: Final = re.compile(r"(.)-(.)")


def _tr_set(text: str) -> str:
    text = unescape(marks.plain(text))
    for name, characters in _CLASSES.items():
        text = text.replace(name, characters)
    return _RANGE.sub(
        lambda match: "".join(chr(c) for c in range(ord(match[1]), ord(match[2]) + 1)), text
    )


def _rev(inv: Invocation) -> str:
    text = contents(inv, read_options(inv.args).operands)
    if not marks.is_static(text):
        return marks.UNKNOWN + marks.taint(text)
    return "".join(line[::-1] + "\n" for line in text.splitlines()) + marks.DECODED


def _rot13(inv: Invocation) -> str:
    text = contents(inv, ())
    return codecs.encode(text, "rot13") + marks.DECODED if marks.is_static(text) else _decoder(inv)


def _decoder(inv: Invocation) -> str:
    return marks.UNKNOWN + marks.DECODED + marks.taint(inv.stdin)


def _pwd(inv: Invocation) -> str:
    directories = inv.scope.directories()
    return (directories[0] if len(directories) == 1 else marks.UNKNOWN) + "\n"


def _basename(inv: Invocation) -> str:
    if not inv.args:
        return ""
    text = inv.args[-1].text if len(inv.args) == 1 else inv.args[0].text
    name = text.rstrip("/").rpartition("/")[2]
    if len(inv.args) > 1 and marks.is_static(inv.args[1].text):
        name = name.removesuffix(inv.args[1].text)
    return name + "\n"


def _dirname(inv: Invocation) -> str:
    if not inv.args:
        return ""
    return (inv.args[-1].text.rstrip("/").rpartition("/")[0] or ".") + "\n"


def _which(inv: Invocation) -> str:
    names = [a.text for a in inv.args if not a.text.startswith("-")]
    return "".join(f"/usr/bin/{name}\n" for name in names)


def _number_output(inv: Invocation) -> str:
    del inv
    return marks.OPAQUE + "\n"


def _seq(inv: Invocation) -> str:
    numbers = [a.text for a in inv.args]
    if not numbers or not all(n.isdigit() for n in numbers) or len(numbers) > 2:  # noqa: PLR2004
        return marks.OPAQUE + "\n"
    low, high = (1, int(numbers[0])) if len(numbers) == 1 else (int(numbers[0]), int(numbers[1]))
    if high - low > 64:  # noqa: PLR2004
        return marks.OPAQUE + "\n"
    return "".join(f"{n}\n" for n in range(low, high + 1))


def _cut(inv: Invocation) -> str:
    text = contents(inv, ())
    options = read_options(inv.args, "dfcb", ("delimiter", "fields"))
    delimiter, field = options.value("d", "delimiter"), options.value("f", "fields")
    if field is None or not field.text.isdigit() or not marks.is_static(text):
        return marks.UNKNOWN + marks.taint(text)
    separator = "\t" if delimiter is None else delimiter.text
    place = int(field.text) - 1
    return "".join(
        (parts[place] if place < len(parts) else "") + "\n"
        for parts in (line.split(separator) for line in text.splitlines())
    )


def _realpath(inv: Invocation) -> str:
    operands = read_options(inv.args, "", ("relative-to", "relative-base")).operands
    if not operands:
        return marks.UNKNOWN
    paths = resolve(operands[-1].text, inv.scope)
    return (paths[0] if len(paths) == 1 else marks.UNKNOWN) + "\n"


def _processes(inv: Invocation) -> str:
    """Return the numbers of processes that were looked up by name: twice the mark of one."""
    del inv
    return marks.OPAQUE * 2 + "\n"


OUTPUTS: Final[dict[str, Callable[[Invocation], str]]] = {
    **dict.fromkeys(("pgrep", "pidof", "lsof"), _processes),
    "echo": _echo,
    "printf": _printf,
    "ls": _listing,
    "grep": _grep,
    "egrep": _grep,
    "fgrep": _grep,
    "cat": _files(),
    "bat": _files(),
    "head": _head,
    "tail": _files("nc", ("lines", "bytes")),
    "tac": _lines(lambda lines: lines[::-1]),
    "sort": _lines(sorted),
    "uniq": _lines(lambda lines: list(dict.fromkeys(lines))),
    "nl": _files("bdfhilnsvw"),
    "fold": _files("w", ("width",)),
    "rev": _rev,
    "rot13": _rot13,
    "base64": _base64,
    "base32": _base32,
    "basenc": _decoder,
    "xxd": _xxd,
    "tr": _tr,
    "cut": _cut,
    "pwd": _pwd,
    "basename": _basename,
    "dirname": _dirname,
    "realpath": _realpath,
    "readlink": _realpath,
    "which": _which,
    "type": _which,
    "seq": _seq,
    "true": lambda _: "",
    "false": lambda _: "",
    ":": lambda _: "",
    "test": lambda _: "",
    "[": lambda _: "",
    "sleep": lambda _: "",
    "yes": lambda inv: "".join(a.text + "\n" for a in inv.args) or "y\n",
    **dict.fromkeys(
        ("date", "id", "whoami", "uname", "nproc", "hostname", "wc", "expr", "arch", "groups",
         "md5sum", "sha256sum", "sha1sum", "cksum", "uptime", "factor", "tty"),
        _number_output,
    ),
    **dict.fromkeys(("zcat", "bzcat", "xzcat", "zstdcat", "lz4cat"), _decoder),
}  # fmt: skip
