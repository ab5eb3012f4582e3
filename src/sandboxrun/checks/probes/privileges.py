"""Capabilities, identities and confinement of the processes inside."""

from __future__ import annotations

from typing import Final

from sandboxrun.checks.attempt import Attempt, Observation
from sandboxrun.checks.judging import judged_by, listed, reads, refused
from sandboxrun.checks.probe import (
    Excuse,
    Group,
    Judge,
    Probe,
    Seen,
    Severity,
    Verdict,
    held,
    opened,
)
from sandboxrun.checks.surroundings import Surroundings
from sandboxrun.errors import ProtocolError
from sandboxrun.init.proc import parse_status

STATUS: Final = Attempt("read", ("/proc/self/status",))
_LSM: Final = Attempt("read", ("/proc/self/attr/current",))
_SETS: Final = (
    ("effective", "CapEff"),
    ("permitted", "CapPrm"),
    ("inheritable", "CapInh"),
    ("bounding", "CapBnd"),
    ("ambient", "CapAmb"),
)


def field_of_status(name: str, judge: Judge) -> Judge:
    """Return a judge for the status that says so when it lacks the field ``name``."""

    def judge_status(attempts: tuple[Attempt, ...], seen: Seen) -> Verdict:
        return judge(attempts, seen) if name in status_of(seen) else opened(f"no {name} in status")

    return judge_status


def status_of(seen: Seen) -> dict[str, str]:
    """Return the fields of /proc/self/status; none where it could not be read."""
    try:
        return dict(parse_status(seen(STATUS).text))
    except ProtocolError:
        return {}


def _capabilities(field: str) -> Judge:
    def judge(_: tuple[Attempt, ...], seen: Seen) -> Verdict:
        text = status_of(seen)[field]
        return held("empty") if int(text, 16) == 0 else opened(f"{field} {text}")

    return field_of_status(field, judge)


def _no_new_privs(_: tuple[Attempt, ...], seen: Seen) -> Verdict:
    return held("set") if status_of(seen)["NoNewPrivs"] == "1" else opened("not set")


def _filter(_: tuple[Attempt, ...], seen: Seen) -> Verdict:
    fields = status_of(seen)
    count = fields.get("Seccomp_filters", "some")
    return held(f"{count} filters") if fields["Seccomp"] == "2" else opened("no filter")


def _not_root(field: str) -> Judge:
    def judge(_: tuple[Attempt, ...], seen: Seen) -> Verdict:
        ids = status_of(seen)[field].split()
        wrong = "0" in ids or len(set(ids)) != 1
        return opened(f"{field} {' '.join(ids)}") if wrong else held(f"{field} {ids[0]}")

    return field_of_status(field, judge)


def _groups(_: tuple[Attempt, ...], seen: Seen) -> Verdict:
    fields = status_of(seen)
    others = set(fields["Groups"].split()) - set(fields["Gid"].split())
    return opened(f"groups {listed(sorted(others))}") if others else held("no other group")


def _user_namespace(found: Observation, _: Seen) -> Verdict:
    maps = [line.split() for line in found.text.splitlines()]
    identical = any(inside == "0" and outside == "0" for inside, outside, _ in maps)
    return opened("uid 0 inside is uid 0 outside") if identical else held(found.text.strip())


def _confined(found: Observation, _: Seen) -> Verdict:
    if found.error:
        return opened("no label")
    label = found.text.strip().strip("\0")
    loose = not label or label.startswith("unconfined") or ":unconfined_t:" in label
    return opened(label or "no label") if loose else held(label)


def _without_module(around: Surroundings) -> bool:
    return around.host is None or not around.host.security_modules


def _without_user_namespace(around: Surroundings) -> bool:
    return not around.engine.rootless


def _probe(
    name: str,
    severity: Severity,
    promise: str,
    judge: Judge,
    *attempts: Attempt,
    excuses: tuple[Excuse, ...] = (),
) -> Probe:
    return Probe(
        id=f"priv.{name}",
        group=Group.PRIVILEGES,
        severity=severity,
        promise=promise,
        attempts=attempts or (STATUS,),
        judge=judge,
        excuses=excuses,
    )


_HARD: Final = Severity.HARDENING
PRIVILEGES: Final = (
    *(
        _probe(f"cap_{name}", _HARD, f"The {name} capability set is empty.", _capabilities(field))
        for name, field in _SETS
    ),
    _probe(
        "no_new_privs",
        _HARD,
        "No program can raise privileges.",
        field_of_status("NoNewPrivs", _no_new_privs),
    ),
    _probe(
        "seccomp_filter", _HARD, "A seccomp filter is active.", field_of_status("Seccomp", _filter)
    ),
    _probe("uid_nonroot", _HARD, "No user id is 0.", _not_root("Uid")),
    _probe("gid_nonroot", _HARD, "No group id is 0.", _not_root("Gid")),
    _probe("groups", _HARD, "No supplementary groups.", field_of_status("Groups", _groups)),
    _probe("setuid_zero", Severity.ESCAPE, "Nobody can become root.", refused, Attempt("setuid")),
    _probe(
        "user_namespace",
        _HARD,
        "uid 0 inside is not uid 0 outside.",
        judged_by(_user_namespace),
        *reads("/proc/self/uid_map"),
        excuses=(
            Excuse(
                _without_user_namespace,
                "the engine runs as root and gives no user namespace to a container",
            ),
        ),
    ),
    _probe(
        "lsm_confined",
        _HARD,
        "The host's mandatory access control confines the process.",
        lambda attempts, seen: _confined(seen(attempts[0]), seen),
        _LSM,
        excuses=(
            Excuse(_without_module, "the host's kernel has no mandatory access control active"),
        ),
    ),
)
