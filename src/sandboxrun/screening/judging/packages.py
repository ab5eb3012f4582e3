"""Package managers and build tools: which of their sub-commands need the network."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from sandboxrun.screening.judging.builtins import file_text
from sandboxrun.screening.judging.interpreters import judge_interpreter
from sandboxrun.screening.judging.invocation import MUTATING, Invocation, Verdict
from sandboxrun.screening.judging.options import read_options
from sandboxrun.screening.reading.expand import Arg


class Manager(NamedTuple):
    """A program by its sub-commands."""

    asks: frozenset[str]
    """Those that need the network or change what is installed."""
    publishes: frozenset[str] = frozenset()
    runs: frozenset[str] = frozenset()
    """Those whose operands are a command."""
    alone: bool = False
    """Without a sub-command it installs."""
    values: str = ""
    long_values: tuple[str, ...] = ()


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NPM_ASKS: Final = _words(
    "install i in ins inst add ci clean-install update up upgrade uninstall remove rm r un unlink"
    " link ln audit outdated view info show v search login logout adduser whoami owner team token"
    " org access ping create dedupe ddp rebuild-remote install-test it install-ci-test cit fund"
    " star profile hook docs home repo bugs doctor"
)
_NPM_PUBLISHES: Final = _words("publish unpublish deprecate dist-tag deploy")
_MANAGERS: Final[dict[str, Manager]] = {
    "npm": Manager(
        _NPM_ASKS,
        _NPM_PUBLISHES,
        _words("exec x"),
        values="wCc",
        long_values=("prefix", "workspace", "registry", "call", "package"),
    ),
    "pnpm": Manager(
        _NPM_ASKS | _words("dlx import fetch self-update env"),
        _NPM_PUBLISHES,
        _words("exec"),
        values="Cc",
        long_values=("filter", "dir"),
    ),
    "yarn": Manager(
        _words(
            "install add remove upgrade up dlx global link unlink outdated audit info"
            " create login npm import set upgrade-interactive self-update policies"
        ),
        _NPM_PUBLISHES,
        _words("exec"),
        alone=True,
        long_values=("cwd",),
    ),
    "bun": Manager(
        _words(
            "install i add a remove rm update link unlink create c x upgrade outdated audit info"
        ),
        _NPM_PUBLISHES,
    ),
    "deno": Manager(
        _words("install i add remove uninstall upgrade cache outdated update jsr"),
        _words("publish deploy"),
    ),
    "pip": Manager(
        _words("install download uninstall wheel search index"),
        values="rce",
        long_values=("python", "proxy", "log", "cache-dir"),
    ),
    "uv": Manager(
        _words("pip add remove sync lock tool python self venv-seed init-remote"), _words("publish")
    ),
    "poetry": Manager(
        _words("install add remove update lock self search source sync"), _words("publish")
    ),
    "pipenv": Manager(_words("install uninstall update upgrade lock sync"), alone=False),
    "pdm": Manager(_words("install add remove update lock sync self"), _words("publish")),
    "rye": Manager(_words("sync add remove lock fetch install self toolchain"), _words("publish")),
    "hatch": Manager(_words("env-create python self dep-sync"), _words("publish")),
    "pixi": Manager(_words("install add remove update global upgrade self-update lock")),
    "flit": Manager(_words("install"), _words("publish")),
    "conda": Manager(_words("install create update upgrade remove uninstall env search clean")),
    "mamba": Manager(_words("install create update upgrade remove env search clean")),
    "micromamba": Manager(_words("install create update remove env search clean")),
    "cargo": Manager(
        _words(
            "install add remove update fetch search login logout owner yank uninstall"
            " binstall upgrade vendor info generate-lockfile audit outdated"
        ),
        _words("publish"),
    ),
    "go": Manager(_words("get")),
    "bundle": Manager(_words("install update add remove outdated cache package lock"), alone=True),
    "bundler": Manager(_words("install update add remove outdated"), alone=True),
    "composer": Manager(
        _words(
            "install i require update u upgrade remove create-project global"
            " self-update outdated search show-remote audit"
        )
    ),
    "mix": Manager(
        _words("deps.get deps.update local.hex local.rebar archive.install hex.publish phx.new")
    ),
    "rebar3": Manager(_words("upgrade get-deps")),
    "stack": Manager(_words("install upload update setup upgrade")),
    "cabal": Manager(_words("install update upload get fetch")),
    "dotnet": Manager(
        _words("restore add remove tool new-install workload nuget"), _words("publish-remote")
    ),
    "nuget": Manager(_words("install restore push update sources search")),
    "mvn": Manager(
        _words(
            "dependency:get dependency:resolve dependency:go-offline versions:use-latest-versions"
        ),
        _words("deploy deploy:deploy release:perform release:prepare"),
    ),
    "mvnw": Manager(_words("dependency:get dependency:resolve"), _words("deploy")),
    "gradle": Manager(
        _words("dependencies-remote"), _words("publish uploadArchives bintrayUpload")
    ),
    "gradlew": Manager(_words("wrapper-remote"), _words("publish uploadArchives")),
    "sbt": Manager(_words("update"), _words("publish publishSigned")),
    "lein": Manager(_words("deps"), _words("deploy")),
    "flutter": Manager(_words("pub upgrade precache")),
    "dart": Manager(_words("pub")),
    "swift": Manager(_words("package-resolve")),
    "pod": Manager(_words("install update repo trunk")),
    "carthage": Manager(_words("update bootstrap checkout")),
    "gem": Manager(
        _words("install update uninstall fetch search outdated sources signin"), _words("push")
    ),
    "crystal": Manager(_words("shards")),
    "shards": Manager(_words("install update"), alone=True),
    "nimble": Manager(_words("install refresh uninstall develop"), _words("publish")),
    "opam": Manager(_words("install update upgrade remove init switch pin")),
    "luarocks": Manager(_words("install remove download search"), _words("upload")),
    "vcpkg": Manager(_words("install remove update upgrade")),
    "conan": Manager(_words("install create download search"), _words("upload")),
    "nix": Manager(_words("profile flake run build-remote shell develop copy channel")),
    "lerna": Manager(_words("bootstrap add"), _words("publish")),
    "nx": Manager(_words("migrate connect"), _words("release publish")),
    "pre-commit": Manager(_words("autoupdate")),
    "playwright": Manager(_words("install install-deps")),
    "puppeteer": Manager(_words("browsers")),
    "expo": Manager(_words("install publish login")),
    "ng": Manager(_words("add update new"), _words("deploy")),
    "vue": Manager(_words("add create")),
    "rustup": Manager(_words("update install toolchain target component default self")),
    "fvm": Manager(_words("install use")),
    "corepack": Manager(_words("prepare install use enable up")),
    "rbenv": Manager(_words("install")),
    "pyenv": Manager(_words("install update uninstall")),
    "mise": Manager(_words("install use upgrade self-update")),
    "asdf": Manager(_words("install plugin update plugin-add")),
    "nvm": Manager(_words("install uninstall ls-remote")),
    "volta": Manager(_words("install fetch pin")),
}
_RUN_NAMES: Final = re.compile(r"(?:[^-].*[:_-])?(?:deploy|publish|release)(?:[:_-].*)?")


def _manager(inv: Invocation) -> Verdict:
    manager = _MANAGERS.get(inv.name) or _MANAGERS["pip" if inv.name.startswith("pip") else "npm"]
    options = read_options(inv.args, manager.values, manager.long_values, stop=True)
    for script in options.all_values("c", "call"):
        if inv.name in ("npm", "pnpm"):
            inv.script(script)
    operands = options.operands
    if inv.name in ("bun", "deno") and not (
        operands and operands[0].text in manager.asks | manager.publishes | {"create", "init"}
    ):
        return judge_interpreter(inv)
    if not operands:
        if manager.alone and not options.has("vh", "version", "help"):
            inv.find("network.install")
        return MUTATING
    word, rest = operands[0].text, operands[1:]
    if word in ("config", "set"):
        _configures(inv, rest)
    elif word in manager.asks:
        _asks(inv, word, rest)
    elif word in manager.publishes or (
        inv.name in ("mvn", "mvnw", "gradle", "gradlew", "sbt")
        and manager.publishes & {o.text for o in operands}
    ):
        inv.find("network.publish")
        inv.walk.note_network(inv.name)
    elif word in manager.runs:
        _runs(inv, rest)
    elif word in ("init", "create") and rest and not rest[0].text.startswith("-"):
        if inv.name in ("npm", "pnpm", "yarn", "bun"):
            inv.find("network.install")
    elif word in ("run", "run-script") and rest and _RUN_NAMES.fullmatch(rest[0].text):
        inv.find("network.publish", rest[0])
    elif inv.name == "yarn" and _RUN_NAMES.fullmatch(word):
        inv.find("network.publish", operands[0])
    return MUTATING


_PROGRAM_SETTINGS: Final = frozenset("script-shell shell editor viewer git node-gyp".split())


def _configures(inv: Invocation, rest: tuple[Arg, ...]) -> None:
    """Report a setting that names a program which later commands run."""
    words = [arg for arg in rest if arg.text != "set" and not arg.text.startswith("-")]
    for place, arg in enumerate(words):
        key, equals, value = arg.text.partition("=")
        given = [arg._replace(text=value)] if equals else words[place + 1 : place + 2]
        if key in _PROGRAM_SETTINGS and given:
            inv.find("option.program", arg)
            inv.script(given[0])


def _asks(inv: Invocation, word: str, rest: tuple[Arg, ...]) -> None:
    local = {("uv", "pip"): ("list", "show", "freeze", "check", "tree", "compile-local"),
             ("uv", "tool"): ("list", "dir"), ("uv", "python"): ("list-local", "dir", "find"),
             ("dotnet", "tool"): ("run", "list"), ("conda", "env"): ("list", "export"),
             ("rustup", "toolchain"): ("list",), ("nix", "flake"): ("show", "check"),
             ("uv", "run"): ()}  # fmt: skip
    if rest and rest[0].text in local.get((inv.name, word), ()):
        return
    inv.find("network.install")
    inv.walk.note_network(inv.name)


def _runs(inv: Invocation, rest: tuple[Arg, ...]) -> None:
    options = read_options(rest, "cp", ("call", "package"), stop=True)
    for script in options.all_values("c", "call"):
        inv.script(script)
    if options.operands:
        inv.inner(options.operands)


def _npx(inv: Invocation) -> Verdict:
    options = read_options(inv.args, "pc", ("package", "call"), stop=True)
    for script in options.all_values("c", "call"):
        inv.script(script)
    operands = options.operands
    fetches = options.has("yp", "yes", "package") or inv.name in ("bunx", "uvx", "pipx")
    if operands:
        name = operands[0].text
        if re.search(r"(?<=.)@|^create-|^degit$|^https?:|^github:", name.partition("/")[2] or name):
            fetches = True
        if not fetches:
            inv.inner(operands)
    if fetches:
        inv.find("network.install")
        inv.walk.note_network(inv.name)
    return MUTATING


def _go(inv: Invocation) -> Verdict:
    words = [arg.text for arg in inv.args]
    sub, rest = (words[0], words[1:]) if words else ("", [])
    if (
        sub == "get"
        or (sub == "mod" and rest[:1] and rest[0] in ("download", "tidy", "vendor", "why"))
        or (sub in ("install", "run") and any("@" in word for word in rest))
        or (sub == "work" and "sync" in rest)
    ):
        inv.find("network.install")
    for place, word in enumerate(words):
        if word in ("-toolexec", "-exec", "-vettool") and place + 1 < len(words):
            inv.script(inv.args[place + 1])
        elif word.startswith(("-toolexec=", "-exec=", "-vettool=")):
            inv.script(inv.args[place]._replace(text=word.partition("=")[2]))
    reads = sub == "version" or (sub == "env" and "-w" not in rest and "-u" not in rest)
    return Verdict(reads)


def _make(inv: Invocation) -> Verdict:
    options = read_options(
        inv.args, "fCIjloWE", ("file", "makefile", "directory", "eval", "include-dir", "jobs")
    )
    for script in options.all_values("E", "eval"):
        _recipe(inv, script, script.text)
    for file in options.all_values("f", "file", "makefile"):
        inv.walk.read(file, inv.scope)
        text = file_text(inv, file)
        if text is not None:
            _recipe(inv, file, text)
    shows = options.has("nq", "just-print", "dry-run", "recon", "question")
    for operand in options.operands:
        name, equals, value = operand.text.partition("=")
        place = operand._replace(text=value)
        if shows and not equals:
            continue
        if (
            equals
            and name in ("SHELL", "MAKE", ".SHELLFLAGS")
            and not _PLAIN_SHELL.fullmatch(value)
        ):
            inv.script(operand._replace(text=value))
        elif equals and (_TOOLS.fullmatch(name) or inv.walk.suspects(place, inv.scope)):
            _tool(inv, name, place)
        elif not equals and name in ("install", "uninstall", "install-strip", "install-bin"):
            if not any(
                o.text.startswith(("DESTDIR=", "PREFIX=", "prefix=")) for o in options.operands
            ):
                inv.find("outside.write", operand)
        elif not equals and _RUN_NAMES.fullmatch(name):
            inv.find("network.publish", operand)
    return MUTATING


_TOOLS: Final = re.compile(
    r"CC|CXX|CPP|LD|AR|AS|RM|CP|MV|LN|MKDIR|INSTALL|INSTALL_\w+|PYTHON3?|NODE|NPM|GO|CARGO|SUDO|LEX|YACC"
)


def _tool(inv: Invocation, name: str, value: Arg) -> None:
    """Judge a variable that recipes run; of another one it is only known that it could be."""
    if _TOOLS.fullmatch(name):
        inv.script(value)
    else:
        inv.find("option.program", value)


_PLAIN_SHELL: Final = re.compile(r"(?:/usr)?(?:/local)?(?:/bin/)?(?:bash|sh|dash|zsh|make)")


def _recipe(inv: Invocation, place: Arg, text: str) -> None:
    for line in re.split(r"[;\n]", text):
        command = line.strip().lstrip("@-+")
        shell = re.search(r"\$\(shell (.*)\)", line)
        if shell is not None:
            inv.script(place._replace(text=shell[1]))
        elif command and not re.match(r"[\w./%-]+\s*:|[\w.]+\s*[:?+]?=", command):
            inv.script(place._replace(text=command.replace("$$", "$")))


def _cmake(inv: Invocation) -> Verdict:
    words = [arg.text for arg in inv.args]
    if words[:1] == ["-E"]:
        _cmake_tool(inv, inv.args[1:])
    for place, word in enumerate(words[:-1]):
        text = file_text(inv, inv.args[place + 1]) if word == "-P" else None
        for command in re.findall(r"COMMAND\s+([^)]+)", text or ""):
            inv.script(inv.args[place + 1]._replace(text=command))
    return _builder(inv)


def _cmake_tool(inv: Invocation, args: tuple[Arg, ...]) -> None:
    """Judge the command that a tool of CMake's own runs."""
    tool = args[0].text if args else ""
    rest = list(args[2:] if tool == "chdir" else args[1:])
    while tool == "env" and rest and re.match(r"--|[A-Za-z_]\w*=", rest[0].text):
        rest.pop(0)
    if tool in ("env", "time", "chdir") and rest:
        inv.inner(tuple(rest))
    elif tool in ("rm", "remove", "remove_directory"):
        inv.inner((args[0]._replace(text="rm"), args[0]._replace(text="-rf"), *rest))


def _builder(inv: Invocation) -> Verdict:
    words = [arg.text for arg in inv.args]
    prefix = read_options(inv.args, "", ("prefix", "install")).value("", "prefix")
    if prefix is not None:
        inv.walk.write(prefix, inv.scope)
    elif "--install" in words or ("install" in words and inv.name in ("ninja", "meson")):
        inv.find("outside.write")
    return MUTATING


PACKAGE_RULES: Final[dict[str, Callable[[Invocation], Verdict]]] = {
    **dict.fromkeys(_MANAGERS, _manager),
    "pip3": _manager,
}
RULES: Final[dict[str, Callable[[Invocation], Verdict]]] = {
    **PACKAGE_RULES,
    "npx": _npx,
    "bunx": _npx,
    "uvx": _npx,
    "pipx": _npx,
    "pnpx": _npx,
    "go": _go,
    "make": _make,
    "gmake": _make,
    "bmake": _make,
    "cmake": _cmake,
    "ninja": _builder,
    "meson": _builder,
}
