"""Policy, consent and approvals around real runs: never one without a valid yes, one outcome each."""

from __future__ import annotations

import functools
import json
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.from_thread import start_blocking_portal
from run_bench import Bench

from real_engine import engine_url
from sandboxrun import Outcome, Runner, Settings, Status, pipeline
from sandboxrun.approval.approvals import Answered, Approvals
from sandboxrun.approval.authorise import Permit
from sandboxrun.approval.consents import Consents
from sandboxrun.approval.grants import Grants
from sandboxrun.approval.question import Answer, Approver, Question
from sandboxrun.audit.reading import records_of
from sandboxrun.deciding import Judge, Judged
from sandboxrun.engine.protocol import EngineKind
from sandboxrun.model.event import Event
from sandboxrun.policy.load import read_policy
from sandboxrun.runner import Run

pytestmark = [pytest.mark.engine, pytest.mark.docker]

ASKS = "rm -rf src; echo done"
"""A command that the default policy asks about and that needs nothing to succeed."""


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("policy") / "host.toml"
    path.write_text(read_policy("default")[1])
    return path


@pytest.fixture(scope="module")
def bench(policy: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Yield a bench whose host policy is a file that tests change."""
    settings = Settings(
        state_dir=tmp_path_factory.mktemp("state") / "s",
        engine=engine_url(EngineKind.DOCKER),
        policy=str(policy),
        principal="ann",
    )
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(Runner.open(settings)) as runner,
    ):
        yield Bench(runner, portal, settings)


@pytest.fixture
def restored(policy: Path) -> Iterator[Path]:
    """Yield the policy's file, and give it its text back."""
    text = policy.read_text()
    yield policy
    policy.write_text(text)


@pytest.fixture
def workspace(bench: Bench, request: pytest.FixtureRequest) -> str:
    name = "w" + "".join(c for c in request.node.name if c.isalnum())[-50:]
    bench.portal.call(bench.runner.workspaces.create, name)
    return name


def workspace_id(bench: Bench, name: str) -> str:
    return bench.portal.call(bench.runner.workspaces.show, name).workspace_id


def widen(policy: Path) -> None:
    """Change what the host's policy decides by, so that its digest is another."""
    text = policy.read_text()
    changed = text.replace("maximum = 3600", "maximum = 3601")
    assert changed != text
    policy.write_text(changed)


class Person:
    """Answers as told, and remembers the questions."""

    def __init__(self, *answers: str) -> None:
        self.questions: list[Question] = []
        self._answers = list(answers)

    async def __call__(self, question: Question) -> Answer:
        self.questions.append(question)
        return Answer(approved=self._answers.pop(0) == "yes", by="bob")


def start(bench: Bench, command: str, **fields: Any) -> Run:
    return bench.portal.call(functools.partial(bench.runner.start, command, **fields))


def end(bench: Bench, run: Run) -> Outcome:
    return bench.portal.call(run.outcome)


def events(bench: Bench, run: Run, until: str = "settled") -> list[Event]:
    async def read() -> list[Event]:
        found = []
        with anyio.fail_after(120):
            async with aclosing(run.events()) as stream:
                async for event in stream:
                    found.append(event)
                    if event.type == until:
                        break
        return found

    return bench.portal.call(read)


def types(bench: Bench, run: Run) -> list[str]:
    return [event.type for event in events(bench, run) if event.type != "output"]


def records(bench: Bench, outcome: Outcome) -> list[dict[str, Any]]:
    """Return what the audit says of a run."""
    found = bench.portal.call(records_of, bench.runner._store, outcome.run_id)
    return [json.loads(record.text)["entry"] for record in found]


@contextmanager
def writing(bench: Bench, workspace: str) -> Iterator[None]:
    """Keep the workspace being written, so that other writers wait between permit and launch."""
    run = start(bench, "touch held; sleep 300", workspace=workspace)
    events(bench, run, until="started")
    try:
        yield
    finally:
        bench.portal.call(run.cancel)


# -- a yes, a no, and nobody ---------------------------------------------------------------------


def test_a_question_and_its_answer_are_events(bench: Bench, workspace: str) -> None:
    person = Person("yes")
    run = start(bench, ASKS, workspace=workspace, approver=person)
    outcome = end(bench, run)
    assert outcome.status is Status.SUCCEEDED
    told = {event.type: event for event in events(bench, run)}
    asked, answered = told["approval_requested"], told["approval_resolved"]
    assert asked.approval_id == answered.approval_id
    assert asked.rule == outcome.decision.rule == "screening:delete.sources"
    assert asked.expires_at > asked.time
    assert (answered.granted, answered.by) == (True, "bob")
    assert types(bench, run) == [
        "queued", "approval_requested", "approval_resolved", "started", "exited", "settled",
    ]  # fmt: skip
    (question,) = person.questions
    assert (question.command, question.workspace_name) == (ASKS, workspace)


def test_a_receipt_says_who_allowed_it(bench: Bench, workspace: str) -> None:
    outcome = bench.run(ASKS, workspace=workspace, approver=Person("yes"))
    intent, receipt = records(bench, outcome)
    consents = Consents(bench.runner._store)
    latest = functools.partial(
        consents.latest, principal="ann", workspace=workspace_id(bench, workspace)
    )
    consent = bench.portal.call(latest)
    assert consent is not None
    for record in (intent, receipt):
        assert record["consent"] == consent.consent_id
        assert record["policies"] == {"host_policy": consent.digests.host_policy}
        assert record["grant"] is None
        assert record["approval"].startswith("ask-")
    (denied,) = records(bench, bench.run(ASKS, workspace=workspace, approver=Person("no")))
    assert denied["approval"] not in (None, receipt["approval"])
    assert denied["consent"] == consent.consent_id


def test_a_no_is_an_event_and_reaches_the_caller(bench: Bench) -> None:
    async def no(question: Question) -> Answer:
        del question
        return Answer(approved=False, by="bob", reason="Not on a Friday.")

    run = start(bench, ASKS, approver=no)
    outcome = end(bench, run)
    assert outcome.status is Status.APPROVAL_DENIED
    assert outcome.reason.startswith("bob said no: Not on a Friday.\n")
    resolved = [event for event in events(bench, run) if event.type == "approval_resolved"]
    assert [(event.granted, event.by) for event in resolved] == [(False, "bob")]
    assert "started" not in types(bench, run)


def test_silence_and_a_cancel_end_the_question(bench: Bench) -> None:
    silent = start(bench, ASKS, wait_approval_seconds=0.1)
    assert end(bench, silent).status is Status.APPROVAL_EXPIRED
    run = start(bench, ASKS, wait_approval_seconds=600)
    events(bench, run, until="approval_requested")
    assert bench.portal.call(run.cancel).status is Status.CANCELLED
    for ended in (silent, run):
        resolved = [event for event in events(bench, ended) if event.type == "approval_resolved"]
        assert [(event.granted, event.by) for event in resolved] == [(False, None)]
        assert "started" not in types(bench, ended)


@pytest.mark.parametrize(
    "bad", [KeyError("x"), RuntimeError("y"), ExceptionGroup("z", [OSError()])]
)
def test_an_approver_that_raises_denies_its_run_and_harms_no_other(
    bench: Bench, bad: Exception
) -> None:
    async def broken(question: Question) -> Answer:
        del question
        raise bad

    outcome = bench.run(ASKS, approver=broken)
    assert outcome.status is Status.APPROVAL_DENIED
    assert outcome.reason.startswith(f"The approver failed, which is a no: {type(bad).__name__}")
    assert bench.run("echo fine").status is Status.SUCCEEDED


# -- between the answer and the launch -----------------------------------------------------------


def changed_before_launch(
    bench: Bench, workspace: str, person: Approver | None, change: Callable[[], Any]
) -> tuple[Outcome, list[str]]:
    """Let something change while a permitted run waits for its turn to write."""
    with writing(bench, workspace):
        run = start(bench, ASKS, workspace=workspace, approver=person)
        events(bench, run, until="waiting")
        change()
    return end(bench, run), types(bench, run)


def test_other_runs_in_between_are_fine(bench: Bench, workspace: str) -> None:
    person = Person("yes")
    done: list[Outcome] = []

    def others() -> None:
        done.append(bench.run("echo between", workspace=workspace, read_only=True))
        done.append(bench.run("echo elsewhere"))

    outcome, _ = changed_before_launch(bench, workspace, person, others)
    assert [each.status for each in done] == [Status.SUCCEEDED] * 2
    assert outcome.status is Status.SUCCEEDED
    assert len(person.questions) == 1


def test_a_changed_policy_wants_a_consent_again(
    bench: Bench, workspace: str, restored: Path
) -> None:
    person = Person("yes")
    outcome, told = changed_before_launch(bench, workspace, person, lambda: widen(restored))
    assert outcome.status is Status.CONSENT_REQUIRED
    assert len(person.questions) == 1
    assert "started" not in told
    # Between runs as well, and until it is given.
    assert bench.run("ls", workspace=workspace).status is Status.CONSENT_REQUIRED
    given = bench.cli("consent", "give", workspace, env={"SANDBOXRUN_PRINCIPAL": "ann"})
    assert given.returncode == 0, given.stderr
    assert bench.run("ls", workspace=workspace).status is Status.SUCCEEDED


def test_with_the_new_consent_it_is_asked_again(
    bench: Bench, workspace: str, restored: Path
) -> None:
    def change() -> None:
        widen(restored)
        bench.cli("consent", "give", workspace, env={"SANDBOXRUN_PRINCIPAL": "ann"})

    for second, status in (("yes", Status.SUCCEEDED), ("no", Status.APPROVAL_DENIED)):
        person = Person("yes", second)
        outcome, told = changed_before_launch(bench, workspace, person, change)
        assert outcome.status is status
        assert len(person.questions) == 2
        assert ("started" in told) is (second == "yes")
        restored.write_text(restored.read_text().replace("3601", "3600"))
        bench.cli("consent", "give", workspace, env={"SANDBOXRUN_PRINCIPAL": "ann"})


def test_a_consent_that_is_taken_back_stops_it(bench: Bench, workspace: str) -> None:
    identity = workspace_id(bench, workspace)

    def change() -> None:
        revoke = Consents(bench.runner._store).revoke
        bench.portal.call(functools.partial(revoke, principal="ann", workspace=identity))

    outcome, _ = changed_before_launch(bench, workspace, Person("yes"), change)
    assert outcome.status is Status.CONSENT_REQUIRED


def test_a_workspace_that_is_switched_off_refuses(bench: Bench, workspace: str) -> None:
    def change() -> None:
        assert bench.cli("workspace", "access", workspace, "off").returncode == 0

    outcome, told = changed_before_launch(bench, workspace, Person("yes"), change)
    assert outcome.status is Status.REFUSED
    assert "started" not in told


def test_a_grant_that_is_revoked_asks(bench: Bench, workspace: str) -> None:
    async def always(question: Question) -> Answer:
        assert question.always is not None
        return Answer(approved=True, by="bob", always=True)

    assert bench.run(ASKS, workspace=workspace, approver=always).status is Status.SUCCEEDED
    assert bench.run(ASKS, workspace=workspace).status is Status.SUCCEEDED
    grants = Grants(bench.runner._store)
    identity = workspace_id(bench, workspace)

    def change() -> None:
        holding = functools.partial(grants.holding, principal="ann", workspace=identity)
        (grant,) = bench.portal.call(holding)
        assert bench.portal.call(grants.revoke, grant.grant_id)

    person = Person("yes")
    outcome, _ = changed_before_launch(bench, workspace, person, change)
    assert outcome.status is Status.SUCCEEDED
    assert len(person.questions) == 1


def test_what_keeps_changing_is_not_run(
    bench: Bench, workspace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, looks = pipeline.holds, []

    async def changing(judge: Judge, judged: Judged, permit: Permit) -> bool:
        looks.append(permit)
        return await real(judge, replace(judged, principal="eve"), permit)

    monkeypatch.setattr(pipeline, "holds", changing)
    person = Person("yes", "yes")
    run = start(bench, ASKS, workspace=workspace, approver=person)
    outcome = end(bench, run)
    assert outcome.status is Status.APPROVAL_DENIED
    assert "also after it was judged anew" in outcome.reason
    assert len(looks) == len(person.questions) == 2
    assert "started" not in types(bench, run)
    assert bench.leftovers() == []


BOUND: dict[str, Callable[[Judged], Judged]] = {
    "run": lambda judged: replace(judged, run_id="run-other"),
    "principal": lambda judged: replace(judged, principal="eve"),
    "workspace": lambda judged: replace(judged, workspace_id=None),
    "image": lambda judged: replace(judged, image_id="sha256:" + "0" * 64),
    "image name": lambda judged: replace(judged, image="sandboxrun/workspace:other"),
    "runtime": lambda judged: replace(judged, runtime="runsc"),
    **{
        name: lambda judged, change=change: replace(
            judged, request=judged.request.model_copy(update=change)
        )
        for name, change in {
            "command": {"command": b"rm -rf src2; echo done"},
            "argv": {"command": None, "argv": (b"rm", b"-rf", b"src")},
            "cwd": {"cwd": b"/tmp"},
            "variable": {"env": {b"A": b"1", b"B": b"2"}},
            "value of a variable": {"env": {b"A": b"2"}},
            "secret": {"secrets": {b"S": b"1", b"T": b"2"}},
            "stdin": {"stdin": b"other"},
            "timeout": {"timeout_seconds": 11.0},
            "read-only": {"read_only": True},
            "conversation": {"conversation": "c-2"},
        }.items()
    },
}


@pytest.mark.parametrize("field", [*BOUND, "limits"])
def test_no_bound_field_can_change_after_the_answer(
    bench: Bench, workspace: str, field: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = pipeline.holds

    def limited(judged: Judged) -> Judged:
        limits = judged.request.limits.model_copy(update={"pids": 65})
        return replace(judged, request=judged.request.model_copy(update={"limits": limits}))

    change = limited if field == "limits" else BOUND[field]

    async def changed(judge: Judge, judged: Judged, permit: Permit) -> bool:
        return await real(judge, change(judged), permit)

    monkeypatch.setattr(pipeline, "holds", changed)
    person = Person("yes", "no")
    run = start(
        bench,
        ASKS,
        workspace=workspace,
        approver=person,
        cwd="/workspace",
        env={"A": "1"},
        secrets={"S": "1"},
        stdin=b"in",
        timeout_seconds=10,
        limits={"pids": 64},
        conversation="c-1",
    )
    outcome = end(bench, run)
    assert outcome.status is Status.APPROVAL_DENIED
    assert len(person.questions) == 2
    assert "started" not in types(bench, run)
    approvals = Approvals(bench.runner._store)
    first = next(e for e in events(bench, run) if e.type == "approval_requested")
    assert bench.portal.call(approvals.get, first.approval_id).redeemed_at is None


# -- the policy's file ---------------------------------------------------------------------------


def test_a_broken_policy_refuses_until_it_is_mended(bench: Bench, restored: Path) -> None:
    whole = restored.read_text()
    restored.write_text(whole + "\nnonsense = 1\n")
    outcome = bench.run("ls")
    assert outcome.status is Status.REFUSED
    assert outcome.reason.startswith("Refused. ")
    assert "nonsense" in outcome.reason
    restored.unlink()
    assert bench.run("ls").status is Status.REFUSED
    restored.write_text(whole)
    assert bench.run("ls").status is Status.SUCCEEDED


def test_the_policys_output_limit_is_kept(bench: Bench, restored: Path) -> None:
    text = restored.read_text()
    line = next(line for line in text.splitlines() if line.startswith("output_mib"))
    restored.write_text(text.replace(line, "output_mib = { default = 1, maximum = 2 }"))
    outcome = bench.run("yes | head -c 1500000")
    assert outcome.status is Status.OUTPUT_LIMIT
    assert outcome.artifact is not None
    assert outcome.artifact.bytes <= 1 << 20
    assert bench.run("yes | head -c 1000000").status is Status.SUCCEEDED


# -- more than the policy gives ------------------------------------------------------------------


def test_a_larger_maximum_is_cut_or_asked_about(bench: Bench) -> None:
    cut = bench.run("echo x", limits={"pids": 5000})
    assert (cut.status, cut.limits.pids) == (Status.SUCCEEDED, 4096)
    assert cut.decision.clamped == {"pids": 5000}
    denied = bench.run("echo x", limits={"pids": 5000}, expand=True)
    assert denied.status is Status.APPROVAL_DENIED
    assert "It wants 5000 processes" in denied.reason
    person = Person("yes")
    granted = bench.run("echo x", limits={"pids": 5000}, expand=True, approver=person)
    assert (granted.status, granted.limits.pids) == (Status.SUCCEEDED, 5000)
    assert person.questions[0].always is None
    beyond = bench.run("echo x", limits={"pids": 50000}, expand=True, approver=person)
    assert beyond.status is Status.REFUSED


def test_only_the_limits_that_are_named_leave_the_policys_defaults(
    bench: Bench, restored: Path
) -> None:
    text = restored.read_text()
    restored.write_text(
        text.replace("default = 120", "default = 7").replace("default = 2048", "default = 512")
    )
    outcome = bench.run("echo x; sleep 100", limits={"pids": 64})
    assert (outcome.status, outcome.limits.pids) == (Status.TIMED_OUT, 64)
    assert outcome.limits.memory_bytes == 512 << 20
    assert "7 s" in outcome.reason


def test_another_runtime_is_asked_about(bench: Bench) -> None:
    usual = bench.runner._tools.maker.info.default_runtime
    other = {"runc": "crun", "crun": "runc"}[usual]
    if other not in bench.runner._tools.maker.info.runtimes:
        pytest.skip(f"the engine has no {other}")
    assert bench.run("echo x", runtime=usual).status is Status.SUCCEEDED
    denied = bench.run("echo x", runtime=other)
    assert denied.status is Status.APPROVAL_DENIED
    assert f"It wants the runtime '{other}'" in denied.reason
    assert bench.run("echo x", runtime=other, approver=Person("yes")).status is Status.SUCCEEDED
    absent = bench.cli("exec", "--runtime", "nope", "true")
    assert (absent.returncode, b"no runtime 'nope'" in absent.stderr) == (2, True)


def test_the_network_is_asked_for_in_vain(bench: Bench) -> None:
    person = Person("yes")
    outcome = bench.run("ls", network=True, approver=person)
    assert outcome.status is Status.APPROVAL_DENIED
    assert "network grants unavailable" in outcome.reason
    assert person.questions == []
    done = bench.cli("exec", "--network", "--approve", "--json", "ls")
    assert done.returncode == 77
    assert "network grants unavailable" in json.loads(done.stdout)["reason"]


# -- readers -------------------------------------------------------------------------------------


def test_what_only_reads_waits_for_no_writer(bench: Bench, workspace: str) -> None:
    bench.run("echo before > file", workspace=workspace)
    with writing(bench, workspace):
        outcome = bench.run("cat file", workspace=workspace)
        assert (outcome.status, outcome.preview.text) == (Status.SUCCEEDED, "before\n")
        run = start(bench, "touch other", workspace=workspace)
        events(bench, run, until="waiting")
    assert end(bench, run).status is Status.SUCCEEDED


# -- other processes -----------------------------------------------------------------------------


def asking(bench: Bench, *arguments: str) -> tuple[subprocess.Popen[bytes], str]:
    """Start a process that asks, and return it with the question's id."""
    process = subprocess.Popen(
        ["sandboxrun", "exec", "--json", "--wait-approval", "300", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=bench.environment,
    )
    approvals = Approvals(bench.runner._store)

    async def shown() -> str:
        with anyio.fail_after(60):
            while not (pending := await approvals.pending()):  # noqa: ASYNC110 - a row, not an event
                await anyio.sleep(0.05)
        return pending[0].approval_id

    return process, bench.portal.call(shown)


def outcome_of(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    stdout, _ = process.communicate(timeout=120)
    return json.loads(stdout) | {"exit": process.returncode}


def test_answers_of_two_processes_make_one_outcome(bench: Bench) -> None:
    for _ in range(3):
        process, approval_id = asking(bench, ASKS)
        codes: dict[str, int] = {}
        together = threading.Barrier(2)

        def answer(
            word: str,
            codes: dict[str, int] = codes,
            together: threading.Barrier = together,
            approval_id: str = approval_id,
        ) -> None:
            together.wait()
            codes[word] = bench.cli("approvals", word, approval_id).returncode

        threads = [threading.Thread(target=answer, args=(word,)) for word in ("approve", "deny")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        told = outcome_of(process)
        assert sorted(codes.values()) == [0, 1]
        won = min(codes, key=lambda word: codes[word])
        expected = {"approve": ("succeeded", 0), "deny": ("approval_denied", 77)}[won]
        assert (told["status"], told["exit"]) == expected


def test_cancelling_and_approving_make_one_outcome(bench: Bench) -> None:
    for _ in range(3):
        process, approval_id = asking(bench, ASKS)
        process.send_signal(signal.SIGINT)
        code = bench.cli("approvals", "approve", approval_id).returncode
        told = outcome_of(process)
        # A yes in time does not undo the cancel; the run may only have been quicker.
        assert told["status"] in (("cancelled", "succeeded") if code == 0 else ("cancelled",))


def test_a_question_of_a_dead_process_is_closed_by_the_next(bench: Bench) -> None:
    process, approval_id = asking(bench, ASKS)
    with process:
        process.kill()
    assert bench.cli("approvals", "approve", approval_id).returncode == 1
    assert bench.cli("exec", "true").returncode == 0
    row = bench.portal.call(Approvals(bench.runner._store).get, approval_id)
    assert row.answer is Answered.CANCELLED


def _waits(bench: Bench, seconds: float, limit: str, command: str) -> dict[str, Any]:
    process, approval_id = asking(bench, "-t", limit, command)
    assert process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=seconds)
    assert bench.cli("approvals", "approve", approval_id).returncode == 0
    return outcome_of(process)


def test_waiting_for_an_answer_takes_nothing_from_the_time_limit(bench: Bench) -> None:
    told = _waits(bench, 3, "2", "rm -rf src; sleep 1; echo done")
    assert (told["status"], told["preview"]["text"]) == ("succeeded", "done\n")


@pytest.mark.slow
def test_a_minute_of_waiting_takes_nothing_from_five_seconds(bench: Bench) -> None:
    told = _waits(bench, 60, "5", "rm -rf src; sleep 4; echo done")
    assert (told["status"], told["preview"]["text"]) == ("succeeded", "done\n")
    assert told["elapsed_seconds"] < 5
    told = _waits(bench, 60, "5", "rm -rf src; sleep 100")
    assert (told["status"], told["exit"]) == ("timed_out", 124)
    assert told["elapsed_seconds"] >= 5
