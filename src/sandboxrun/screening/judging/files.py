"""Programs that create and change files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sandboxrun.screening.judging.deletion import grants_setuid, split_target
from sandboxrun.screening.judging.invocation import MUTATING, Invocation, Verdict
from sandboxrun.screening.judging.operands import scan_operands
from sandboxrun.screening.judging.options import read_options
from sandboxrun.screening.judging.outputs import contents
from sandboxrun.screening.judging.paths import resolve
from sandboxrun.screening.judging.secrets import holds_secrets
from sandboxrun.screening.reading import marks
from sandboxrun.screening.reading.expand import Arg


def _copy(inv: Invocation) -> Verdict:
    options = read_options(inv.args, "tS", ("target-directory", "suffix", "mode", "owner"))
    sources, target = split_target(options)
    recursive = options.has("rRa", "recursive", "archive")
    for source in sources:
        inv.walk.read(source, inv.scope)
        if recursive:
            read_below(inv, source)
    for place in target:
        inv.walk.write(place, inv.scope)
        _remember(inv, sources, place)
    return MUTATING


def read_below(inv: Invocation, source: Arg) -> None:
    """Report a recursive reader that is pointed at a directory above credentials."""
    for path in resolve(source.text, inv.scope):
        if path.startswith("/") and holds_secrets(path):
            inv.find("secret.below", source)


def _remember(inv: Invocation, sources: tuple[Arg, ...], target: Arg) -> None:
    if len(sources) == 1:
        text = contents(inv, sources)
        for path in resolve(target.text, inv.scope):
            inv.scope.files[path] = text


def _link(inv: Invocation) -> Verdict:
    options = read_options(inv.args, "tS", ("target-directory", "suffix"))
    sources, target = split_target(options)
    for source in sources:
        inv.walk.read(source, inv.scope)
    for place in target:
        inv.walk.write(place, inv.scope)
    return MUTATING


def _install(inv: Invocation) -> Verdict:
    options = read_options(
        inv.args, "mogtS", ("mode", "owner", "group", "target-directory", "suffix")
    )
    mode = options.value("m", "mode")
    if mode is not None and grants_setuid(mode.text):
        inv.find("privilege.setuid", mode)
    sources, target = split_target(options)
    if options.has("d", "directory"):
        sources, target = (), options.operands
    for source in sources:
        inv.walk.read(source, inv.scope)
    for place in target:
        inv.walk.write(place, inv.scope)
    return MUTATING


def _dd(inv: Invocation) -> Verdict:
    read_only, output = True, contents(inv, ())
    for arg in inv.args:
        key, _, value = arg.text.partition("=")
        place = arg._replace(text=value)
        if key == "if":
            inv.walk.read(place, inv.scope)
            output = contents(inv, (place,))
        elif key == "of":
            read_only = value in ("/dev/null", "/dev/stdout")
            inv.walk.write(place, inv.scope)
            for path in resolve(value, inv.scope):
                if _empties(inv, path):
                    inv.find("file.empty", place)
    return Verdict(read_only, output)


_DATA: Final = (".db", ".sqlite", ".sqlite3")


def _empties(inv: Invocation, path: str) -> bool:
    zeros = any(arg.text in ("if=/dev/zero", "if=/dev/null", "if=/dev/urandom") for arg in inv.args)
    return zeros and path.endswith(_DATA)


def _tee(inv: Invocation) -> Verdict:
    operands = read_options(inv.args, "", ("output-error",)).operands
    text = contents(inv, ())
    read_only = True
    for operand in operands:
        if inv.walk.process_text(operand.text) is not None:
            inv.walk.feed(operand.text, text)
            continue
        inv.walk.write(operand, inv.scope)
        if operand.text not in ("/dev/null", "/dev/stderr", "/dev/stdout", "/dev/tty"):
            read_only = False
        for path in resolve(operand.text, inv.scope):
            inv.scope.files[path] = text
    return Verdict(read_only, text)


def _writer(
    values: str = "", long_values: tuple[str, ...] = (), skip: int = 0
) -> Callable[[Invocation], Verdict]:
    """Return the rule of a program that writes every operand after the first ``skip``."""

    def rule(inv: Invocation) -> Verdict:
        options = read_options(inv.args, values, long_values)
        mode = options.value("m", "mode")
        if mode is not None and grants_setuid(mode.text):
            inv.find("privilege.setuid", mode)
        for operand in options.operands[skip:]:
            inv.walk.write(operand, inv.scope)
        return Verdict(False, "")

    return rule


def _mktemp(inv: Invocation) -> Verdict:
    options = read_options(inv.args, "p", ("tmpdir", "suffix"))
    directory = options.value("p", "tmpdir")
    where = "/tmp" if directory is None else directory.text  # noqa: S108 - what mktemp itself uses
    if options.operands:
        template = options.operands[0].text
        where = template if "/" in template else f"{where}/{template}"
        return Verdict(where.startswith("/tmp"), where.rstrip("X") + marks.OPAQUE + "\n")  # noqa: S108
    return Verdict(where.startswith("/tmp"), f"{where}/tmp.{marks.OPAQUE}\n")  # noqa: S108


def _compressor(inv: Invocation) -> Verdict:
    options = read_options(inv.args, "SbT", ("suffix", "threads"))
    for operand in options.operands:
        inv.walk.read(operand, inv.scope)
        if not options.has("c", "stdout", "to-stdout"):
            inv.walk.write(operand, inv.scope)
    to_stdout = options.has(
        "cltkK" if inv.name == "gzip-list" else "clt", "stdout", "to-stdout", "list", "test"
    )
    read_only = to_stdout or not options.operands
    decodes = options.has("d", "decompress", "uncompress") or inv.name.startswith("un")
    decodes = decodes or inv.name in ("gunzip", "bunzip2")
    mark = marks.DECODED if decodes else ""
    return Verdict(read_only, marks.UNKNOWN + mark + marks.taint(inv.stdin))


def _mkfs(inv: Invocation) -> Verdict:
    devices = [
        arg for arg in inv.args if arg.text.startswith("/dev/") or marks.is_unresolved(arg.text)
    ]
    files = [a for a in inv.args if "." in a.text and not a.text.startswith(("-", "/dev/"))]
    if devices or not files:
        inv.find("device.format")
    else:
        inv.find("system.setting")
        for path in files:
            inv.walk.write(path, inv.scope)
    return MUTATING


def _openssl(inv: Invocation) -> Verdict:
    words = [arg.text for arg in inv.args]
    scan_operands(inv.walk, inv.args, inv.scope)
    if words[:1] in (["s_client"], ["s_server"], ["s_time"], ["ocsp"]):
        if not any("localhost" in word or "127.0.0.1" in word for word in words):
            inv.find("network.use")
        return Verdict(False, marks.NETWORK + marks.UNKNOWN)
    if words[:1] in (["enc"], ["base64"], ["aes-256-cbc"]) or (
        words and words[0].startswith("aes")
    ):
        return Verdict(False, marks.UNKNOWN + marks.DECODED + marks.taint(inv.stdin))
    reads = words[:1] in (["dgst"], ["version"], ["list"], ["ciphers"]) and "-out" not in words
    return Verdict(reads and "-sign" not in words)


RULES: Final[dict[str, Callable[[Invocation], Verdict]]] = {
    "cp": _copy,
    "scp-local": _copy,
    "ln": _link,
    "link": _link,
    "symlink": _link,
    "install": _install,
    "ginstall": _install,
    "dd": _dd,
    "tee": _tee,
    "sponge": _tee,
    "touch": _writer("dtr", ("date", "time", "reference")),
    "mkdir": _writer("m", ("mode",)),
    "mkfifo": _writer("m", ("mode",)),
    "fallocate": _writer("lo", ("length", "offset")),
    "split": _writer("abClnt", ("bytes", "lines", "number", "suffix-length"), skip=1),
    "csplit": _writer("fbn", skip=9),
    "dos2unix": _writer(),
    "unix2dos": _writer(),
    "setfacl": _writer("mxMX", ("modify", "remove"), skip=0),
    "mktemp": _mktemp,
    "tempfile": _mktemp,
    **dict.fromkeys(
        ("gzip", "gunzip", "bzip2", "bunzip2", "xz", "unxz", "lzma", "unlzma", "zstd", "unzstd",
         "lz4", "unlz4", "lzip", "pigz", "unpigz", "brotli", "compress", "uncompress", "7z-c"),
        _compressor,
    ),
    "mkfs": _mkfs,
    "mkntfs": _mkfs,
    "mkdosfs": _mkfs,
    "mke2fs": _mkfs,
    "openssl": _openssl,
    "uudecode": lambda inv: Verdict(False, marks.UNKNOWN + marks.DECODED + marks.taint(inv.stdin)),
}  # fmt: skip
