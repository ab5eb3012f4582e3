"""Container engines, clusters and clouds: what hands the host or a credential over."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from sandboxrun.screening.judging.invocation import MUTATING, Invocation, Verdict
from sandboxrun.screening.judging.options import read_options
from sandboxrun.screening.judging.secrets import SOCKETS
from sandboxrun.screening.reading import marks
from sandboxrun.screening.reading.expand import Arg

_VALUES: Final = (
    "name env env-file publish network net pid ipc uts userns user workdir entrypoint label"
    " memory cpus gpus hostname restart volume mount device cap-add cap-drop security-opt tmpfs"
    " add-host dns log-driver platform pull shm-size ulimit runtime cgroupns cgroup-parent"
    " device-cgroup-rule volumes-from annotation group-add health-cmd stop-timeout sysctl host"
    " context config tag file build-arg target"
).split()
_HOST_PATHS: Final = re.compile(
    r"(?:type=bind,)?(?:.*?(?:source|src)=)?(/|/(?:etc|root|home|proc|sys|dev|var|run|boot|usr|lib)"
    r"(?:/[^:,]*)?)(?:[:,].*)?$"
)


def _docker(inv: Invocation) -> Verdict:
    inv.find("engine.use")
    options = read_options(inv.args, "vepuwmlHh", _VALUES)
    if options.has("", "privileged"):
        inv.find("escape.engine")
    for name in ("pid", "ipc", "net", "network", "uts", "userns", "cgroupns"):
        for value in options.all_values("", name):
            if value.text == "host" or value.text.startswith("host"):
                inv.find("escape.engine", value)
    for _ in options.all_values("", "cap-add", "device", "device-cgroup-rule"):
        inv.find("escape.engine")
    for value in options.all_values("", "security-opt"):
        if re.search(r"unconfined|disable|label[=:]", value.text):
            inv.find("escape.engine", value)
    for value in options.all_values("v", "volume", "mount"):
        _mount(inv, value)
    for value in options.all_values("H", "host"):
        if SOCKETS.search(value.text) or value.text.startswith(("unix:", "tcp:")):
            inv.find("escape.engine", value)
    for value in options.all_values("", "env-file", "config"):
        inv.walk.read(value, inv.scope)
    _inner_command(inv, options.operands)
    return MUTATING


def _mount(inv: Invocation, value: Arg) -> None:
    text = value.text
    match = _HOST_PATHS.match(text)
    source = match[1] if match is not None else ""
    if (
        SOCKETS.search(text.split(":")[0])
        or "docker.sock" in text
        or source == "/"
        or match is not None
    ):
        inv.find("escape.engine", value)
    elif marks.HOME in text.split(":")[0]:
        inv.walk.read(value._replace(text=text.split(":")[0]), inv.scope)
        if text.split(":")[0] == marks.HOME_PATH:
            inv.find("escape.engine", value)


def _inner_command(inv: Invocation, operands: tuple[Arg, ...]) -> None:
    """Look at what would run in the container for escapes and privileges."""
    words = [arg.text for arg in operands]
    if words[:1] in (["run"], ["exec"]) and len(operands) > 2:  # noqa: PLR2004 - image or name first
        inner = operands[2:]
        if inner[0].text in ("nsenter", "chroot", "sudo"):
            inv.inner(inner)


def _secret_words(pattern: str, code: str) -> Callable[[Invocation], Verdict]:
    """Return the rule of a program that prints credentials for some sub-commands."""
    compiled = re.compile(pattern)

    def rule(inv: Invocation) -> Verdict:
        text = " ".join(arg.text for arg in inv.args)
        inv.find("secret.print" if compiled.search(text) else code)
        inv.walk.note_network(inv.name)
        for arg in inv.args:
            for piece in re.split(r"[=,:@]", arg.text):
                if piece.startswith(("/", "~", "..")) or marks.HOME in piece:
                    inv.walk.read(arg._replace(text=piece), inv.scope)
        return MUTATING

    return rule


def _kubectl(inv: Invocation) -> Verdict:
    words = [arg.text for arg in inv.args]
    if words[:2] in (["version", "--client"], ["kustomize", "."]) or words[:1] == ["completion"]:
        return Verdict(True)
    if words[:2] == ["version", "--client=true"]:
        return Verdict(True)
    raw = "--raw" in words and words[:2] == ["config", "view"]
    secrets = words[:1] == ["get"] and bool(re.search(r"\bsecrets?\b", " ".join(words[1:])))
    inv.find("secret.print" if raw else "cluster.use")
    if secrets and re.search(r"-o|--output|jsonpath", " ".join(words)):
        inv.find("secret.print")
    for place, word in enumerate(words):
        if word == "--" and place + 1 < len(words):
            _remote(inv, inv.args[place + 1 :])
    for arg in inv.args:
        if arg.text.startswith(("/", "--kubeconfig=", marks.HOME_PATH)):
            inv.walk.read(arg._replace(text=arg.text.partition("=")[2] or arg.text), inv.scope)
    return MUTATING


def _remote(inv: Invocation, command: tuple[Arg, ...]) -> None:
    if command[0].text in ("sudo", "nsenter", "chroot"):
        inv.inner(command)


_LOCAL_TERRAFORM: Final = frozenset({"fmt", "validate", "version", "output", "show", "graph"})


def _terraform(inv: Invocation) -> Verdict:
    words = [arg.text for arg in inv.args if not arg.text.startswith("-")]
    if not words or words[0] not in _LOCAL_TERRAFORM:
        inv.find("cluster.use")
        inv.walk.note_network(inv.name)
    return MUTATING


_LOCAL_HELM: Final = frozenset({"lint", "template", "create", "package", "version", "env"})


def _helm(inv: Invocation) -> Verdict:
    words = [arg.text for arg in inv.args if not arg.text.startswith("-")]
    if not words or words[0] not in _LOCAL_HELM:
        inv.find("cluster.use")
    return MUTATING


RULES: Final[dict[str, Callable[[Invocation], Verdict]]] = {
    **dict.fromkeys(("docker", "podman", "nerdctl"), _docker),
    "gh": _secret_words(r"^auth (?:token|status.*(?:-t|--show-token))", "network.use"),
    "glab": _secret_words(r"^auth token|--show-token", "network.use"),
    "hub": _secret_words(r"^$x", "network.use"),
    "gcloud": _secret_words(
        r"print-access-token|print-identity-token|print-refresh|secrets versions access|keys create",
        "cluster.use",
    ),
    "aws": _secret_words(
        r"configure get|configure export-credentials|get-secret-value|get-session-token|get-login-password"
        r"|get-parameter.*with-decryption|sts assume-role|create-access-key|ecr get-login",
        "cluster.use",
    ),
    "az": _secret_words(r"get-access-token|keyvault secret show|get-credentials", "cluster.use"),
    "vault": _secret_words(r"^print token|^token lookup$", "cluster.use"),
    "op": _secret_words(r"^(?:read|item get|get)\b", "cluster.use"),
    "bw": _secret_words(r"^get (?:password|item)", "cluster.use"),
    "lpass": _secret_words(r"^show", "cluster.use"),
    "heroku": _secret_words(r"^auth:token", "network.publish"),
    "doctl": _secret_words(r"$x", "cluster.use"),
    "pass": _secret_words(r"^(?!ls$|$|git\b|init\b)", "cluster.use"),
    "gopass": _secret_words(r"^(?!ls$|$)", "cluster.use"),
    "secret-tool": _secret_words(r"", "secret.print"),
    "security": _secret_words(r"find-|dump-keychain|export", "system.setting"),
    "keyctl": _secret_words(r"", "secret.print"),
    "kwallet-query": _secret_words(r"", "secret.print"),
    "keyring": _secret_words(r"\bget\b", "system.setting"),
    "kubectl": _kubectl,
    "oc": _kubectl,
    "terraform": _terraform,
    "tofu": _terraform,
    "helm": _helm,
}
