"""Programs that look after the machine: mounts, services, accounts, packages, keys."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from sandboxrun.screening.judging.invocation import MUTATING, Invocation, Verdict
from sandboxrun.screening.judging.operands import scan_operands
from sandboxrun.screening.judging.options import read_options
from sandboxrun.screening.reading import marks


def _mount(inv: Invocation) -> Verdict:
    options = read_options(inv.args, "toOLU", ("types", "options"))
    if not options.operands and not options.has("a", "all"):
        return Verdict(True)
    inv.find("escape.mount")
    inv.walk.note_privilege(inv.name)
    return MUTATING


def _sysctl(inv: Invocation) -> Verdict:
    texts = [arg.text for arg in inv.args]
    if any(t in ("-w", "--write", "-p", "--load", "--system") for t in texts) or any(
        re.match(r"[\w./-]+=", t) for t in texts
    ):
        inv.find("escape.kernel")
        return MUTATING
    return Verdict(True)


def _systemctl(inv: Invocation) -> Verdict:
    words = [arg.text for arg in inv.args if not arg.text.startswith("-")]
    if words[:1] in (["poweroff"], ["reboot"], ["halt"], ["kexec"], ["suspend"], ["hibernate"],
                     ["emergency"], ["rescue"], ["soft-reboot"], ["hybrid-sleep"]):  # fmt: skip
        inv.find("power")
        return MUTATING
    reads = {"status", "is-active", "is-enabled", "list-units", "show", "cat", "list-timers",
             "list-unit-files", "is-failed", "list-dependencies", "get-default"}  # fmt: skip
    if not words or words[0] in reads:
        return Verdict(True)
    inv.find("service.control")
    return MUTATING


def _service(inv: Invocation) -> Verdict:
    words = [arg.text for arg in inv.args]
    if words[-1:] == ["status"] or words == ["--status-all"]:
        return Verdict(True)
    inv.find("service.control")
    return MUTATING


def _date(inv: Invocation) -> Verdict:
    options = read_options(inv.args, "drsI", ("date", "reference", "set", "rfc-3339", "file"))
    sets = options.has("s", "set") or any(not arg.text.startswith("+") for arg in options.operands)
    if sets:
        inv.find("system.setting")
        return MUTATING
    return Verdict(not options.doubtful, marks.OPAQUE + "\n")


def _pkill(inv: Invocation) -> Verdict:
    words = [arg.text for arg in inv.args]
    if "." in words or ".*" in words or "root" in words or "-1" in words:
        inv.find("kill.all")
    inv.find("service.control")
    return MUTATING


def _crontab(inv: Invocation) -> Verdict:
    options = read_options(inv.args, "u")
    if options.has("l"):
        return Verdict(True)
    inv.find("service.control")
    for operand in options.operands:
        if operand.text != "-":
            inv.walk.read(operand, inv.scope)
    for line in (inv.stdin or "").splitlines():
        job = re.fullmatch(r"\s*(?:@\w+|(?:\S+\s+){4}\S+)\s+(.+)", line)
        if job is not None:
            inv.script(inv.whole._replace(text=job[1]))
    return MUTATING


def _at(inv: Invocation) -> Verdict:
    inv.find("service.control")
    if inv.stdin:
        inv.script(inv.whole._replace(text=inv.stdin))
    return MUTATING


def _getent(inv: Invocation) -> Verdict:
    words = [arg.text for arg in inv.args]
    if words[:1] in (["shadow"], ["gshadow"]):
        inv.find("secret.read")
        inv.walk.note_privilege("getent")
    return Verdict(True)


def _dpkg(inv: Invocation) -> Verdict:
    texts = [arg.text for arg in inv.args]
    queries = {"-l", "-L", "-s", "-S", "-p", "--list", "--listfiles", "--status", "--search",
               "--print-architecture", "--get-selections", "-c", "-I", "-qa", "-qi", "-ql", "-qf",
               "-q", "-V"}  # fmt: skip
    if texts and texts[0] in queries:
        return Verdict(True)
    inv.find("network.install")
    return MUTATING


def _apt(inv: Invocation) -> Verdict:
    words = [arg.text for arg in inv.args if not arg.text.startswith("-")]
    for place, arg in enumerate(inv.args[:-1]):
        if arg.text == "-o":
            match = re.match(
                r"(?i)(?:APT::Update::(?:Pre|Post)-Invoke|Dpkg::.*Invoke)[^=]*=(.*)",
                inv.args[place + 1].text,
            )
            if match is not None:
                inv.script(inv.args[place + 1]._replace(text=match[1]))
    if words[:1] in (["list"], ["show"], ["policy"], ["search"], ["depends"], ["rdepends"],
                     ["madison"], ["showpkg"], ["info"]):  # fmt: skip
        return Verdict(inv.name in ("apt", "apt-cache"))
    inv.find("network.install")
    inv.walk.note_network(inv.name)
    return MUTATING


def _ssh_keygen(inv: Invocation) -> Verdict:
    options = read_options(inv.args, "ftbNCPIVnsYFRDOaZmw")
    file = options.value("f")
    if file is not None:
        inv.walk.read(file, inv.scope)
    elif not options.has("lFHyAQh"):
        inv.find("outside.write")
    for program in options.all_values("Dw"):
        inv.find("option.program", program)
    return MUTATING


def _gpg(inv: Invocation) -> Verdict:
    if any("export-secret" in arg.text or "export-ssh" in arg.text for arg in inv.args):
        inv.find("secret.print")
    if any(arg.text in ("--recv-keys", "--send-keys", "--search-keys", "--refresh-keys",
                        "--keyserver") for arg in inv.args):  # fmt: skip
        inv.find("network.use")
    scan_operands(inv.walk, inv.args, inv.scope)
    if any(arg.text in ("-d", "--decrypt") for arg in inv.args):
        return Verdict(False, marks.UNKNOWN + marks.DECODED)
    return MUTATING


RULES: Final[dict[str, Callable[[Invocation], Verdict]]] = {
    "mount": _mount,
    "sysctl": _sysctl,
    "systemctl": _systemctl,
    "service": _service,
    "date": _date,
    "pkill": _pkill,
    "killall": _pkill,
    "ssh-keygen": _ssh_keygen,
    "gpg": _gpg,
    "gpg2": _gpg,
    "crontab": _crontab,
    "at": _at,
    "batch": _at,
    "getent": _getent,
    "dpkg": _dpkg,
    "rpm": _dpkg,
    "apt": _apt,
    "apt-get": _apt,
    "apt-cache": _apt,
    "aptitude": _apt,
}
