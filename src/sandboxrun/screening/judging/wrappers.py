"""Programs that run the command in their own arguments: where that command starts.

Each entry carries an example whose inner command must be found and one where it must not; the
suite runs them all.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from sandboxrun.screening.judging.invocation import Invocation, Verdict
from sandboxrun.screening.judging.options import Options, read_options
from sandboxrun.screening.reading import marks
from sandboxrun.screening.reading.expand import Arg


class Wrapper(NamedTuple):
    """Where the inner command starts."""

    match: str
    """A command line whose inner command is ``sudo id``."""
    not_match: str
    """A command line in which ``sudo`` is only text."""
    values: str = ""
    """Short options of the wrapper that take a value."""
    long_values: tuple[str, ...] = ()
    operands: int = 0
    """Operands of the wrapper before the inner command."""
    words: tuple[str, ...] = ()
    """Sub-commands, one of which has to come first; without it there is no inner command."""
    string: tuple[str, ...] = ()
    """Options whose value is shell text."""
    assignments: bool = False
    """``NAME=value`` words may stand before the inner command."""
    joined: bool = False
    """The rest is joined with blanks and given to a shell."""
    writes: str = ""
    """Short options that name a file it writes."""
    transparent: bool = True
    """The wrapper itself changes nothing."""
    finding: str | None = None
    """A finding that using it makes at all."""
    loose: bool = False
    """The rest need not be a command: it is judged only for danger, and nothing is proved."""


WRAPPERS: Final[dict[str, Wrapper]] = {
    "nice": Wrapper("nice -n 5 sudo id", "nice echo sudo", "n", ("adjustment",)),
    "nohup": Wrapper("nohup sudo id", "nohup echo sudo"),
    "setsid": Wrapper("setsid -w sudo id", "setsid echo sudo"),
    "time": Wrapper("/usr/bin/time -o t sudo id", "/usr/bin/time echo sudo", "fo",
                    ("format", "output"), writes="o"),
    "stdbuf": Wrapper("stdbuf -oL sudo id", "stdbuf -o L echo sudo", "ioe",
                      ("input", "output", "error")),
    "timeout": Wrapper("timeout -k 5 9 sudo id", "timeout 5 echo sudo", "ks",
                       ("kill-after", "signal"), operands=1),
    "gtimeout": Wrapper("gtimeout 9 sudo id", "gtimeout 5 echo sudo", "ks",
                        ("kill-after", "signal"), operands=1),
    "ionice": Wrapper("ionice -c3 sudo id", "ionice -c 3 echo sudo", "cnpPu",
                      ("class", "classdata")),
    "chrt": Wrapper("chrt -b 0 sudo id", "chrt 1 echo sudo", "TPD", operands=1),
    "taskset": Wrapper("taskset -c 0 sudo id", "taskset 1 echo sudo", operands=1),
    "numactl": Wrapper("numactl -N 0 sudo id", "numactl echo sudo", "NCmpiP"),
    "choom": Wrapper("choom -n 5 -- sudo id", "choom -n 5 echo sudo", "np"),
    "prlimit": Wrapper("prlimit --nofile=9 sudo id", "prlimit -n9 echo sudo"),
    "cpulimit": Wrapper("cpulimit -l 9 -- sudo id", "cpulimit -l 9 -- echo sudo", "lpe"),
    "unbuffer": Wrapper("unbuffer sudo id", "unbuffer echo sudo"),
    "rlwrap": Wrapper("rlwrap sudo id", "rlwrap echo sudo", "abcCfgHlOpPqsStwz"),
    "fakeroot": Wrapper("fakeroot -- sudo id", "fakeroot echo sudo", "lsibf"),
    "faketime": Wrapper("faketime now sudo id", "faketime now echo sudo", "f", operands=1),
    "xvfb-run": Wrapper("xvfb-run -a sudo id", "xvfb-run echo sudo", "enfpsw",
                        ("server-args", "server-num", "auth-file", "error-file")),
    "dbus-run-session": Wrapper("dbus-run-session -- sudo id", "dbus-run-session echo sudo"),
    "catchsegv": Wrapper("catchsegv sudo id", "catchsegv echo sudo"),
    "chronic": Wrapper("chronic sudo id", "chronic echo sudo"),
    "caffeinate": Wrapper("caffeinate -i sudo id", "caffeinate echo sudo", "tw"),
    "setarch": Wrapper("setarch x86_64 sudo id", "setarch x86_64 echo sudo", operands=1),
    "linux32": Wrapper("linux32 sudo id", "linux32 echo sudo"),
    "linux64": Wrapper("linux64 sudo id", "linux64 echo sudo"),
    "ssh-agent": Wrapper("ssh-agent sudo id", "ssh-agent echo sudo", "aEPt"),
    "cgexec": Wrapper("cgexec -g x sudo id", "cgexec -g x echo sudo", "g"),
    "firejail": Wrapper("firejail sudo id", "firejail echo sudo"),
    "ld.so": Wrapper("/lib64/ld-linux-x86-64.so.2 /bin/sudo id", "ld.so /bin/echo sudo", "",
                     ("library-path", "preload", "audit", "argv0"), transparent=False),
    "strace": Wrapper("strace -f -o t sudo id", "strace echo sudo", "aeEIoOpPsSuUbX",
                      ("output", "trace", "attach"), writes="o", transparent=False),
    "ltrace": Wrapper("ltrace sudo id", "ltrace echo sudo", "aAeDFlLnopsuwxX", transparent=False),
    "valgrind": Wrapper("valgrind -q sudo id", "valgrind echo sudo", transparent=False),
    "perf": Wrapper("perf stat -e x sudo id", "perf list sudo", "eoFcpCt",
                    words=("stat", "record", "trace"), transparent=False),
    "rr": Wrapper("rr record sudo id", "rr ps sudo", words=("record",), transparent=False),
    "hyperfine": Wrapper("hyperfine 'sudo id'", "hyperfine -n sudo ls", "wnmMrpcsSN",
                         ("warmup", "runs", "prepare", "cleanup", "setup", "shell",
                          "command-name", "export-json", "export-markdown"),
                         joined=True, transparent=False),
    "kcov": Wrapper("kcov out sudo id", "kcov out echo sudo", operands=1, transparent=False),
    "watch": Wrapper("watch -n1 'sudo id'", "watch echo sudo", "nq", ("interval",), joined=True,
                     transparent=False),
    "script": Wrapper("script -qc 'sudo id' f", "script sudo", "cEIOBmtTo", ("command",),
                      string=("c", "command"), loose=True, transparent=False),
    "flock": Wrapper("flock /tmp/l sudo id", "flock sudo echo id", "wEF",
                     ("timeout", "conflict-exit-code"), operands=1, string=("c", "command"),
                     transparent=False),
    "logsave": Wrapper("logsave f sudo id", "logsave f echo sudo", operands=1, transparent=False),
    "multitime": Wrapper("multitime -n 2 sudo id", "multitime echo sudo", "nIiors"),
    "with-contenv": Wrapper("with-contenv sudo id", "with-contenv echo sudo"),
    "dumb-init": Wrapper("dumb-init -- sudo id", "dumb-init echo sudo"),
    "tini": Wrapper("tini -- sudo id", "tini echo sudo"),
    "entr": Wrapper("entr -r sudo id", "entr echo sudo", transparent=False),
    "watchexec": Wrapper("watchexec -e js sudo id", "watchexec echo sudo", "ewfidso",
                         ("exts", "watch", "filter", "ignore", "debounce"), joined=True,
                         transparent=False),
    "nodemon": Wrapper("nodemon --exec 'sudo id'", "nodemon sudo.js", "xewi",
                       ("exec", "ext", "watch", "ignore"), string=("x", "exec"), loose=True,
                       transparent=False),
    "parallel": Wrapper("parallel sudo {} ::: id", "parallel echo ::: sudo", "jaIdNnLlPS",
                        ("jobs", "arg-file", "colsep", "delay", "timeout", "joblog", "results",
                         "workdir", "sshlogin", "halt", "retries"),
                        joined=True, transparent=False),
    "sem": Wrapper("sem -j 2 sudo id", "sem echo sudo", "j", ("jobs", "id"), joined=True,
                   transparent=False),
    "dotenv": Wrapper("dotenv -f x run sudo id", "dotenv list sudo", "fe", ("file",),
                      words=("run",), transparent=False),
    "dotenvx": Wrapper("dotenvx run -- sudo id", "dotenvx get sudo", "f", words=("run",),
                       transparent=False),
    "direnv": Wrapper("direnv exec . sudo id", "direnv allow sudo", operands=1, words=("exec",),
                      transparent=False),
    "poetry": Wrapper("poetry run sudo id", "poetry show sudo", words=("run",)),
    "pipenv": Wrapper("pipenv run sudo id", "pipenv graph sudo", words=("run",)),
    "pdm": Wrapper("pdm run sudo id", "pdm list sudo", words=("run",)),
    "rye": Wrapper("rye run sudo id", "rye show sudo", words=("run",)),
    "hatch": Wrapper("hatch run sudo id", "hatch env show sudo", words=("run",)),
    "uv": Wrapper("uv run --with x sudo id", "uv tree sudo", "p",
                  ("with", "python", "extra", "group", "directory", "project", "env-file",
                   "package", "with-requirements"), words=("run",)),
    "pixi": Wrapper("pixi run sudo id", "pixi list sudo", words=("run",)),
    "conda": Wrapper("conda run -n e sudo id", "conda list sudo", "np", ("name", "prefix", "cwd"),
                     words=("run",)),
    "mamba": Wrapper("mamba run -n e sudo id", "mamba list sudo", "np", ("name", "prefix", "cwd"),
                     words=("run",)),
    "micromamba": Wrapper("micromamba run -n e sudo id", "micromamba list sudo", "np",
                          ("name", "prefix"), words=("run",)),
    "bundle": Wrapper("bundle exec sudo id", "bundle show sudo", words=("exec",)),
    "bundler": Wrapper("bundler exec sudo id", "bundler show sudo", words=("exec",)),
    "opam": Wrapper("opam exec -- sudo id", "opam list sudo", words=("exec",)),
    "rbenv": Wrapper("rbenv exec sudo id", "rbenv versions sudo", words=("exec",)),
    "pyenv": Wrapper("pyenv exec sudo id", "pyenv versions sudo", words=("exec",)),
    "asdf": Wrapper("asdf exec sudo id", "asdf list sudo", words=("exec",)),
    "mise": Wrapper("mise exec -- sudo id", "mise ls sudo", words=("exec", "x")),
    "volta": Wrapper("volta run sudo id", "volta list sudo", words=("run",)),
    "nvm": Wrapper("nvm exec 20 sudo id", "nvm ls sudo", operands=1, words=("exec",)),
    "op": Wrapper("op run -- sudo id", "op item sudo", words=("run",), finding="cluster.use"),
    "doppler": Wrapper("doppler run -- sudo id", "doppler secrets sudo", words=("run",),
                       finding="cluster.use"),
    "aws-vault": Wrapper("aws-vault exec p -- sudo id", "aws-vault list sudo", "d", operands=1,
                         words=("exec",), finding="cluster.use"),
    "torsocks": Wrapper("torsocks sudo id", "torsocks echo sudo", finding="network.use"),
    "proxychains": Wrapper("proxychains sudo id", "proxychains echo sudo", "f",
                           finding="network.use"),
    "systemd-run": Wrapper("systemd-run --user sudo id", "systemd-run echo sudo", "pEtHM",
                           ("unit", "property", "setenv", "slice"), finding="service.control"),
    "tmux": Wrapper("tmux new-session -d 'sudo id'", "tmux ls", "sncFtxy",
                    words=("new-session", "new", "new-window", "neww", "split-window", "splitw",
                           "send-keys", "send", "run-shell", "run", "respawn-pane", "if-shell"),
                    joined=True, transparent=False),
    "nix-shell": Wrapper("nix-shell --run 'sudo id'", "nix-shell -p sudo", "pAIi",
                         ("run", "command"), string=("run", "command"), loose=True,
                         transparent=False),
    "nix": Wrapper("nix develop -c sudo id", "nix build sudo", words=("develop", "shell"),
                   transparent=False),
    # Those that raise privileges are refused anyway; what they run may be worse still.
    "sudo": Wrapper("sudo -u x sudo id", "sudo echo sudo", "ugpCchrRTtUD", assignments=True),
    "doas": Wrapper("doas -u x sudo id", "doas echo sudo", "uC"),
    "unshare": Wrapper("unshare -r sudo id", "unshare echo sudo", "RwSG"),
    "nsenter": Wrapper("nsenter -t 1 -m sudo id", "nsenter -t 1 echo sudo", "tSGrwW"),
    "chroot": Wrapper("chroot /x sudo id", "chroot /x echo sudo", operands=1),
}  # fmt: skip

_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=")


def wrapper_of(inv: Invocation) -> Wrapper | None:
    """Return the entry that this use of the program falls under, or None."""
    wrapper = WRAPPERS.get(inv.name)
    if wrapper is None or not wrapper.words:
        return wrapper
    options = read_options(inv.args, wrapper.values, wrapper.long_values, stop=True)
    first = options.operands[0].text if options.operands else ""
    return wrapper if first in wrapper.words else None


def judge_wrapper(inv: Invocation, wrapper: Wrapper) -> Verdict:
    """Judge a command of the table and the command inside it."""
    if wrapper.finding is not None:
        inv.find(wrapper.finding)
    args = inv.args
    if wrapper.words:
        place = next(i for i, arg in enumerate(args) if arg.text in wrapper.words)
        args = args[place + 1 :]
    options = read_options(args, wrapper.values, wrapper.long_values, stop=True)
    for letter in wrapper.writes:
        for value in options.all_values(letter, "output"):
            inv.walk.write(value, inv.scope)
            wrapper = wrapper._replace(transparent=False)
    for text in options.all_values(
        "".join(s for s in wrapper.string if len(s) == 1), *wrapper.string
    ):
        inv.script(text)
    output = _inner(inv, wrapper, options)
    return Verdict(wrapper.transparent and not wrapper.loose, output)


def _inner(inv: Invocation, wrapper: Wrapper, options: Options) -> str:
    rest = list(options.operands)
    if options.has("c", "command", "exec") and wrapper.string:
        return marks.UNKNOWN
    rest = rest[wrapper.operands :]
    while wrapper.assignments and rest and _ASSIGNMENT.match(rest[0].text):
        rest.pop(0)
    if rest and rest[0].text == "--":
        rest.pop(0)
    if inv.name == "nix":
        rest = _after_command_option(inv.args)
    if not rest:
        if inv.name in ("parallel", "sem") and "-h" not in [arg.text for arg in inv.args]:
            # Without a command its input is the commands.
            inv.script(inv.whole._replace(text=inv.stdin or marks.UNKNOWN))
        return marks.UNKNOWN
    if rest[0].text in ("-c", "--command") and wrapper.string:
        for text in rest[1:2]:
            inv.script(text)
        return marks.UNKNOWN
    if wrapper.joined:
        return _joined(inv, wrapper, rest)
    if wrapper.loose:
        return marks.UNKNOWN
    return inv.inner(tuple(rest)).output


def _after_command_option(args: tuple[Arg, ...]) -> list[Arg]:
    return _after(args, "-c") or _after(args, "--command")


def _after(args: tuple[Arg, ...], option: str) -> list[Arg]:
    for place, arg in enumerate(args):
        if arg.text == option:
            return list(args[place + 1 :])
    return []


def _joined(inv: Invocation, wrapper: Wrapper, rest: list[Arg]) -> str:
    """Judge words that are joined for a shell; `:::` of parallel gives them their last words."""
    del wrapper
    texts = [arg.text for arg in rest]
    if ":::" in texts:
        place = texts.index(":::")
        command, inputs = texts[:place], [t for t in texts[place + 1 :] if t != ":::"]
        if not any("{" in text for text in command):
            command.append("{}")
        for text in inputs or [""]:
            line = " ".join(command).replace("{}", text)
            inv.script(rest[0]._replace(text=line, end=rest[-1].end))
        return marks.UNKNOWN
    line = " ".join(texts)
    return inv.script(rest[0]._replace(text=line, end=rest[-1].end)).output
