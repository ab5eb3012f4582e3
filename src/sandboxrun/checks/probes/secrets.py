"""Secrets of the host, of the orchestrator and of earlier runs: none is inside."""

from __future__ import annotations

import re
from typing import Final

from sandboxrun.checks.attempt import Attempt, Observation
from sandboxrun.checks.judging import hidden, judged_by, listed, lists
from sandboxrun.checks.probe import (
    Attempts,
    Excuse,
    Group,
    Judge,
    Probe,
    Seen,
    Severity,
    Verdict,
    held,
    not_applicable,
    opened,
)
from sandboxrun.checks.probes.files import WALK, walked
from sandboxrun.checks.surroundings import Surroundings

ENVIRONMENT: Final = Attempt("environment")
_NAMES: Final = frozenset(
    {"HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TZ", "USER"}
    | {"HOSTNAME", "PWD", "SHLVL", "_"}
)
"""All that a command's environment may have when nothing was added to it."""
_CREDENTIAL: Final = re.compile(
    r"(?i)(key|token|secret|passw|credential|auth)|=(AKIA|ghp_|gho_|glpat-|sk-|xox[bp]-|eyJ)"
)
_AGENTS: Final = (
    "SSH_AUTH_SOCK",
    "GPG_AGENT_INFO",
    "DBUS_",
    "DOCKER_",
    "XDG_RUNTIME_DIR",
    "DISPLAY",
)
_PROXY: Final = re.compile(r"(?i)^(https?|no|all|ftp)_proxy=")
_SECONDS: Final = 180.0


def _variables(found: Observation) -> list[str]:
    return [line for line in found.text.splitlines() if line]


def _known_names(found: Observation, _: Seen) -> Verdict:
    names = {line.partition("=")[0] for line in _variables(found)}
    more = sorted(names - _NAMES)
    return opened(listed(more)) if more else held(f"{len(names)} known names")


def _no_credentials(found: Observation, _: Seen) -> Verdict:
    wrong = [line.partition("=")[0] for line in _variables(found) if _CREDENTIAL.search(line)]
    return opened(listed(wrong)) if wrong else held("none")


def _no_agents(found: Observation, _: Seen) -> Verdict:
    wrong = [line.partition("=")[0] for line in _variables(found) if line.startswith(_AGENTS)]
    return opened(listed(wrong)) if wrong else held("none")


def _no_proxies(found: Observation, _: Seen) -> Verdict:
    wrong = [line.partition("=")[0] for line in _variables(found) if _PROXY.match(line)]
    return opened(listed(wrong)) if wrong else held("none")


def _scan(around: Surroundings) -> tuple[Attempt, ...]:
    return () if around.canaries is None else (Attempt("scan", (around.canaries.token,), _SECONDS),)


def _no_canary(attempts: tuple[Attempt, ...], seen: Seen) -> Verdict:
    if not attempts:
        return not_applicable("the engine is on another machine, where no canary is")
    found = seen(attempts[0])
    if found.value or found.text:
        return opened(listed(line.split("\t")[1] for line in found.text.splitlines()))
    return held("in no environment, command line, name or small file")


def _probe(
    name: str,
    promise: str,
    judge: Judge,
    attempts: tuple[Attempt, ...] | Attempts,
    excuses: tuple[Excuse, ...] = (),
) -> Probe:
    return Probe(
        id=f"sec.{name}",
        group=Group.SECRETS,
        severity=Severity.LEAK,
        promise=promise,
        attempts=attempts,
        judge=judge,
        excuses=excuses,
    )


SECRETS: Final = (
    _probe(
        "env_names",
        "The environment has only known names.",
        judged_by(_known_names),
        (ENVIRONMENT,),
    ),
    _probe(
        "env_credentials",
        "Nothing in the environment looks like a credential.",
        judged_by(_no_credentials),
        (ENVIRONMENT,),
    ),
    _probe(
        "agent_sockets",
        "The environment names no agent, bus or display.",
        judged_by(_no_agents),
        (ENVIRONMENT,),
    ),
    _probe("proxy_env", "The environment has no proxy.", judged_by(_no_proxies), (ENVIRONMENT,)),
    _probe(
        "credential_files",
        "No credential, key or history file is readable.",
        walked("secret", what="such file"),
        (WALK,),
    ),
    _probe(
        "mounted_secrets",
        "No secret of a container platform is mounted.",
        hidden,
        lists("/run/secrets", "/var/run/secrets", "/run/containers", "/etc/kubernetes"),
    ),
    _probe(
        "canary",
        "A token of the host's files, processes and environments is nowhere inside.",
        _no_canary,
        _scan,
        (
            Excuse(
                lambda around: around.host is None,
                "the engine is on another machine, where no canary is",
            ),
        ),
    ),
)
