"""What newcomers type: odd numbers, odd bytes, unknown names; each answer is short and says more."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from command_line import CommandLine, installed

from sandboxrun.errors import SandboxrunError, UsageError
from sandboxrun.interfaces.cli.failures import of_fault, wants_json
from sandboxrun.interfaces.cli.main import command_line

pytestmark = [pytest.mark.engine, pytest.mark.docker]


@pytest.fixture(scope="module")
def sandboxrun(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    with installed(tmp_path_factory) as found:
        yield found


NUMBERS = {
    ("-t", "nan"): "--timeout is nan",
    ("-t", "inf"): "--timeout is inf",
    ("-t", "-1"): "--timeout must be more than 0",
    ("-t", "0"): "--timeout must be more than 0",
    ("-t", "1e9"): "--timeout must be at most 86400",
    ("-t", "soon"): "--timeout",
    ("--cpus", "nan"): "--cpus is nan",
    ("--cpus", "inf"): "--cpus is inf",
    ("--cpus", "0"): "--cpus must be more than 0",
    ("--cpus", "9999"): "--cpus must be at most 1024",
    ("--memory", "nan"): "'nan' is not a size",
    ("--memory", "1k"): "--memory must be at least 32 MiB",
    ("--memory", "999999g"): "--memory must be at most 16384 GiB",
    ("--memory", ""): "--memory is empty",
    ("--pids", "0"): "--pids must be at least 8",
    ("--pids", "1.5"): "--pids",
    ("--pids", "999999999"): "--pids must be at most",
    ("--disk", "0"): "--disk must be at least 1 MiB",
    ("--wait-approval", "nan"): "--wait-approval",
    ("--wait-approval", "-1"): "--wait-approval",
    ("--preview", "all"): "--preview",
}


@pytest.mark.parametrize("option", NUMBERS, ids=" ".join)
def test_an_impossible_value_is_named(sandboxrun: CommandLine, option: tuple[str, str]) -> None:
    done = sandboxrun("exec", *option, "true")
    said = done.stderr.decode()
    assert (done.returncode, done.stdout) == (2, b""), said
    assert NUMBERS[option] in said
    assert said.startswith("sandboxrun: ")
    assert len(said.splitlines()) == 2


TEXT_OPTIONS = (
    *("--workspace", "--image", "--runtime", "--engine", "--principal", "--conversation"),
    *("--policy", "--secret", "--memory", "--disk", "--cpus", "--pids", "-t", "--preview"),
)


@pytest.mark.parametrize("option", TEXT_OPTIONS)
@pytest.mark.parametrize("value", [b"a\xffb", b""], ids=["not UTF-8", "empty"])
def test_odd_bytes_are_refused_by_every_option_of_exec(
    sandboxrun: CommandLine, option: str, value: bytes
) -> None:
    done = sandboxrun("exec", option, value, "true")
    assert done.returncode == 2, done.stderr
    assert done.stdout == b""
    assert b"Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) <= 2


def test_commands_and_values_may_be_any_bytes(sandboxrun: CommandLine) -> None:
    script = b"printf '%s' \"$A\" '\xfd'"
    done = sandboxrun("exec", "--policy", "rollout", "-e", b"A=\xff\xfe", script)
    assert (done.returncode, done.stdout) == (0, b"\xff\xfe\xfd")


WORDS = (
    *(("runs", "show"), ("runs", "events"), ("runs", "cancel"), ("runs", "export", "--run")),
    *(("runs", "list", "-w"), ("runs", "list", "--status"), ("audit", "show", "--run")),
    *(("workspace", "create"), ("workspace", "show"), ("workspace", "remove")),
    *(("workspace", "fork", "x"), ("workspace", "access"), ("snapshot", "list")),
    *(("snapshot", "diff", "x"), ("snapshot", "restore", "x"), ("artifact", "get")),
    *(("approvals", "approve"), ("approvals", "deny"), ("grants", "revoke")),
    *(("consent", "show"), ("consent", "give"), ("policy", "check"), ("image", "check")),
    *(
        ("image", "build", "--tag"),
        ("engine", "status", "--engine"),
        ("workspace", "list", "--engine"),
    ),
)


@pytest.mark.parametrize("words", WORDS, ids=" ".join)
def test_odd_bytes_are_refused_by_every_other_command(
    sandboxrun: CommandLine, words: tuple[str, ...]
) -> None:
    done = sandboxrun(*words, b"a\xffb")
    assert done.returncode == 2, done.stderr
    assert b"Traceback" not in done.stderr


def test_an_unknown_runtime_is_answered_with_those_there_are(sandboxrun: CommandLine) -> None:
    runtimes = sandboxrun.json("engine", "status")["runtimes"]
    done = sandboxrun("exec", "--runtime", "nope", "true")
    assert done.returncode == 2
    assert all(name.encode() in done.stderr for name in runtimes)
    assert sandboxrun.json("runs", "list", "--status", "engine_failed") == []


def test_more_than_the_machine_has_is_cut_and_said(sandboxrun: CommandLine) -> None:
    machine = json.loads(sandboxrun.docker("info", "--format", "{{json .}}"))
    asked = machine["NCPU"] + 1
    env = {"SANDBOXRUN_POLICY": "rollout"}
    done = sandboxrun("exec", "--cpus", str(asked), "true", **env)
    assert (done.returncode, done.stdout) == (0, b"")
    said = f"cpus: {asked} is more than this run may have; it got {machine['NCPU']}."
    assert done.stderr.decode() == f"sandboxrun: {said}\n"
    outcome = json.loads(sandboxrun("exec", "--json", "--cpus", str(asked), "true", **env).stdout)
    assert outcome["limits"]["cpus"] == machine["NCPU"]
    assert outcome["decision"]["clamped"] == {"cpus": asked}
    memory = machine["MemTotal"] + (1 << 30)
    outcome = json.loads(
        sandboxrun("exec", "--json", "--memory", str(memory), "true", **env).stdout
    )
    assert outcome["limits"]["memory_bytes"] <= machine["MemTotal"]
    assert outcome["decision"]["clamped"]["memory_mib"] == memory / (1 << 20)
    assert sandboxrun("exec", "true").stderr == b""


FAULTS = {
    "usage": (("exec", "-t", "0", "true"), 2),
    "option": (("exec", "--nope", "true"), 2),
    "no command": (("exec",), 2),
    "unknown workspace": (("exec", "-w", "nope", "true"), 2),
    "runtime": (("exec", "--runtime", "nope", "true"), 2),
    "engine": (("exec", "--engine", "unix:///nope", "true"), 125),
    "run": (("runs", "show", "nope"), 2),
    "workspace": (("workspace", "show", "nope"), 2),
    "snapshot": (("snapshot", "list", "nope"), 2),
    "image": (("image", "check", "no/such:image"), 125),
    "grant": (("grants", "revoke", "nope"), 2),
    "approval": (("approvals", "approve", "nope"), 2),
    "audit": (("audit", "show", "--run", "nope"), 2),
    "policy": (("policy", "check", "./nope.toml"), 2),
    "consent": (("consent", "show", "nope"), 2),
    "screen": (("screen",), 2),
    "gc": (("gc", "--audit-days", "0"), 2),
}


@pytest.mark.parametrize("name", FAULTS)
def test_with_json_a_fault_is_an_object_on_stdout(sandboxrun: CommandLine, name: str) -> None:
    arguments, status = FAULTS[name]
    plain = sandboxrun(*arguments)
    done = sandboxrun(*arguments, "--json")
    assert (plain.returncode, plain.stdout) == (status, b"")
    assert done.returncode == status
    error = json.loads(done.stdout)["error"]
    assert error.keys() == {"code", "message", "advice", "exit_status"}
    assert error["exit_status"] == status
    assert error["code"]
    assert error["message"] in done.stderr.decode()
    assert done.stderr == plain.stderr


def test_every_command_with_json_is_tried_or_has_no_fault_of_its_own() -> None:
    with_json = set()

    def walk(command: object, path: tuple[str, ...]) -> None:
        for name, below in getattr(command, "commands", {}).items():
            walk(below, (*path, name))
        if any("--json" in each.opts for each in getattr(command, "params", ())):
            with_json.add(path[0])

    walk(command_line(), ())
    assert with_json - {arguments[0] for arguments, _ in FAULTS.values()} == {
        "engine",
        "artifact",
        "daemon",
        "quota",
        "verify",
    }


def test_json_behind_the_dashes_is_the_programs_own() -> None:
    assert wants_json(["exec", "--json", "true"])
    assert not wants_json(["exec", "--", "prog", "--json"])
    assert not wants_json(["exec", "echo --json"])


def test_the_error_object_is_made_of_the_fault() -> None:
    failure = of_fault(SandboxrunError("It broke.", advice="Mend it."), command="sandboxrun gc")
    assert failure.document() == {
        "code": "fault",
        "message": "It broke.",
        "advice": "Mend it.",
        "exit_status": 125,
    }
    helped = of_fault(UsageError("It is odd."), command="sandboxrun gc")
    assert helped.advice == "See `sandboxrun gc --help`."
