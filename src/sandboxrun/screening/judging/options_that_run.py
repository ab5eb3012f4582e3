"""Programs with options whose value is a command, or code in which commands stand."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from sandboxrun.screening.judging.code import scan_code
from sandboxrun.screening.judging.invocation import MUTATING, Invocation, Verdict
from sandboxrun.screening.reading.expand import Arg

_SHELL_OPTIONS: Final[dict[str, str]] = {
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


def option_rule(inv: Invocation) -> None:
    """Report the commands in options of ``inv``'s program; most programs have none."""
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
