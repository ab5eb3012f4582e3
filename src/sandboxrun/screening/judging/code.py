"""One-liners of interpreters: what their text starts, deletes and reads.

Python is read with its own grammar. For the others every string is looked at, in the light of
the calls that appear at all: a loose reading that finds danger and proves nothing.
"""

from __future__ import annotations

import re
from typing import Final

from sandboxrun.screening.judging.deletion import deletion_codes
from sandboxrun.screening.judging.invocation import Invocation
from sandboxrun.screening.judging.secrets import METADATA
from sandboxrun.screening.reading import marks
from sandboxrun.screening.reading.expand import Arg

_SPAWN: Final = re.compile(
    r"\b(?:system|exec|execv|execve|execvp|execlp|execl|popen|popen2|popen3|spawn|spawnSync"
    r"|spawnlp?|execSync|execFile|execFileSync|fork_exec|shell_exec|passthru|proc_open|pcntl_exec"
    r"|child_process|subprocess|Popen|check_call|check_output|getoutput|getstatusoutput|capture2e?|capture3"
    r"|os\.execute|io\.popen|shell-command|call-process|start-process|ProcessBuilder|getRuntime"
    r"|Deno\.run|Deno\.Command|Bun\.spawn|Bun\.spawnSync|system2|shelljs|execa|IPC::Open\d|Open3"
    r"|run_command|posix_spawn|Process\.run|Process\.start|do shell script|readpipe|open3|pty)\b"
    r"|%x|\bqx\b|`|open\s*\(?\s*[\w$]*\s*,?\s*[\"']\s*\||\|\s*[\"']\s*[,)]|\[ShellExecute\]"
)
_PIPE_OPEN: Final = re.compile(
    r"\bopen\b\s*\(?\s*(?:(?:my|our|local)?\s*[\w$]+\s*,\s*)?[\"']\s*(?:\||-\||\w[^\"'|]*\|[\"'])"
)
"""Perl and Ruby open a command where the name begins or ends with a bar."""
_DELETE: Final = re.compile(
    r"\b(?:rmtree|remove_tree|rmSync|rmdirSync|rm_rf|rm_r|unlinkSync|rmdir|unlink|removedirs"
    r"|delete_folder|RemoveAll|deltree|fs\.rm|Deno\.remove|FileUtils|os\.remove|Files\.delete)\b"
)
_DELETE_TREE: Final = re.compile(
    r"rmtree|remove_tree|rmSync|rmdirSync|rm_rf|rm_r\b|RemoveAll|fs\.rm"
)
_SOCKET: Final = re.compile(
    r"\bsocket\b|fsockopen|TCPSocket|net\.connect|net\.Socket|createConnection|IO::Socket"
    r"|require\([\"'](?:node:)?net[\"']\)|use Socket|stream_socket_client|Socket\.tcp|socket\.tcp|\bnet\.Dial"
)
_CONNECT: Final = re.compile(r"connect\b|TCPSocket|fsockopen|create_connection|IO::Socket::INET")
_RUNS_WHAT_IT_READS: Final = re.compile(
    r"(?:popen|system|exec|spawn|subprocess\.\w+|Popen|shell_exec|check_output|eval|run)\s*\(?\s*[a-z_$]\w*\s*[,)]"
)
_SHELL_STRING: Final = re.compile(r"(?:^|/)(?:ba|da|z|k|c|a)?sh\b|cmd\.exe|powershell")
_NETWORK: Final = re.compile(
    r"\brequests\.|urllib|urlopen|urlretrieve|http\.client|httpx\.|aiohttp|\bfetch\s*\(|XMLHttpRequest"
    r"|\baxios\b|require\([\"']https?[\"']\)|LWP|HTTP::Tiny|Net::HTTP|open-uri|file_get_contents\(\s*[\"']http"
    r"|curl_init|\.connect\s*\(\s*\(|create_connection|smtplib|ftplib|paramiko|boto3|URI\.open|getprint|TCPSocket|telnetlib|websocket"
)
_LOOPBACK: Final = re.compile(r"https?://(?:localhost|127\.\d+\.\d+\.\d+|\[::1\]|0\.0\.0\.0)")
_DECODES: Final = re.compile(
    r"b64decode|decode_base64|base64_decode|atob\(|unpack\([\"']m|fromhex|unhexlify|gzinflate"
    r"|str_rot13|Base64\.decode|zlib\.decompress|marshal\.loads|codecs\.decode|Buffer\.from\([^)]*base64"
)
_EVALUATES_TEXT: Final = re.compile(
    r"(?<![.\w])(?:eval|exec|Function|instance_eval|loadstring)\b|\.then\(eval\)"
)
_WRITES: Final = re.compile(
    r"writeFile|appendFile|createWriteStream|File\.write|file_put_contents|fopen|write_text|write_bytes"
    r"|\bopen\s*\(?[^)\n]*[\"'](?:[wax]\+?b?|>>?)|File\.open"
)
_EVALUATES: Final = re.compile(
    r"\b(?:eval|exec|execfile|assert|create_function|Function|instance_eval|loadstring|load)\b"
)
_FORKS: Final = re.compile(
    r"\bfork\s*(?:\(\s*\))?\s*(?:while|until)\b|(?:while|until|for|loop)\b[^\n]{0,60}[\s\S]{0,20}\bfork\b"
    r"|fork\s*\|\|\s*fork|fork\s*&&\s*fork|fork\(\)\s*for\b"
)
_STRINGS: Final = re.compile(
    r"\"\"\"([\s\S]*?)\"\"\"|'''([\s\S]*?)'''"
    r"|\"((?:\\.|[^\"\\])*)\"|'((?:\\.|[^'\\])*)'|`((?:\\.|[^`\\])*)`"
    r"|\b(?:qx|q|qq|%x|%q|%Q|%w)\s*[{(\[]([^})\]]*)[})\]]|%[xqQwW][{(\[/!]([^})\]/!]*)[})\]/!]"
    r"|\bq[qx]?/([^/]*)/"
)
_PRIVILEGE: Final = re.compile(
    r"\b(?:setuid|setreuid|setresuid|seteuid|set_uid)\s*\(?\s*0|POSIX::setuid\(0\)|Process::Sys\.setuid\(?0"
    r"|with administrator privileges"
)
_CAPS: Final = re.compile(r"\bos\.(?:unshare|setns|chroot|mknod)\b|\bchroot\s*\(")


def scan_code(inv: Invocation, code: Arg) -> None:
    """Report what the text ``code`` of any scripting language would do."""
    text = marks.plain(code.text)
    if marks.NETWORK in text:
        inv.find("code.network", code)
    if marks.DECODED in text:
        inv.find("code.decoded", code)
    if marks.is_unresolved(text):
        inv.find("unresolved.code", code)
    strings = [_string(match) for match in _STRINGS.finditer(text)]
    if inv.name in ("tclsh", "wish", "expect"):
        strings += re.findall(r"\b(?:exec|spawn|system)\s+([^;\n\]]+)", text)
    paths = [*strings, *_bare_paths(text)]
    _hazards(inv, code, text, strings)
    for string in paths:
        _path(inv, code, string)
    if _SPAWN.search(_without_strings(text)) or "`" in text or _PIPE_OPEN.search(text):
        scan_spawn(inv, code, text, strings)
    if _WRITES.search(text):
        for string in paths:
            if string.startswith(("/", "~")) and not re.search(r"\s", string):
                path = marks.HOME_PATH + string[1:] if string[0] == "~" else string
                inv.walk.write(code._replace(text=path), inv.scope)
    if _DELETE.search(text):
        recursive = _DELETE_TREE.search(text) is not None
        for string in strings:
            delete(inv, code, string, recursive=recursive)


def _string(match: re.Match[str]) -> str:
    text = next((group for group in match.groups() if group is not None), "")
    return text.replace("\\'", "'").replace('\\"', '"').replace("\\\\", "\\")


def _without_strings(text: str) -> str:
    return _STRINGS.sub(lambda m: '""' if m[0][0] in "\"'" else m[0], text)


_HOME_NAMES: Final = re.compile(r"\bHOME\b|homedir|expanduser|Path\.home|Dir\.home|USERPROFILE|~/")
_DOT_PATH: Final = re.compile(r"[/\"'`}]\s*(\.[a-z][\w.-]*(?:/[\w.*-]+)*)")


def _bare_paths(text: str) -> list[str]:
    """Return paths below home that the text puts together from its name and a dotted rest."""
    if not _HOME_NAMES.search(text):
        return []
    return ["~/" + match[1] for match in _DOT_PATH.finditer(text)]


_PRINTS: Final = re.compile(
    r"\s*(?:print|puts|echo|console\.log|process\.stdout\.write|say|io\.write)\s*\(?\s*"
    r"(?:\"((?:\\.|[^\"\\])*)\"|'((?:\\.|[^'\\])*)')\s*\)?\s*;?\s*"
)


def printed_text(args: tuple[Arg, ...]) -> str:
    """Return what a one-liner prints, where it is one constant; a decoder's output is marked."""
    for arg in args:
        match = _PRINTS.fullmatch(arg.text)
        if match is not None:
            return (match[1] or match[2] or "") + "\n"
        if _DECODES.search(arg.text) or re.search(r"\bpack\s*\(", arg.text):
            return marks.UNKNOWN + marks.DECODED
    return marks.UNKNOWN


def _path(inv: Invocation, code: Arg, string: str) -> None:
    for piece in (string, string.removeprefix("<"), string.removeprefix("file://")):
        if not piece or len(piece) > 200 or any(c in piece for c in "\n \t"):  # noqa: PLR2004
            continue
        if piece.startswith("~"):
            inv.walk.read(code._replace(text=marks.HOME_PATH + piece[1:]), inv.scope)
        elif piece.startswith(("/", ".env")):
            inv.walk.read(code._replace(text=piece), inv.scope)


def _hazards(inv: Invocation, code: Arg, text: str, strings: list[str]) -> None:
    bare = _without_strings(text)
    hidden_risks(inv, code, text)
    if _FORKS.search(bare):
        inv.find("fork.bomb", code)
    if _PRIVILEGE.search(bare):
        inv.find("privilege.raise", code)
    if _CAPS.search(bare):
        inv.find("escape.namespace", code)
    if _SOCKET.search(text) and (
        any(_SHELL_STRING.search(s) for s in strings)
        or "dup2" in text
        or "/bin/sh" in text
        or (_CONNECT.search(text) and _RUNS_WHAT_IT_READS.search(bare))
    ):
        inv.find("shell.reverse", code)
    if METADATA.search(text) and _NETWORK.search(text):
        inv.find("secret.metadata", code)
    # Modules named by options (-MLWP::Simple, -ropen-uri) are part of what the text can do.
    if _NETWORK.search(text + " ".join(a.text for a in inv.args if a.text.startswith("-"))):
        if _EVALUATES_TEXT.search(bare):
            inv.find("code.network", code)
        elif not _LOOPBACK.search(text):
            inv.find("network.use", code)
            inv.walk.note_network(inv.name)


def hidden_risks(inv: Invocation, code: Arg, text: str) -> None:
    """Report code that runs what it decodes or fetches, before its calls are hidden."""
    bare = _without_strings(text)
    stdin = inv.stdin or ""
    if _EVALUATES.search(bare) and re.search(r"stdin|STDIN|<>|fd 0|php://input", text):
        if marks.NETWORK in stdin:
            inv.find("code.network", code)
        if marks.DECODED in stdin:
            inv.find("code.decoded", code)
    if _DECODES.search(text) and (_EVALUATES_TEXT.search(bare) or _SPAWN.search(bare)):
        inv.find("code.decoded", code)
    if (_NETWORK.search(text) or "requests" in text) and _EVALUATES_TEXT.search(bare):
        inv.find("code.network", code)


def scan_spawn(inv: Invocation, code: Arg, text: str, strings: list[str]) -> None:
    """Judge every string of code that starts programs, alone and as one argument list."""
    del text
    commands = [s.strip("| ") for s in strings]
    commands = [s for s in commands if s and len(s) < 4000 and not _MODULE.fullmatch(s)]  # noqa: PLR2004
    if not commands:
        inv.find("unresolved.code", code)
        return
    for string in commands[:64]:
        if re.match(r"[\w./~$\\\"'{(!<>-]", string):
            _quietly(inv, code, string)
    if len(commands) > 1 and not any("\n" in s for s in commands):
        for place in range(min(len(commands), 8)):
            if re.fullmatch(r"[\w./-]+", commands[place]):
                inv.inner(tuple(code._replace(text=s) for s in commands[place : place + 12]))


_MODULE: Final = re.compile(
    r"(?:node:)?(?:child_process|fs|os|net|path|util|http|https|fs/promises)"
)
_NOT_SHELL: Final = re.compile(
    r"[%#]?\{?\w*\}?$|utf-?8|[rwab+]{1,3}|[\w -]*[:,.!?]|\\[nt0]|[\w./-]+\.\w+$"
)


def _quietly(inv: Invocation, code: Arg, string: str) -> None:
    """Judge a string that may be a command; one that is plainly not makes no finding."""
    if _NOT_SHELL.fullmatch(string):
        first = string.rsplit("/", maxsplit=1)[-1]
        if first not in ("sudo", "su", "reboot", "halt", "poweroff", "doas", "pkexec"):
            return
    if string.count('"') % 2 or string.count("'") % 2:
        return
    inv.script(code._replace(text=string))


def delete(inv: Invocation, code: Arg, string: str, *, recursive: bool) -> None:
    """Report deleting the path ``string``."""
    if not string or "\n" in string or not re.match(r"[\w.~/-]", string):
        return
    path = marks.HOME_PATH + string[1:] if string.startswith("~") else string
    for found in deletion_codes(path, inv.scope, recursive=recursive):
        inv.find(found, code)
