"""Programs with options whose value is a command, or code in which commands stand."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from sandboxrun.screening.judging.code import scan_code
from sandboxrun.screening.judging.invocation import MUTATING, Invocation, Verdict
from sandboxrun.screening.reading.expand import Arg

_SHELL_OPTIONS: Final[dict[str, str]] = {
    "npm": "--script-shell --shell --node-options",
    "pnpm": "--script-shell --shell",
    "yarn": "--script-shell",
    "split": "--filter",
    "gsplit": "--filter",
    "tcpdump": "-z --postrotate-command",
    "aria2c": "--on-download-complete --on-download-start --on-download-stop --on-download-error",
    "yt-dlp": "--exec",
    "youtube-dl": "--exec",
    "openvpn": "--up --down --route-up --tls-verify",
    "logrotate": "--mail",
    "tmate": "-c",
    "ffmpeg": "-post_process",
    "gcc": "-wrapper",
    "g++": "-wrapper",
    "clang": "-wrapper",
    "start-stop-daemon": "-x --exec -a --startas",
    "unison": "-sshcmd -rshcmd",
    "rclone": "--password-command --sftp-ssh",
    "restic": "--password-command -o",
    "borg": "--rsh",
    "mutt": "-e",
    "fzf": "--preview --bind",
    "sk": "--preview --bind --cmd",
    "jest": "--globalSetup",
    "ctags": "--options",
    "xterm": "-e",
    "gnome-terminal": "-e --command",
    "konsole": "-e",
    "alacritty": "-e --command",
    "kitty": "-e",
    "wezterm": "-e",
    "mpv": "--ytdl-raw-options",
    "cargo": "--config",
    "rustc": "-Clinker",
    "ansible": "-a --args",
    "pssh": "-i",
    "sshfs": "-o",
}
"""Options whose value a shell, or a program of that name, runs."""
_CODE_OPTIONS: Final[dict[str, str]] = {
    "octave": "--eval",
    "octave-cli": "--eval",
    "jrunscript": "-e",
    "jshell": "-e",
    "jjs": "-e",
    "puppet": "-e --execute",
    "rpm": "-E --eval",
    "rpmbuild": "-E --eval",
    "rpmquery": "--eval",
    "gimp": "-b --batch",
    "slsh": "-e",
    "maxima": "--batch-string",
    "gnuplot": "-e",
    "matlab": "-r -batch",
    "sage": "-c",
    "nmap": "--script-args",
    "irb": "-e",
    "pry": "-e",
    "bpython": "-c",
    "ipython3": "-c",
    "mix": "-e --eval",
    "iex": "-e",
    "kotlin": "-e",
}
_MACRO: Final = re.compile(r"%\(([^)]*)\)")
_SYSCMD: Final = re.compile(r"(?:e?syscmd|\.sy|\.pso|write18)\s*[({`\s]+([^)}'`\n]+)")


_ESCAPING: Final = frozenset("dc ftp lftp sftp telnet mail mailx gnuplot".split())
"""Programs that give a line of their input to a shell when it starts with an exclamation mark."""
_ATTACHING: Final = frozenset("strace ltrace perf gcore py-spy bpftrace rbspy".split())
"""Programs that take over a process by its number."""


def _escapes(inv: Invocation) -> None:
    texts = [inv.whole._replace(text=inv.stdin)] if inv.stdin else []
    texts += [value for option, value in zip(inv.args, inv.args[1:], strict=False)
              if option.text in ("-e", "-c", "-E")]  # fmt: skip
    for text in texts:
        for line in re.findall(r"(?m)^\s*!\s*(.+)$", text.text):
            inv.script(text._replace(text=line))


def _attaches(inv: Invocation) -> None:
    for place, arg in enumerate(inv.args):
        before = inv.args[place - 1].text if place else ""
        bare = inv.name == "gcore" and arg.text == "1"
        if (
            bare
            or (arg.text == "1" and before in ("-p", "--pid"))
            or arg.text in ("-p1", "--pid=1")
        ):
            inv.find("escape.process", arg)


def option_rule(inv: Invocation) -> None:
    """Report the commands in options of ``inv``'s program; most programs have none."""
    if inv.name in _ESCAPING:
        _escapes(inv)
    if inv.name in _ATTACHING:
        _attaches(inv)
    shell = _SHELL_OPTIONS.get(inv.name, "").split()
    code = _CODE_OPTIONS.get(inv.name, "").split()
    if not shell and not code:
        return
    for place, arg in enumerate(inv.args):
        name, equals, value = arg.text.partition("=")
        following = inv.args[place + 1] if place + 1 < len(inv.args) else None
        given = arg._replace(text=value) if equals else following
        if given is None:
            continue
        if name in shell:
            inv.find("option.program", given)
            inv.script(
                given._replace(
                    text=given.text.replace(",", " ") if "wrapper" in name else given.text
                )
            )
        elif name in code:
            scan_code(inv, given)
            for macro in _MACRO.finditer(given.text):
                inv.script(given._replace(text=macro[1]))


def _macros(inv: Invocation) -> Verdict:
    """m4 and the roff family run programs from their input."""
    texts: list[Arg] = []
    if inv.stdin:
        texts.append(inv.whole._replace(text=inv.stdin))
    texts.extend(
        arg._replace(text=arg.text.partition("=")[2])
        for arg in inv.args
        if arg.text.startswith("-D")
    )
    for text in texts:
        for match in _SYSCMD.finditer(text.text):
            inv.script(text._replace(text=match[1]))
    for arg in inv.args:
        inv.walk.read(arg, inv.scope)
    return MUTATING


def _run_parts(inv: Invocation) -> Verdict:
    for arg in inv.args:
        inv.walk.read(arg, inv.scope)
    return MUTATING


RULES: Final[dict[str, Callable[[Invocation], Verdict]]] = {
    **dict.fromkeys(("m4", "gm4", "troff", "groff", "nroff"), _macros),
    "run-parts": _run_parts,
}
