"""The same promise on the real thing: a database and an anchor file, changed behind our back."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.state_samples import complete, new_run, opened, receipt

from sandboxrun.audit.reading import verify_store
from sandboxrun.audit.verdict import Verdict
from sandboxrun.state.directory import StateDirectory
from sandboxrun.state.runs import Runs
from sandboxrun.state.store import open_store

RUNS = 6
COLUMNS = {
    "audit": ("seq", "run_id", "kind", "hash", "record"),
    "audit_head": ("statement", "signature"),
    "runs": ("outcome",),
}


async def _build(path: Path) -> None:
    async with opened(path) as (store, log):
        for number in range(RUNS):
            await complete(log, f"run-{number}")
        refused = new_run("run-refused")
        await Runs(store).insert(refused)
        denied = receipt("run-refused", "{}", started=False, status="refused")
        assert await log.settle(denied, outcome_json="{}")
        await log.make_durable()


async def _verify(path: Path) -> Verdict:
    with StateDirectory.open(path) as directory:
        async with open_store(directory) as store:
            return await verify_store(store)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("audit") / "state"
    anyio.run(_build, path)
    return path


@pytest.fixture(scope="module")
def copies() -> Iterator[Path]:
    with TemporaryDirectory() as directory:
        yield Path(directory)


def _copy(original: Path, copies: Path) -> Path:
    copy = copies / "state"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(original, copy)
    return copy


def _flipped(value: str | int, data: st.DataObject) -> str | int:
    if isinstance(value, int):
        return value ^ (1 << data.draw(st.integers(0, 40)))
    at = data.draw(st.integers(0, len(value) - 1))
    return value[:at] + chr(ord(value[at]) ^ (1 << data.draw(st.integers(0, 6)))) + value[at + 1 :]


def test_the_original_is_intact(original: Path) -> None:
    verdict = anyio.run(_verify, original)
    assert verdict.intact
    assert verdict.records == RUNS * 2 + 1


@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_any_changed_cell_is_found(original: Path, copies: Path, data: st.DataObject) -> None:
    copy = _copy(original, copies)
    table = data.draw(st.sampled_from(sorted(COLUMNS)))
    column = data.draw(st.sampled_from(COLUMNS[table]))
    with closing(sqlite3.connect(copy / "state.db", isolation_level=None)) as db:
        rowids = [row[0] for row in db.execute(f"SELECT rowid FROM {table}")]  # noqa: S608 - ours
        rowid = data.draw(st.sampled_from(rowids))
        read = f"SELECT {column}, * FROM {table} WHERE rowid = ?"  # noqa: S608 - ours
        value = db.execute(read, (rowid,)).fetchone()[0]
        # Records without a run say nothing in that column.
        assume(value is not None)
        changed = _flipped(value, data)
        assume(changed not in rowids)
        write = f"UPDATE {table} SET {column} = ? WHERE rowid = ?"  # noqa: S608 - ours
        db.execute(write, (changed, rowid))
    verdict = anyio.run(_verify, copy)
    assert not verdict.intact
    if table == "audit":
        assert rowid in {finding.seq for finding in verdict.findings}


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_any_removed_row_is_found(original: Path, copies: Path, data: st.DataObject) -> None:
    copy = _copy(original, copies)
    with closing(sqlite3.connect(copy / "state.db", isolation_level=None)) as db:
        seqs = [row[0] for row in db.execute("SELECT seq FROM audit")]
        seq = data.draw(st.sampled_from(["head", *seqs]))
        if seq == "head":
            db.execute("DELETE FROM audit_head")
        else:
            db.execute("DELETE FROM audit WHERE seq = ?", (seq,))
    verdict = anyio.run(_verify, copy)
    assert not verdict.intact
    if seq != "head":
        assert seq in {finding.seq for finding in verdict.findings}


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_changed_byte_of_the_anchor_is_found(
    original: Path, copies: Path, data: st.DataObject
) -> None:
    copy = _copy(original, copies)
    anchor = copy / "audit" / "anchor.json"
    before = anchor.read_bytes()
    match data.draw(st.sampled_from(["flip", "cut", "remove"])):
        case "flip":
            at = data.draw(st.integers(0, len(before) - 1))
            mask = 1 << data.draw(st.integers(0, 7))
            anchor.write_bytes(before[:at] + bytes([before[at] ^ mask]) + before[at + 1 :])
        case "cut":
            anchor.write_bytes(before[: data.draw(st.integers(0, len(before) - 1))])
        case _:
            anchor.unlink()
    assert not anyio.run(_verify, copy).intact


def test_a_database_put_back_from_an_older_copy_is_found(original: Path, copies: Path) -> None:
    copy = _copy(original, copies)
    older = (copy / "state.db").read_bytes()

    async def go_on() -> None:
        async with opened(copy) as (_, log):
            await complete(log)
            await log.make_durable()

    anyio.run(go_on)
    (copy / "state.db").write_bytes(older)
    verdict = anyio.run(_verify, copy)
    assert {finding.flaw.value for finding in verdict.findings} == {"truncated"}
    # Going on makes it a record of its own, which no later verification overlooks.
    anyio.run(go_on)
    verdict = anyio.run(_verify, copy)
    assert [found.reason for found in verdict.breaks] == ["rolled_back"]


@pytest.mark.parametrize("lost", ["state.db", "audit/anchor.json", "audit/key.pem"])
def test_what_was_taken_away_becomes_a_break(original: Path, copies: Path, lost: str) -> None:
    copy = _copy(original, copies)
    (copy / lost).unlink()
    assert not anyio.run(_verify, copy).intact

    async def go_on() -> None:
        async with opened(copy) as (_, log):
            await complete(log)
            await log.make_durable()

    anyio.run(go_on)
    anyio.run(go_on)
    verdict = anyio.run(_verify, copy)
    assert verdict.intact, verdict.findings
    expected = {
        "state.db": ["database_rebuilt"],
        "audit/anchor.json": ["anchor_missing"],
        "audit/key.pem": ["key_replaced"],
    }
    assert [found.reason for found in verdict.breaks] == expected[lost]
