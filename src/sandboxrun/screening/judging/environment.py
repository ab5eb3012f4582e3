"""Environment variables that make programs run or load something."""

from __future__ import annotations

import re
from typing import Final

from sandboxrun.screening.judging.invocation import Judge
from sandboxrun.screening.reading.expand import Arg
from sandboxrun.screening.reading.scope import Scope

_COMMANDS: Final = frozenset(
    "GIT_SSH_COMMAND GIT_SSH GIT_PAGER GIT_EDITOR GIT_SEQUENCE_EDITOR GIT_EXTERNAL_DIFF"
    " GIT_ASKPASS GIT_PROXY_COMMAND SSH_ASKPASS PAGER MANPAGER EDITOR VISUAL FCEDIT BROWSER"
    " LESSOPEN LESSCLOSE RSYNC_RSH CVS_RSH SVN_SSH SVN_EDITOR PROMPT_COMMAND SUDO_ASKPASS"
    " SUDO_EDITOR HGEDITOR KUBE_EDITOR PSQL_EDITOR PSQL_PAGER SYSTEMD_PAGER SYSTEMD_EDITOR"
    " BAT_PAGER DELTA_PAGER AWS_PAGER GH_PAGER GH_EDITOR MAKESHELL CONFIG_SHELL TAR_RSH"
    " ACK_PAGER RUSTC_WRAPPER_COMMAND ZIPOPT TEXEDIT XZ_DEFAULTS_COMMAND".split()
)
"""Their value is a command."""
_LOADS: Final = frozenset(
    "LD_PRELOAD LD_AUDIT LD_LIBRARY_PATH LD_DEBUG_OUTPUT DYLD_INSERT_LIBRARIES"
    " DYLD_LIBRARY_PATH GCONV_PATH BASH_ENV ENV ZDOTDIR PYTHONSTARTUP PYTHONHOME"
    " PYTHONINSPECT PERL5DB PERL5OPT PERLLIB PERL5LIB RUBYOPT RUBYLIB NODE_PATH"
    " JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS GIT_EXEC_PATH GIT_TEMPLATE_DIR"
    " GIT_CONFIG GIT_CONFIG_GLOBAL GIT_CONFIG_SYSTEM GIT_CONFIG_COUNT GIT_CONFIG_PARAMETERS"
    " GIT_DIR GIT_WORK_TREE GIT_OBJECT_DIRECTORY TAR_OPTIONS RIPGREP_CONFIG_PATH OPENSSL_CONF"
    " OPENSSL_ENGINES TERMINFO HOSTALIASES GREP_COLOR_COMMAND BASHOPTS SHELLOPTS LUA_INIT"
    " PHP_INI_SCAN_DIR PHPRC LOCPATH NLSPATH MALLOC_CHECK_LIB GTK_MODULES QT_PLUGIN_PATH"
    " INPUTRC WGETRC CURL_HOME SCREENRC EXINIT VIMINIT".split()
)
"""Their value is code, or names a file with code, that the next program loads."""
_HARMLESS_LOADS: Final = frozenset({"GIT_DIR", "GIT_WORK_TREE", "NODE_PATH", "RUBYLIB", "PERL5LIB"})
_PLAIN: Final = re.compile(
    r"(?:/usr/bin/|/bin/)?(?:cat|less|more|most|head|true|false|:|vi|vim|nvim|nano|emacs|code|"
    r"echo|ed|micro|hx|subl|delta|ssh)?(?: -[A-Za-z]+| --wait)*"
)
_SHELLS: Final = re.compile(r"(?:/usr)?(?:/local)?(?:/bin/)?(?:[bdkcz]a?|t?c|fi)?sh|")
_NODE_LOADS: Final = re.compile(
    r"(?:^|\s)(?:-r|--require|--import|--loader|--experimental-loader)\b"
)
_JAVA_AGENT: Final = re.compile(r"-(?:javaagent|agentlib|agentpath|Xbootclasspath)")
_TRACE_PROMPT: Final = frozenset({"PS4", "PS0", "PS1", "PS2"})


def environment_rule(walk: Judge, place: Arg, value: str, scope: Scope) -> None:
    """Report what assigning ``value`` to the variable named by ``place`` can make run."""
    name = place.text
    if name in _TRACE_PROMPT:
        if "$(" in value or "`" in value:
            walk.find("env.code", place)
            walk.code(place._replace(text=f': "{value}"'), scope, None)
    elif name in _COMMANDS:
        _command(walk, place, value, scope)
    elif name in _LOADS:
        _loads(walk, place, value, scope)
    elif name == "LESS" and "+!" in value:
        _command(walk, place, value.partition("+!")[2], scope)
    elif name == "SHELL" and not _SHELLS.fullmatch(value):
        _command(walk, place, value, scope)
    elif (name == "PATH" and re.match(r"/(?:tmp|var/tmp|dev/shm)(?:/|:|$)", value)) or (
        name == "NODE_OPTIONS" and _NODE_LOADS.search(value)
    ):
        walk.find("env.code", place)
    elif name.startswith(("GIT_CONFIG_VALUE_", "BASH_FUNC_")):
        walk.find("env.code", place)
        walk.code(place._replace(text=value.removeprefix("!")), scope, None)


def is_harmless_command(value: str) -> bool:
    """Tell whether a pager's or editor's value is one that people commonly use."""
    return _PLAIN.fullmatch(value) is not None


def _command(walk: Judge, place: Arg, value: str, scope: Scope) -> None:
    if is_harmless_command(value):
        return
    walk.find("env.code", place)
    walk.code(place._replace(text=value.lstrip("|!")), scope, None)


def _loads(walk: Judge, place: Arg, value: str, scope: Scope) -> None:
    if not value:
        return
    if place.text in ("JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS"):
        if not _JAVA_AGENT.search(value):
            return
    elif place.text in _HARMLESS_LOADS or place.text == "PYTHONINSPECT":
        return
    walk.find("env.code", place)
    text = walk.process_text(value)
    if text is not None and place.text in ("BASH_ENV", "ENV"):
        walk.code(place._replace(text=text), scope, None)
    walk.read(place._replace(text=value), scope)
