"""Other processes: the init above all, which everything inside has to leave alone."""

from __future__ import annotations

from typing import Final

from sandboxrun.checks.attempt import Attempt, Observation
from sandboxrun.checks.judging import failed, judged_by, listed, refused
from sandboxrun.checks.probe import (
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
from sandboxrun.checks.probes.leaks import shared_cgroup_namespace
from sandboxrun.checks.subject import PROGRAM_NAME
from sandboxrun.engine.layout import INIT_PATH

_LIST: Final = Attempt("processes")
_INIT: Final = ("1", "thread")
_READS: Final = ("mem-read", "vm-read", "environ", "fd", "root", "maps", "io", "stack", "mnt-ns")
_WRITES: Final = ("mem-write", "vm-write", "exe-write", "oom", "coredump-filter", "timerslack")
_STEERS: Final = ("prlimit", "affinity", "scheduler", "nice", "ioprio")
_SIBLINGS: Final = ("seize", "attach", "vm-read", "vm-write", "pidfd-getfd", "kcmp")


def _attacks(*names: str) -> tuple[Attempt, ...]:
    return tuple(Attempt("attack", (name, target)) for name in names for target in _INIT)


def _only_ours(found: Observation, _: Seen) -> Verdict:
    rows = [line.split("\t", 1) for line in found.text.splitlines()]
    foreign = [
        f"{number} {command.strip()}"
        for number, command in rows
        if command and PROGRAM_NAME not in command and not command.startswith(INIT_PATH)
    ]
    return opened(listed(foreign)) if foreign else held(f"{len(rows)} processes, all known")


def _init_first(found: Observation, _: Seen) -> Verdict:
    first = next((row for row in found.text.splitlines() if row.startswith("1\t")), "1\tnothing")
    command = first.split("\t", 1)[1]
    return held(command.strip()) if command.startswith(INIT_PATH) else opened(command.strip())


def _reaped(found: Observation, _: Seen) -> Verdict:
    return opened("an orphan that ended is still there") if found.value else held("reaped")


def _no_terminal(found: Observation, _: Seen) -> Verdict:
    return opened("there is a terminal") if found.value else held("none")


def _survived(found: Observation, _: Seen) -> Verdict:
    return held(f"{found.value} signals, all without effect")


def _namespaces(kind: str) -> Judge:
    def judge(found: Observation, seen: Seen) -> Verdict:
        host = seen.around.host
        if host is None:
            return not_applicable("the engine is on another machine")
        same = found.text == host.namespaces[kind]
        return opened(f"{found.text}, the host's") if same else held(found.text)

    return judged_by(judge)


def _probe(
    name: str,
    severity: Severity,
    promise: str,
    judge: Judge,
    *attempts: Attempt,
    alone: bool = False,
    excuses: tuple[Excuse, ...] = (),
) -> Probe:
    return Probe(
        id=f"proc.{name}",
        group=Group.PROCESSES,
        severity=severity,
        promise=promise,
        attempts=attempts,
        judge=judge,
        alone=alone,
        excuses=excuses,
    )


def _namespace(kind: str, severity: Severity, *excuses: Excuse) -> Probe:
    return _probe(
        f"{kind}_namespace",
        severity,
        f"The {kind} namespace is not the host's.",
        _namespaces(kind),
        Attempt("readlink", (f"/proc/self/ns/{kind}",)),
        excuses=(
            Excuse(lambda around: around.host is None, "the engine is on another machine"),
            *excuses,
        ),
    )


_E, _S, _D, _L, _H = (
    Severity.ESCAPE,
    Severity.SURFACE,
    Severity.DOS,
    Severity.LEAK,
    Severity.HARDENING,
)
PROCESSES: Final = (
    _namespace("pid", _E),
    _namespace("mnt", _E),
    _namespace("ipc", _E),
    _namespace("uts", _E),
    _namespace("cgroup", _L, shared_cgroup_namespace()),
    _probe("only_ours", _E, "No process of others is visible.", judged_by(_only_ours), _LIST),
    _probe("init_present", _H, "PID 1 is our init.", judged_by(_init_first), _LIST),
    _probe(
        "init_traced",
        _H,
        "The init, whose records are trusted, cannot be traced.",
        refused,
        *_attacks("seize", "attach", "kcmp"),
        Attempt("attack", ("pidfd-getfd", "1")),
    ),
    _probe("init_read", _H, "Nothing of the init can be read.", refused, *_attacks(*_READS)),
    _probe("init_written", _H, "Nothing of the init can be written.", refused, *_attacks(*_WRITES)),
    _probe(
        "init_steered",
        _H,
        "Limits, priority and CPUs of the init cannot be changed.",
        refused,
        *_attacks(*_STEERS),
        Attempt("attack", ("nice-user", "1")),
    ),
    _probe(
        "init_signalled",
        _H,
        "No signal ends the init.",
        judged_by(_survived),
        Attempt("signals"),
        alone=True,
    ),
    _probe(
        "siblings",
        _S,
        "No process can trace or read another one, not even of the same sandbox.",
        refused,
        *(Attempt("sibling", (name,)) for name in _SIBLINGS),
    ),
    _probe(
        "zombies_reaped",
        _D,
        "Orphans that have ended are reaped.",
        judged_by(_reaped),
        Attempt("orphan"),
    ),
    _probe("terminal", _H, "There is no terminal.", judged_by(_no_terminal), Attempt("terminal")),
    _probe(
        "tiocsti",
        _E,
        "Nothing can be typed into a terminal on somebody's behalf.",
        failed,
        Attempt("tiocsti"),
        Attempt("wide", ("tiocsti",)),
    ),
)
