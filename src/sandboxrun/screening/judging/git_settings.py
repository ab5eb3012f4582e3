"""git's settings that run programs, and its sub-commands that only read."""

from __future__ import annotations

import re
from typing import Final

from sandboxrun.screening.judging.environment import is_harmless_command
from sandboxrun.screening.judging.invocation import Invocation, Verdict
from sandboxrun.screening.reading.expand import Arg

RUN_KEYS: Final = re.compile(
    r"(?:alias\..+|core\.(?:pager|editor|sshcommand|fsmonitor|hookspath|askpass|gitproxy|worktree)"
    r"|pager\..+|sequence\.editor|diff\.external|diff\..+\.(?:command|textconv)|merge\..+\.driver"
    r"|filter\..+\.(?:clean|smudge|process)|credential(?:\..+)?\.helper|gpg(?:\..+)?\.program"
    r"|difftool\..+\.cmd|mergetool\..+\.cmd|browser\..+\.cmd|man\..+\.cmd|interactive\.difffilter"
    r"|protocol\..*ext.*|uploadpack\.packobjectshook|remote\..+\.(?:uploadpack|receivepack|vcs)"
    r"|sendemail\.smtpserver|ssh\.variant|init\.templatedir|include(?:if\..+)?\.path|trailer\..+\.cmd"
    r"|submodule\..+\.update)$",
    re.IGNORECASE,
)


def apply_setting(inv: Invocation, setting: Arg) -> bool:
    """Report a setting that runs something. True where the setting is harmless."""
    key, _, value = setting.text.partition("=")
    if not RUN_KEYS.fullmatch(key):
        return True
    return runs_setting(inv, setting, value)


def runs_setting(inv: Invocation, place: Arg, value: str) -> bool:
    """Report the program that a setting's value runs. True where the value is harmless."""
    if not value or is_harmless_command(value) or value in ("true", "false", "store", "cache"):
        return True
    inv.find("git.hook", place)
    inv.script(place._replace(text=value.removeprefix("!")))
    return False


def read_history(name: str, inv: Invocation) -> Verdict:
    """Judge a sub-command that only reads, but for some of its options."""
    read_only = True
    for arg in inv.args:
        text = arg.text
        if text == "--":
            break
        if text.startswith("--output") and not text.startswith("--output-indicator"):
            read_only = False
            inv.walk.write(arg._replace(text=text.partition("=")[2]), inv.scope)
        elif text.startswith(("--ext-diff", "--textconv", "--filters")):
            read_only = False
        elif name == "grep" and text.startswith(("-O", "--open-files-in-pager")):
            read_only = False
            program = text.removeprefix("-O") if text.startswith("-O") else text.partition("=")[2]
            if program:
                inv.find("option.program", arg)
                inv.script(arg._replace(text=program))
        elif (name == "fsck" and text == "--lost-found") or (
            name in ("merge-tree", "interpret-trailers")
            and text
            in (
                "--write-tree",
                "--in-place",
            )
        ):
            read_only = False
    if "--no-index" in [arg.text for arg in inv.args] or name == "diff":
        for arg in inv.args:
            if not arg.text.startswith("-"):
                inv.walk.read(arg, inv.scope)
    return Verdict(read_only)


def first_operand(inv: Invocation) -> str:
    """Return the sub-command's own sub-command, or an empty string."""
    return next((arg.text for arg in inv.args if not arg.text.startswith("-")), "")
