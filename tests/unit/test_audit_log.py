"""The audit as the pipeline writes it: all or nothing, in one order, and never in the clear."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest
from structlog.testing import capture_logs
from tests.state_samples import complete, intent, new_run, opened, receipt

from sandboxrun.audit import anchor
from sandboxrun.audit.digest import command_digest, env_digests, sha256
from sandboxrun.audit.log import AuditLog, open_audit
from sandboxrun.audit.reading import every_record, records_of, verify_store
from sandboxrun.audit.record import Intent, Record
from sandboxrun.audit.signing import Signer
from sandboxrun.errors import StateError, UnknownRunError
from sandboxrun.model.limits import Limits
from sandboxrun.model.request import Request
from sandboxrun.state.directory import StateDirectory
from sandboxrun.state.runs import Runs, insert_run
from sandboxrun.state.store import open_store

pytestmark = pytest.mark.anyio


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[AuditLog]:
    async with opened(tmp_path / "s") as (_, opened_log):
        yield opened_log


async def _records(log: AuditLog) -> list[Record]:
    return [record async for record in every_record(log.store)]


async def _break_head(log: AuditLog) -> None:
    await log.store.write(lambda tx: tx.execute("UPDATE audit_head SET signature = 'ff'"))


async def test_a_run_leaves_an_intent_and_a_receipt(log: AuditLog) -> None:
    run_id = await complete(log)
    first, second = await records_of(log.store, run_id)
    assert (first.kind, second.kind) == ("intent", "receipt")
    assert sha256(first.text.encode()) == first.hash == json.loads(second.text)["previous"]
    row = await Runs(log.store).get(run_id)
    assert row.outcome_json is not None
    assert json.loads(second.text)["entry"]["outcome"] == sha256(row.outcome_json.encode())


async def test_a_refused_run_leaves_a_receipt_alone(log: AuditLog) -> None:
    run = new_run()
    await Runs(log.store).insert(run)
    refused = receipt(run.run_id, "{}", started=False, status="refused")
    assert await log.settle(refused, outcome_json="{}")
    assert [record.kind for record in await records_of(log.store, run.run_id)] == ["receipt"]
    assert (await verify_store(log.store)).intact


async def test_a_second_settling_writes_nothing(log: AuditLog) -> None:
    run_id = await complete(log)
    before = await _records(log)
    assert not await log.settle(receipt(run_id, "other"), outcome_json="other")
    assert await _records(log) == before


async def test_one_transaction_records_the_run_and_its_intent(log: AuditLog) -> None:
    run = new_run()
    await log.intent(intent(run.run_id), also=lambda tx: insert_run(tx, run, log.store.owner))
    assert (await Runs(log.store).get(run.run_id)).status is None
    assert len(await _records(log)) == 1


async def test_what_cannot_be_recorded_does_not_start(log: AuditLog) -> None:
    await complete(log)
    before = await _records(log)
    await _break_head(log)
    run = new_run()
    with pytest.raises(StateError, match="not signed") as refused:
        await log.intent(intent(run.run_id), also=lambda tx: insert_run(tx, run, log.store.owner))
    assert "audit verify" in refused.value.advice
    assert await _records(log) == before
    with pytest.raises(UnknownRunError):
        await Runs(log.store).get(run.run_id)


async def test_what_cannot_be_recorded_is_not_settled(log: AuditLog) -> None:
    run = new_run()
    await Runs(log.store).insert(run)
    await log.intent(intent(run.run_id))
    await _break_head(log)
    with pytest.raises(StateError, match="not signed"):
        await log.settle(receipt(run.run_id, "{}"), outcome_json="{}")
    assert (await Runs(log.store).get(run.run_id)).status is None


async def test_a_record_in_the_way_stops_everything(log: AuditLog) -> None:
    await complete(log)

    def forge(tx: sqlite3.Connection) -> None:
        tx.execute("INSERT INTO audit SELECT seq + 2, run_id, kind, hash, record FROM audit")

    await log.store.write(forge)
    run = new_run()
    await Runs(log.store).insert(run)
    with pytest.raises(StateError, match="record 3 that nobody signed"):
        await log.intent(intent(run.run_id))


async def test_an_ended_or_unknown_run_does_not_start(log: AuditLog) -> None:
    with pytest.raises(UnknownRunError):
        await log.intent(intent("run-x"))
    run_id = await complete(log)
    with pytest.raises(StateError, match=r"has ended \(succeeded\)"):
        await log.intent(intent(run_id))
    with pytest.raises(UnknownRunError):
        await log.settle(receipt("run-x", "{}"), outcome_json="{}")


async def test_many_tasks_of_several_users_make_one_chain(tmp_path: Path) -> None:
    async with (
        opened(tmp_path / "s") as (_, one),
        opened(tmp_path / "s") as (_, two),
        anyio.create_task_group() as tasks,
    ):
        for log in (one, two) * 15:
            tasks.start_soon(complete, log)
        tasks.start_soon(one.make_durable)
        tasks.start_soon(two.make_durable)
    async with opened(tmp_path / "s") as (store, _):
        verdict = await verify_store(store)
    assert (verdict.intact, verdict.records, verdict.breaks) == (True, 60, ())


async def test_the_anchor_never_goes_back(log: AuditLog) -> None:
    directory = log.store.directory
    await complete(log)
    await log.make_durable()
    older = anchor.read(directory)
    await complete(log)
    await log.make_durable()
    newer = anchor.read(directory)
    assert older is not None
    assert newer is not None
    assert (older.head.seq, newer.head.seq) == (2, 4)
    await log.store.write(lambda tx: log._anchor(tx, older.head, older))
    assert anchor.read(directory) == newer
    assert [path.name for path in directory.audit.iterdir() if "anchor" in path.name] == [
        "anchor.json"
    ]


async def test_an_anchor_taken_away_while_running_is_recorded(log: AuditLog) -> None:
    await complete(log)
    await log.make_durable()
    (log.store.directory.audit / "anchor.json").unlink()
    await log.make_durable()
    verdict = await verify_store(log.store)
    assert [found.reason for found in verdict.breaks] == ["anchor_missing"]
    assert (log.store.directory.audit / "anchor.json").exists()


async def test_receipts_are_anchored_behind_their_outcomes(log: AuditLog) -> None:
    def anchored() -> int:
        found = anchor.read(log.store.directory)
        return 0 if found is None else found.head.seq

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(log.keep_durable)
        for _ in range(3):
            await complete(log)
        with anyio.fail_after(10):
            while anchored() < 6:  # noqa: ASYNC110 - the file has no event
                await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()
    await complete(log)
    with anyio.move_on_after(0) as cancelled:
        await log.finish()
        await anyio.sleep_forever()
    assert cancelled.cancelled_caught
    assert anchored() == 8


async def test_an_audit_that_cannot_be_anchored_still_ends(log: AuditLog) -> None:
    await complete(log)
    await _break_head(log)
    with capture_logs() as said:
        await log.finish()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(log.keep_durable)
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
    assert {entry["event"] for entry in said} == {"audit_not_durable"}


async def test_nothing_secret_reaches_the_disk(tmp_path: Path) -> None:
    request = Request(command="deploy --password hunter2", env={"API_TOKEN": "s3cr3t-v4lue"})
    async with opened(tmp_path / "s") as (store, log):
        run = new_run()
        await Runs(store).insert(run)
        await log.intent(
            Intent(
                run_id=run.run_id,
                principal="tester",
                command=command_digest(request),
                env=env_digests(request.env, log.env_secret),
                limits=Limits(),
                owner=str(store.owner),
            )
        )
        text = (await records_of(store, run.run_id))[0].text
        assert '"API_TOKEN":"' in text
    for file in (tmp_path / "s").rglob("*"):
        if file.is_file():
            content = file.read_bytes()
            assert b"hunter2" not in content
            assert b"s3cr3t" not in content


async def test_digests_of_values_are_an_installations_own(tmp_path: Path) -> None:
    env = {b"PIN": b"1234"}
    digests = []
    for name in ("a", "b", "a"):
        async with opened(tmp_path / name) as (_, log):
            digests.append(env_digests(env, log.env_secret)["PIN"])
    assert digests[0] == digests[2]
    assert digests[0] != digests[1]
    assert sha256(b"1234") not in digests


def test_a_command_and_an_argv_never_have_the_same_digest() -> None:
    shell = Request(command="ls -l")
    argvs = [Request(argv=("ls", "-l")), Request(argv=("ls -l",)), Request(argv=("ls", "", "-l"))]
    digests = {command_digest(request) for request in (shell, *argvs)}
    assert len(digests) == 4


async def test_the_key_is_made_once_and_is_private(tmp_path: Path) -> None:
    with StateDirectory.open(tmp_path / "s") as directory:
        keys = []

        async def make() -> None:
            keys.append((await anyio.to_thread.run_sync(Signer.open, directory)).key)

        async with anyio.create_task_group() as tasks:
            for _ in range(8):
                tasks.start_soon(make)
        assert len(set(keys)) == 1
        assert (directory.audit / "key.pem").stat().st_mode & 0o7777 == 0o600
        assert [path.name for path in directory.audit.iterdir()] == ["key.pem"]


async def test_a_first_opening_that_was_killed_is_no_break(tmp_path: Path) -> None:
    """Between the first head and the first anchor there is nothing yet to be lost."""
    with StateDirectory.open(tmp_path / "s") as directory:
        async with open_store(directory) as store:
            log = AuditLog(store, await anyio.to_thread.run_sync(Signer.open, directory))
            await store.write(log._begin)
        assert anchor.read(directory) is None
        async with open_store(directory) as store:
            await complete(await open_audit(store))
            verdict = await verify_store(store)
    assert (verdict.intact, verdict.breaks) == (True, ())


@pytest.mark.parametrize(
    ("name", "value"),
    [("elapsed_seconds", float("nan")), ("exit_code", 2**60), ("principal", "\udcff")],
)
async def test_what_json_cannot_say_is_a_fault_and_settles_nothing(
    log: AuditLog, name: str, value: object
) -> None:
    run = new_run()
    await Runs(log.store).insert(run)
    odd = receipt(run.run_id, "{}", started=False).model_copy(update={name: value})
    with pytest.raises(StateError, match="cannot be written into the audit"):
        await log.settle(odd, outcome_json="{}")
    assert (await Runs(log.store).get(run.run_id)).status is None
    await complete(log)
