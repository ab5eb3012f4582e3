"""Programs that only read, with the options that make them write.

An option that is not named here changes nothing but what is printed. ``never`` lists what takes
the proof away; long options count from any beginning of theirs.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from sandboxrun.screening.judging.access import read_codes
from sandboxrun.screening.judging.invocation import Invocation, Verdict
from sandboxrun.screening.judging.options import read_options
from sandboxrun.screening.judging.outputs import OUTPUTS
from sandboxrun.screening.reading import marks
from sandboxrun.screening.reading.expand import Arg


class Reader(NamedTuple):
    """How a reading program's command line is read."""

    values: str = ""
    """Short options that take a value."""
    long_values: tuple[str, ...] = ()
    never: str = ""
    """Short options that write or run something."""
    long_never: tuple[str, ...] = ()
    most: int | None = None
    """Most operands; one more is a file that is written."""
    skip: int = 0
    """Operands that are not paths, such as a pattern."""
    names_only: bool = False
    """It shows names and sizes of files, never what is in them."""
    text_only: bool = False
    """Its operands are text, not paths."""


_PLAIN: Final = Reader()
_NAMES: Final = Reader(names_only=True)
_TEXT: Final = Reader(text_only=True)
_GREP: Final = Reader("efmABCdD", ("regexp", "file", "max-count", "include", "exclude"), skip=1)

READERS: Final[dict[str, Reader]] = {
    **dict.fromkeys(
        "cat tac nl wc rev fold fmt expand unexpand paste comm join cksum sum md5sum sha1sum"
        " sha224sum sha256sum sha384sum sha512sum b2sum cmp strings od hexdump hd zcat bzcat"
        " xzcat zstdcat lz4cat zless zmore bzless xzless tsort column diffstat readelf nm"
        " objdump size addr2line c++filt numfmt pr ptx base32 basenc bat batcat cloc tokei"
        " scc wdiff colordiff sdiff3 diff3 zdiff zcmp csvlook csvstat glow md2man ncal"
        " xmlstarlet-sel hexyl icdiff delta dyff jd look pdftotext-stdout exiftool-list"
        " identify-file mediainfo ffprobe vimcat lsattr crc32".split(),
        _PLAIN,
    ),
    **dict.fromkeys(
        "ls dir vdir stat du df exa eza lsd realpath readlink namei pwd mountpoint findmnt"
        " lsblk blkid-list dust duf ncdu-print".split(),
        _NAMES,
    ),
    **dict.fromkeys(
        "echo printf true false : test [ basename dirname seq yes sleep expr factor id whoami"
        " groups who w users uptime uname arch nproc tty logname printenv locale getconf tput"
        " which type whatis apropos whereis man help info lscpu lsmem lspci lsusb lsmod free"
        " vmstat iostat ps pgrep pidof pstree top-batch jobs ss netstat getent cal ulimit"
        " umask times dirs hash caller compgen hostid dmesg-read last lastlog lsof fuser-list"
        " bc sensors acpi tzdata errno ascii units cowsay figlet fortune lsb_release"
        " pkg-config pkgconf llvm-config python3-config xdpyinfo nvidia-smi sysctl-read"
        " tsc-version systemd-detect-virt pathchk".split(),
        _TEXT,
    ),
    "bat": Reader(long_never=("build", "clear"), never="-"),
    "man": Reader("PHB", ("pager", "html", "browser"), "PH", ("pager", "html"), text_only=True),
    "head": Reader("nc", ("lines", "bytes")),
    "tail": Reader("ncs", ("lines", "bytes", "pid", "sleep-interval")),
    "cut": Reader("dfcb", ("delimiter", "fields", "characters", "bytes", "output-delimiter")),
    "tr": _TEXT,
    "grep": _GREP,
    **dict.fromkeys(
        ("egrep", "fgrep", "rgrep", "zgrep", "zegrep", "zfgrep", "bzgrep", "xzgrep"), _GREP
    ),
    "rg": Reader(
        "efgtTABCmrjME",
        ("regexp", "file", "glob", "type", "max-count", "replace", "context", "max-depth"),
        "z",
        ("pre", "hostname-bin", "search-zip"),
        skip=1,
    ),
    "ag": Reader("ABCGm", ("pager", "ignore"), "", ("pager",), skip=1),
    "ack": Reader("ABCgm", ("pager", "output"), "", ("pager",), skip=1),
    "git-grep": _GREP,
    "file": Reader("fFmeP", ("files-from", "magic-file"), "C", ("compile",)),
    "tree": Reader("LPIoH", ("filelimit", "charset"), "oR", ("output",), names_only=True),
    "date": Reader("drI", ("date", "reference", "rfc-3339", "file"), "s", ("set",), text_only=True),
    "hostname": Reader("Fb", ("file",), "Fb", ("file", "boot"), most=0, text_only=True),
    "domainname": Reader(never="Fb", most=0, text_only=True),
    "sort": Reader(
        "koStT",
        (
            "key",
            "output",
            "field-separator",
            "buffer-size",
            "temporary-directory",
            "parallel",
            "compress-program",
            "files0-from",
            "batch-size",
            "random-source",
        ),
        "oT",
        ("output", "compress-program", "temporary-directory"),
    ),
    "uniq": Reader("fsw", ("skip-fields", "skip-chars", "check-chars"), most=1),
    "shuf": Reader("eino", ("echo", "input-range", "head-count", "output"), "o", ("output",)),
    "xxd": Reader("clsgonR", ("cols", "len", "seek"), "", (), most=1),
    "diff": Reader("UCWIxXF", ("unified", "context", "width", "ignore-matching-lines", "exclude")),
    "sdiff": Reader("owI", ("output", "width"), "o", ("output",)),
    "base64": Reader("wbio", ("wrap", "output", "break", "input"), "o", ("output",)),
    "iconv": Reader("fto", ("from-code", "to-code", "output"), "o", ("output",)),
    "jq": Reader(
        "fL",
        ("arg", "argjson", "slurpfile", "rawfile", "indent", "from-file"),
        "i",
        ("in-place",),
        skip=1,
    ),
    "gojq": Reader("f", ("arg", "argjson"), skip=1),
    "yq": Reader(
        "ops",
        ("output-format", "input-format", "split-exp"),
        "is",
        ("inplace", "in-place", "split-exp"),
        skip=1,
    ),
    "xq": Reader(never="i", long_never=("in-place", "inplace"), skip=1),
    "tomlq": Reader(never="i", long_never=("in-place",), skip=1),
    "xmllint": Reader(
        "o", ("output", "xpath", "schema", "encode", "pattern"), "o", ("output", "shell")
    ),
    "shellcheck": Reader("sefoxPSW", ("shell", "exclude", "format", "severity")),
    "less": Reader(
        "oOkbhjpPtTxyz",
        ("log-file", "LOG-FILE", "lesskey-file"),
        "oOkt",
        ("log-file", "LOG-FILE", "lesskey-file", "lesskey-src"),
    ),
    "more": _PLAIN,
    "fd": Reader(
        "xXedEtSc",
        ("exec", "exec-batch", "extension", "max-depth", "exclude", "type"),
        "xX",
        ("exec", "exec-batch"),
        skip=1,
        names_only=True,
    ),
    "fdfind": Reader(
        "xXedEtSc",
        ("exec", "exec-batch", "extension", "type"),
        "xX",
        ("exec", "exec-batch"),
        skip=1,
        names_only=True,
    ),
    "locate": Reader("dln", ("database", "limit"), text_only=True),
    "top": Reader("dnpuUoE", text_only=True),
    "unzip": Reader("xPd", never="dofnuCDX"),
    "zipinfo": _PLAIN,
    "zipgrep": Reader(skip=1),
    "dmesg": Reader(
        "lfnT",
        ("level", "facility"),
        "cCDEn",
        ("clear", "read-clear", "console-off", "console-on", "console-level"),
        text_only=True,
    ),
    "sysctl": Reader(
        "prw",
        ("load", "pattern", "system", "write"),
        "wp",
        ("write", "load", "system"),
        text_only=True,
    ),
    "journalctl": Reader(
        "unpSU",
        ("unit", "lines", "since", "until"),
        "",
        ("vacuum-size", "vacuum-time", "vacuum-files", "rotate", "flush", "sync"),
        text_only=True,
    ),
    "blkid": _TEXT,
    "ifconfig": Reader(most=1, text_only=True),
    "arp": Reader(never="sd", text_only=True),
    "lsns": _TEXT,
    "dpkg-query": _TEXT,
    "history": Reader(never="wcdarnps", text_only=True),
}
READERS["unzip"] = Reader("xP", never="")


def judge_reader(inv: Invocation, reader: Reader) -> Verdict:
    """Judge a program of the table."""
    options = read_options(inv.args, reader.values, reader.long_values)
    read_only = not (options.has(reader.never, *reader.long_never))
    operands = options.operands
    if reader.skip and not options.has("ef", "regexp", "file", "from-file"):
        operands = operands[reader.skip :]
    if reader.most is not None and len(operands) > reader.most:
        read_only = False
        for operand in operands[reader.most :]:
            inv.walk.write(operand, inv.scope)
    if reader.never and options.doubtful:
        read_only = False
    if not reader.text_only:
        for operand in (*operands, *options.all_values("f", "file", "from-file", "files0-from")):
            _operand(inv, operand, reader)
    for value in options.all_values("o", "output", "log-file"):
        if not read_only:
            inv.walk.write(value, inv.scope)
    output = OUTPUTS.get(inv.name)
    if output is None:
        return Verdict(
            read_only, marks.UNKNOWN + marks.taint(inv.stdin, *(a.text for a in inv.args))
        )
    return Verdict(read_only, output(inv))


def _operand(inv: Invocation, operand: Arg, reader: Reader) -> None:
    if reader.names_only and marks.has_glob(operand.text):
        return
    if operand.text == "-":
        return
    # The name of a project's file is no secret; where a person keeps credentials is.
    if not reader.names_only or "secret.project" not in read_codes(operand.text, inv.scope):
        inv.walk.read(operand, inv.scope)
