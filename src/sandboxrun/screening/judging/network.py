"""Programs that talk over the network: where to, what they take with them, what they run."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from sandboxrun.screening.judging.deletion import deletion_codes
from sandboxrun.screening.judging.files import read_below
from sandboxrun.screening.judging.invocation import MUTATING, Invocation, Verdict
from sandboxrun.screening.judging.options import Options, read_options
from sandboxrun.screening.judging.secrets import METADATA
from sandboxrun.screening.reading import marks
from sandboxrun.screening.reading.expand import Arg

_LOOPBACK: Final = re.compile(
    r"(?:[a-z]+://)?(?:[^/@]*@)?(?:localhost|127\.\d{1,3}\.\d{1,3}\.\d{1,3}|\[::1\]|0\.0\.0\.0|::1"
    r"|[\w-]+\.localhost)(?::[^/]*)?(?:[/?#].*)?",
    re.IGNORECASE | re.DOTALL,
)
_CURL_VALUES: Final = "AbcCdDeEFhHKmnoPQrtTuUwxXyYz"
_CURL_LONG: Final = (
    "user-agent cookie cookie-jar data data-raw data-binary data-urlencode data-ascii form"
    " form-string header output request upload-file user proxy max-time connect-timeout retry"
    " write-out unix-socket abstract-unix-socket cert key cacert capath config url referer range"
    " resolve connect-to interface limit-rate dump-header json output-dir netrc-file trace"
    " trace-ascii stderr retry-delay retry-max-time proxy-user ciphers tlsv1 pinnedpubkey"
    " aws-sigv4 oauth2-bearer variable etag-save etag-compare hsts alt-svc"
).split()
_CURL_UPLOADS: Final = ("data", "data-binary", "data-urlencode", "data-ascii", "form", "json",
                        "header", "upload-file", "config", "netrc-file", "cert", "key",
                        "cookie")  # fmt: skip


def is_loopback(address: str) -> bool:
    """Tell whether an address is this machine's own."""
    return _LOOPBACK.fullmatch(marks.plain(address)) is not None


def _curl(inv: Invocation) -> Verdict:
    options = read_options(inv.args, _CURL_VALUES.replace("h", "").replace("n", ""), _CURL_LONG)
    urls = [*options.operands, *options.all_values("", "url")]
    _uploads(inv, options)
    for url in urls:
        if url.text.lower().startswith("file:"):
            inv.walk.read(url._replace(text=re.sub(r"(?i)^file:(//)?", "", url.text)), inv.scope)
    socket = options.value("", "unix-socket", "abstract-unix-socket")
    if socket is not None:
        inv.walk.read(socket, inv.scope)
    writes = _curl_writes(inv, options)
    remote = _addresses(inv, urls, local=socket is not None)
    for place in ("", "proxy"), ("x", "proxy"):
        value = options.value(*place)
        if value is not None and not is_loopback(value.text):
            remote = True
    changes = options.has("", "config") or options.value("K") is not None
    if changes and not remote:
        inv.find("network.use")
    output = marks.UNKNOWN + (marks.NETWORK if remote else "")
    return Verdict(not writes and not changes and not options.doubtful, output)


def _curl_writes(inv: Invocation, options: Options) -> bool:
    targets = options.all_values("oDc", "output", "dump-header", "cookie-jar", "trace",
                                 "trace-ascii", "stderr", "etag-save", "hsts", "output-dir",
                                 "alt-svc")  # fmt: skip
    real = [t for t in targets if t.text not in ("-", "/dev/null", "/dev/stdout", "/dev/stderr")]
    for target in real:
        inv.walk.write(target, inv.scope)
    posts = options.has("dFT", "data", "data-binary", "form", "upload-file", "json", "data-raw",
                        "data-urlencode")  # fmt: skip
    method = options.value("X", "request")
    changing = method is not None and method.text.upper() not in ("GET", "HEAD", "OPTIONS")
    return (
        bool(real)
        or posts
        or changing
        or options.has("OJ", "remote-name", "remote-name-all", "remote-header-name")
    )


def _uploads(inv: Invocation, options: Options) -> None:
    for value in options.all_values("dFTKEHb", *_CURL_UPLOADS):
        text = value.text
        for piece in (text, *re.split(r"[=@<;]", text)):
            if piece and not any(c in piece for c in ' \n{"') and len(piece) > 1:
                path = piece.lstrip("@<")
                path = marks.HOME_PATH + path[1:] if path.startswith("~") else path
                inv.walk.read(value._replace(text=path), inv.scope)


def _addresses(inv: Invocation, urls: list[Arg], *, local: bool = False) -> bool:
    """Report addresses that are not this machine's. True where there is one."""
    remote = False
    for url in urls:
        if METADATA.search(marks.plain(url.text)):
            inv.find("secret.metadata", url)
        if re.search(r":237[56](?:/|$)", url.text):
            inv.find("escape.engine", url)
        if not local and not is_loopback(url.text) and not url.text.lower().startswith("file:"):
            remote = True
            inv.find("network.use", url)
            inv.walk.note_network(inv.name)
    return remote


def _wget(inv: Invocation) -> Verdict:
    options = read_options(
        inv.args,
        "OoaPtTeUQiBAXDRI",
        (
            "output-document",
            "output-file",
            "append-output",
            "directory-prefix",
            "tries",
            "timeout",
            "execute",
            "user-agent",
            "header",
            "post-data",
            "post-file",
            "body-file",
            "input-file",
            "use-askpass",
            "user",
            "password",
            "level",
        ),
    )
    for file in options.all_values("i", "post-file", "body-file", "input-file", "load-cookies"):
        inv.walk.read(file, inv.scope)
    for setting in options.all_values("e", "execute"):
        if "use_askpass" in setting.text:
            inv.find("option.program", setting)
    program = options.value("", "use-askpass")
    if program is not None:
        inv.find("option.program", program)
        inv.script(program)
    targets = options.all_values("OoaP", "output-document", "output-file", "directory-prefix")
    for target in targets:
        if target.text != "-":
            inv.walk.write(target, inv.scope)
    document = options.value("O", "output-document")
    prints = options.has("", "spider") or (
        document is not None and document.text in ("-", "/dev/null", "/dev/stdout")
    )
    remote = _addresses(inv, list(options.operands))
    quiet = not options.value("oa", "output-file", "append-output")
    return Verdict(bool(prints and quiet), marks.UNKNOWN + (marks.NETWORK if remote else ""))


_PRINTS: Final = frozenset(
    "ping ping6 fping dig nslookup host whois traceroute tracepath mtr arping geoiplookup"
    " nmap".split()
)


def _prober(inv: Invocation) -> Verdict:
    operands = [arg for arg in inv.args if not arg.text.startswith(("-", "+"))]
    local = bool(operands) and all(is_loopback(arg.text) or arg.text.isdigit() for arg in operands)
    if not local:
        inv.find("network.use")
        inv.walk.note_network(inv.name)
    writes = any(re.match(r"-o|-x$|-f$", arg.text) for arg in inv.args) and inv.name in (
        "nmap",
        "fping",
    )
    return Verdict(not writes, marks.UNKNOWN + marks.NETWORK)


def _ssh(inv: Invocation) -> Verdict:
    options = read_options(inv.args, "bcDeEFIiJLlmoOpQRSWwB", (), stop=True)
    inv.find("network.use")
    inv.walk.note_network(inv.name)
    for setting in options.all_values("o"):
        key, _, value = re.sub(r"\s*=\s*|\s+", "=", setting.text, count=1).partition("=")
        if key.lower() in ("proxycommand", "localcommand", "knownhostscommand", "pkcs11provider"):
            inv.find("option.program", setting)
            inv.script(setting._replace(text=value))
    for file in options.all_values("iF"):
        inv.walk.read(file, inv.scope)
    rest = options.operands[1:]
    if rest:
        # It runs elsewhere, but as whom and on what is worth as much.
        text = " ".join(arg.text for arg in rest)
        inv.script(rest[0]._replace(text=text, end=rest[-1].end))
    return Verdict(False, marks.NETWORK + marks.UNKNOWN)


def _copy_remote(inv: Invocation) -> Verdict:
    options = read_options(
        inv.args,
        "ceFiJloPSXTfMB",
        (
            "rsh",
            "exclude",
            "include",
            "rsync-path",
            "files-from",
            "exclude-from",
            "password-file",
            "log-file",
        ),
    )
    for program in options.all_values("eS", "rsh", "rsync-path"):
        if program.text not in ("ssh", "rsync"):
            inv.script(program)
    for setting in options.all_values("o"):
        match = re.match(r"(?i)proxycommand[= ](.*)", setting.text)
        if match is not None:
            inv.script(setting._replace(text=match[1]))
    remote = [a for a in options.operands if re.match(r"[^/]*[^/\\]:|\w+://|[^/]+::", a.text)]
    if remote or inv.name != "rsync":
        inv.find("network.use")
        inv.walk.note_network(inv.name)
    for source in options.operands[:-1]:
        inv.walk.read(source, inv.scope)
        read_below(inv, source)
    if inv.name == "rsync" and any(name.startswith("del") for name in options.long):
        inv.find("delete.bulk")
        for target in options.operands[-1:]:
            for code in deletion_codes(target.text, inv.scope, recursive=True):
                inv.find(code, target)
    for target in options.operands[-1:]:
        if target not in remote:
            inv.walk.write(target, inv.scope)
    return MUTATING


def _netcat(inv: Invocation) -> Verdict:
    options = read_options(
        inv.args, "ecgGimoOpqsTVwxXb", ("exec", "sh-exec", "lua-exec", "source-port", "source")
    )
    for program in options.all_values("ec", "exec", "sh-exec", "lua-exec"):
        inv.find("shell.reverse", program)
    for operand in options.operands:
        inv.walk.read(operand, inv.scope)
    if options.has("U", "unixsock"):
        return Verdict(False, marks.UNKNOWN)
    local = bool(options.operands) and is_loopback(options.operands[0].text)
    if not local:
        inv.find("network.use")
        inv.walk.note_network(inv.name)
    _shell_output(inv)
    return Verdict(False, marks.UNKNOWN + ("" if local else marks.NETWORK))


def _shell_output(inv: Invocation) -> None:
    """Report a shell that takes orders from a stream and answers to the network."""
    if inv.stdin is not None and marks.SHELL in inv.stdin:
        inv.find("shell.reverse")


def _socat(inv: Invocation) -> Verdict:
    _shell_output(inv)
    remote = False
    for arg in inv.args:
        kind, _, rest = arg.text.partition(":")
        kind = kind.lower()
        if kind in ("exec", "system", "shell"):
            program = rest.split(",")[0].strip("'\"")
            if re.search(r"(?:^|/)(?:ba|da|z|k|a)?sh\b|python|perl", program):
                inv.find("shell.reverse", arg)
            inv.script(arg._replace(text=program))
        elif kind.startswith(("unix", "abstract", "file", "open", "gopen", "create")):
            inv.walk.read(arg._replace(text=rest.split(",")[0]), inv.scope)
        elif kind.startswith(("tcp", "udp", "openssl", "ssl", "sctp", "socks", "proxy")):
            remote = remote or not is_loopback(rest.split(",")[0])
    if remote:
        inv.find("network.use")
        inv.walk.note_network(inv.name)
    return Verdict(False, marks.UNKNOWN + (marks.NETWORK if remote else ""))


def _ip(inv: Invocation) -> Verdict:
    words = [arg.text for arg in inv.args if not arg.text.startswith("-")]
    if words[:1] == ["netns"] and words[1:2] not in ([], ["list"]):
        inv.find("escape.namespace")
        return MUTATING
    changes = {"add", "del", "delete", "set", "flush", "change", "replace", "up", "down", "append"}
    if changes & set(words[1:]):
        inv.find("system.setting")
        return MUTATING
    if "-b" in [a.text for a in inv.args] or "-batch" in [a.text for a in inv.args]:
        return MUTATING
    return Verdict(True)


def _route(inv: Invocation) -> Verdict:
    if any(arg.text in ("add", "del", "delete", "flush", "change") for arg in inv.args):
        inv.find("system.setting")
        return MUTATING
    return Verdict(True)


def _ifconfig(inv: Invocation) -> Verdict:
    operands = [arg for arg in inv.args if not arg.text.startswith("-")]
    if len(operands) > 1:
        inv.find("system.setting")
        return MUTATING
    return Verdict(True)


def _hostname(inv: Invocation) -> Verdict:
    operands = [arg for arg in inv.args if not arg.text.startswith("-")]
    if operands or any(a.text in ("-F", "-b", "--file", "--boot") for a in inv.args):
        inv.find("system.setting")
        return MUTATING
    return Verdict(True, marks.OPAQUE + "\n")


def _telnet(inv: Invocation) -> Verdict:
    _shell_output(inv)
    inv.find("network.use")
    inv.walk.note_network(inv.name)
    return Verdict(False, marks.UNKNOWN + marks.NETWORK)


RULES: Final[dict[str, Callable[[Invocation], Verdict]]] = {
    "curl": _curl,
    "curlie": _curl,
    "wget": _wget,
    "wget2": _wget,
    **dict.fromkeys(_PRINTS, _prober),
    "ssh": _ssh,
    "autossh": _ssh,
    "slogin": _ssh,
    "scp": _copy_remote,
    "rsync": _copy_remote,
    "sftp": _ssh,
    **dict.fromkeys(("nc", "ncat", "netcat", "nc.openbsd", "nc.traditional", "pnetcat"), _netcat),
    "socat": _socat,
    "ip": _ip,
    "ifconfig": _ifconfig,
    "route": _route,
    "hostname": _hostname,
    "telnet": _telnet,
}
