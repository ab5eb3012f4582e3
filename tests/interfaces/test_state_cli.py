"""``runs``, ``audit`` and ``gc`` on the command line."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar

import anyio
import pytest
import typer
from tests.state_samples import complete, new_run, opened
from typer.testing import CliRunner, Result

from sandboxrun.audit.log import AuditLog
from sandboxrun.errors import StateError, UnknownRunError, UsageError
from sandboxrun.interfaces.cli import audit, gc, runs
from sandboxrun.interfaces.cli.tables import printable
from sandboxrun.state.owner import Owner
from sandboxrun.state.runs import NewRun, RunRow, Runs, insert_run

T = TypeVar("T")
DEAD = Owner(1, 1, "00000000-0000-0000-0000-000000000000", 1)


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SANDBOXRUN_STATE_DIR", str(tmp_path / "s"))
    monkeypatch.setenv("SANDBOXRUN_CONFIG", str(tmp_path / "none.toml"))
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path / "s"


def call(*arguments: str, obj: object = None) -> Result:
    """Run a command; a fault is raised as it would reach the outermost handler."""
    app = typer.Typer()
    app.add_typer(runs.app, name="runs")
    app.add_typer(audit.app, name="audit")
    app.command("gc")(gc.gc_command)
    result = CliRunner().invoke(app, arguments, obj=obj)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def having(state: Path, work: Callable[[AuditLog], Awaitable[T]]) -> T:
    async def within() -> T:
        async with opened(state) as (_, log):
            found = await work(log)
            await log.make_durable()
            return found

    return anyio.run(within)


def test_nothing_has_run_yet(state: Path) -> None:
    assert json.loads(call("runs", "list", "--json").stdout) == []
    assert "0 records" in call("audit", "verify").stdout
    assert call("audit", "export").stdout == ""
    assert state.exists()


def test_runs_are_listed_and_shown(state: Path) -> None:
    async def work(log: AuditLog) -> tuple[str, str]:
        running = new_run(workspace="demo")
        await Runs(log.store).insert(running)
        return await complete(log), running.run_id

    done, running = having(state, work)
    listed = json.loads(call("runs", "list", "--json").stdout)
    assert [(row["run_id"], row["status"], row["workspace"]) for row in listed] == [
        (done, "succeeded", None),
        (running, "running", "demo"),
    ]
    assert all(row["started_at"].endswith("Z") for row in listed)
    table = call("runs", "list").stdout
    assert done in table
    assert "echo hello" in table
    assert (
        json.loads(call("runs", "list", "--json", "--status", "succeeded").stdout)[0] == listed[0]
    )
    shown = json.loads(call("runs", "show", done, "--json").stdout)
    assert shown["request"] == {"command": "echo hello"}
    assert [record["entry"]["kind"] for record in shown["audit"]] == ["intent", "receipt"]
    assert "succeeded" in call("runs", "show", done).stdout
    with pytest.raises(UnknownRunError):
        call("runs", "show", "run-x")


def test_a_command_cannot_drive_the_terminal(state: Path) -> None:
    evil = NewRun(
        "run-evil\x1b[2J", "w", "p\u202e", None, "2026", json.dumps({"argv": ["a", "\x1b]0;x\x07"]})
    )
    having(state, lambda log: Runs(log.store).insert(evil))
    for output in (call("runs", "list").stdout, call("runs", "show", evil.run_id).stdout):
        assert not {"\x1b", "\x07", "\u202e"} & set(output)
    assert printable("a\tb\x1b\u202e\udcff é") == r"a\x09b\x1b\u202e\udcff é"


def test_an_ended_run_is_not_cancelled(state: Path) -> None:
    done = having(state, complete)
    result = call("runs", "cancel", done)
    assert result.exit_code == 0
    assert "had ended before: succeeded" in result.stdout


def test_a_run_of_a_dead_owner_is_recovered_where_that_is_possible(state: Path) -> None:
    run = new_run()
    having(state, lambda log: log.store.write(lambda tx: insert_run(tx, run, DEAD)))
    assert json.loads(call("runs", "list", "--json").stdout)[0]["status"] == "orphaned"
    result = call("runs", "cancel", run.run_id, "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["result"] == "owner_dead"

    async def recover(row: RunRow) -> None:
        async with opened(state) as (store, _):
            await Runs(store).settle(row.run_id, status="lost", outcome_json="{}")

    result = call("runs", "cancel", run.run_id, obj=recover)
    assert result.exit_code == 0
    assert "recovered: lost" in result.stdout


def test_a_mute_owner_is_not_waited_for_long(state: Path) -> None:
    run = new_run()
    having(state, lambda log: Runs(log.store).insert(run))
    result = call("runs", "cancel", run.run_id, "--wait", "0.05")
    assert result.exit_code == 1
    assert "has not answered yet" in result.stdout


def test_runs_are_exported_as_lines(state: Path) -> None:
    async def work(log: AuditLog) -> list[str]:
        return [await complete(log) for _ in range(3)]

    ids = having(state, work)
    lines = [json.loads(line) for line in call("runs", "export").stdout.splitlines()]
    assert [line["run_id"] for line in lines] == ids
    assert lines[0]["outcome"] == {"run_id": ids[0]}
    assert lines[0]["receipt"]["entry"]["run_id"] == ids[0]
    one = call("runs", "export", "--run", ids[1]).stdout.splitlines()
    assert [json.loads(line)["run_id"] for line in one] == [ids[1]]


def test_the_audit_is_verified_and_what_was_changed_is_named(state: Path) -> None:
    done = having(state, complete)
    assert call("audit", "verify").exit_code == 0
    verdict = json.loads(call("audit", "verify", "--json").stdout)
    assert (verdict["intact"], verdict["records"]) == (True, 2)
    assert call("audit", "verify", "--public-key", verdict["key"]).exit_code == 0
    assert call("audit", "verify", "--public-key", "00" * 32).exit_code == 1
    with closing(sqlite3.connect(state / "state.db", isolation_level=None)) as db:
        db.execute("UPDATE audit SET record = replace(record, 'tester', 'nobody') WHERE seq = 1")
    result = call("audit", "verify")
    assert result.exit_code == 1
    assert done in result.stdout
    assert "changed" in result.stdout
    assert json.loads(call("audit", "verify", "--json").stdout)["findings"][0]["seq"] == 1


def test_records_are_shown_and_exported_as_they_were_hashed(state: Path, tmp_path: Path) -> None:
    done = having(state, complete)
    bodies = json.loads(call("audit", "show", "--run", done, "--json").stdout)
    assert [body["entry"]["kind"] for body in bodies] == ["intent", "receipt"]
    shown = call("audit", "show", "--run", done).stdout
    assert "record 1  intent" in shown
    with pytest.raises(UnknownRunError):
        call("audit", "show", "--run", "run-x")
    kept = tmp_path / "head.json"
    lines = call("audit", "export", "--head", str(kept)).stdout.splitlines()
    assert [json.loads(line) for line in lines] == bodies
    assert hashlib.sha256(lines[0].encode()).hexdigest() == bodies[1]["previous"]
    having(state, complete)
    assert call("audit", "verify", "--against", str(kept)).exit_code == 0
    with pytest.raises(UsageError, match="not a signed head"):
        call("audit", "verify", "--against", __file__)


def test_a_kept_head_tells_an_audit_that_was_made_anew(state: Path, tmp_path: Path) -> None:
    having(state, complete)
    kept = tmp_path / "head.json"
    call("audit", "export", "--head", str(kept))
    (state / "state.db").unlink()
    (state / "audit" / "anchor.json").unlink()
    having(state, complete)
    assert call("audit", "verify").exit_code == 0
    assert call("audit", "verify", "--against", str(kept)).exit_code == 1


def test_old_runs_are_collected_and_the_rest_verifies(state: Path) -> None:
    done = having(state, complete)
    running = new_run()
    having(state, lambda log: Runs(log.store).insert(running))
    nothing = json.loads(call("gc", "--json", "--engine", "unix:///no/engine").stdout)
    assert nothing == {"runs": [], "audit_records": 0, "foreign": [], "removed_foreign": {}}
    collected = json.loads(call("gc", "--runs-days", "0", "--json").stdout)
    assert (collected["runs"], collected["audit_records"]) == ([done], 0)
    assert call("audit", "verify").exit_code == 0
    assert call("gc", "--runs-days", "0", "--audit-days", "0").exit_code == 0
    result = call("audit", "verify")
    assert result.exit_code == 0
    assert "1 records, 3 to 3" in result.stdout
    assert [row["run_id"] for row in json.loads(call("runs", "list", "--json").stdout)] == [
        running.run_id
    ]
    with pytest.raises(UsageError, match="before the runs"):
        call("gc", "--runs-days", "10", "--audit-days", "1")


def test_output_of_runs_that_are_gone_goes_too(state: Path) -> None:
    done = having(state, complete)
    kept = having(state, complete)
    spool = state / "spool"
    for name in (done, kept, "run-unknown-old", "run-unknown-young"):
        (spool / f"{name}.spool").write_text("output")
    os.utime(spool / "run-unknown-old.spool", (0, 0))
    with closing(sqlite3.connect(state / "state.db", isolation_level=None)) as db:
        db.execute("UPDATE runs SET settled_at = '2001' WHERE run_id = ?", (done,))
    call("gc")
    assert {path.stem for path in spool.iterdir()} == {kept, "run-unknown-young"}


def test_what_was_changed_is_not_collected(state: Path) -> None:
    having(state, complete)
    call("gc", "--runs-days", "0")
    with closing(sqlite3.connect(state / "state.db", isolation_level=None)) as db:
        db.execute("UPDATE audit SET record = replace(record, 'tester', 'nobody') WHERE seq = 1")
    with pytest.raises(StateError, match="Record 1 of the audit was changed"):
        call("gc", "--runs-days", "0", "--audit-days", "0")
    assert json.loads(call("audit", "verify", "--json").stdout)["records"] == 2


def test_a_replaced_database_is_said_loudly(state: Path) -> None:
    having(state, complete)
    (state / "state.db").write_bytes(b"not a database" * 500)
    result = call("runs", "list", "--json")
    assert json.loads(result.stdout) == []
    assert "damaged" in result.stderr
    assert "set aside as" in result.stderr
