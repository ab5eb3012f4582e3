"""Any single change of the chain, or of what was signed about it, is found and named.

The chain is built by the same sealing as the real one; what is done to it is drawn.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.state_samples import intent, receipt

from sandboxrun.audit.digest import sha256
from sandboxrun.audit.record import Entry, Instant, Record, genesis, run_of, seal
from sandboxrun.audit.signing import Head, SignedHead, Signer
from sandboxrun.audit.verdict import Flaw, Observed, Statements, Verdict
from sandboxrun.audit.verify import verify

AT = Instant("2026-01-01T00:00:00.000000Z", 1234)
START = genesis("inst-test")


def _signer() -> Signer:
    private = Ed25519PrivateKey.from_private_bytes(b"k" * 32)
    return Signer(private, private.public_key().public_bytes_raw().hex())


SIGNER = _signer()


@dataclass(frozen=True)
class Audit:
    """A whole audit, and what each run's stored outcome is."""

    records: tuple[Record, ...]
    head: SignedHead | None
    anchor: SignedHead | None
    outcomes: tuple[tuple[str, str], ...]

    def verdict(self, key: str = SIGNER.key) -> Verdict:
        outcomes = dict(self.outcomes)
        observed = [
            Observed(
                record, outcomes.get(record.run_id or "") if record.kind == "receipt" else None
            )
            for record in sorted(self.records, key=lambda record: record.seq)
        ]
        return verify(observed, Statements(self.head, self.anchor, key))


def signed(records: tuple[Record, ...], first_seq: int = 1, previous: str = START) -> SignedHead:
    seq, last = (records[-1].seq, records[-1].hash) if records else (first_seq - 1, previous)
    return SIGNER.sign(
        Head(
            installation="inst-test",
            key=SIGNER.key,
            first_seq=first_seq,
            first_previous=previous,
            seq=seq,
            hash=last,
            time=AT.time,
        )
    )


def chained(entries: list[Entry], first_seq: int = 1, previous: str = START) -> tuple[Record, ...]:
    records: list[Record] = []
    for number, entry in enumerate(entries):
        record = seal(entry, seq=first_seq + number, previous=previous, at=AT)
        records.append(record)
        previous = record.hash
    return tuple(records)


@st.composite
def audits(draw: st.DrawFn, least: int = 1) -> Audit:
    """Draw runs whose intents and receipts lie between each other's."""
    runs = draw(st.integers(max(1, least), 6))
    steps = draw(st.permutations([run for run in range(runs) for _ in range(2)]))
    entries: list[Entry] = []
    begun: set[int] = set()
    for run in steps:
        run_id = f"run-{run}"
        if run in begun:
            entries.append(receipt(run_id, f"outcome {run}"))
        elif draw(st.booleans()):
            entries.append(intent(run_id))
        else:
            entries.append(receipt(run_id, f"outcome {run}", started=False, status="refused"))
            continue
        begun.add(run)
    entries = _once(entries)
    records = chained(entries)
    anchored = draw(st.integers(0, len(records)))
    outcomes = tuple((f"run-{run}", sha256(f"outcome {run}".encode())) for run in range(runs))
    return Audit(records, signed(records), signed(records[:anchored]), outcomes)


def _once(entries: list[Entry]) -> list[Entry]:
    kept: list[Entry] = []
    ended: set[str] = set()
    for entry in entries:
        run_id = run_of(entry) or ""
        if run_id in ended:
            continue
        if entry.kind == "receipt":
            ended.add(run_id)
        kept.append(entry)
    return kept


def with_record(audit: Audit, index: int, record: Record) -> Audit:
    records = list(audit.records)
    records[index] = record
    return replace(audit, records=tuple(records))


def named(verdict: Verdict) -> set[int | None]:
    return {finding.seq for finding in verdict.findings}


@given(audits())
def test_what_nobody_touched_is_intact(audit: Audit) -> None:
    verdict = audit.verdict()
    assert verdict.intact, verdict.findings
    assert (verdict.records, verdict.last_seq) == (len(audit.records), len(audit.records))


def test_an_audit_without_records_is_intact() -> None:
    assert Audit((), signed(()), signed(()), ()).verdict().intact
    assert Audit((), None, None, ()).verdict().intact


@settings(max_examples=300, deadline=None)
@given(audits(), st.data())
def test_a_flipped_bit_in_any_column_is_found_and_named(audit: Audit, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(audit.records) - 1))
    column = data.draw(st.sampled_from(["text", "hash", "run_id", "kind"]))
    record = audit.records[index]
    value = getattr(record, column)
    at = data.draw(st.integers(0, len(value) - 1))
    flipped = chr(ord(value[at]) ^ (1 << data.draw(st.integers(0, 6))))
    changed = replace(record, **{column: value[:at] + flipped + value[at + 1 :]})
    verdict = with_record(audit, index, changed).verdict()
    assert named(verdict) == {record.seq}, verdict.findings
    assert Flaw.CHANGED in {finding.flaw for finding in verdict.findings}


@given(audits(least=2), st.data())
def test_a_removed_record_is_named(audit: Audit, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(audit.records) - 1))
    gone = audit.records[index]
    records = audit.records[:index] + audit.records[index + 1 :]
    verdict = replace(audit, records=records).verdict()
    assert gone.seq in named(verdict)
    wanted = Flaw.TRUNCATED if index == len(records) else Flaw.MISSING
    assert wanted in {finding.flaw for finding in verdict.findings}


@given(audits(least=2), st.data())
def test_a_cut_off_end_is_named(audit: Audit, data: st.DataObject) -> None:
    kept = data.draw(st.integers(0, len(audit.records) - 1))
    verdict = replace(audit, records=audit.records[:kept]).verdict()
    assert (kept + 1, Flaw.TRUNCATED) in {(one.seq, one.flaw) for one in verdict.findings}


@given(audits(least=2), st.data())
def test_an_end_cut_off_with_an_old_head_put_back_is_named_by_the_anchor(
    audit: Audit, data: st.DataObject
) -> None:
    kept = data.draw(st.integers(0, len(audit.records) - 1))
    records = audit.records[:kept]
    back = replace(audit, records=records, head=signed(records), anchor=signed(audit.records))
    assert (kept + 1, Flaw.TRUNCATED) in {(one.seq, one.flaw) for one in back.verdict().findings}


@given(audits(), st.data())
def test_an_inserted_record_is_named(audit: Audit, data: st.DataObject) -> None:
    last = len(audit.records)
    seq = data.draw(st.one_of(st.integers(-3, 0), st.integers(last + 1, last + 4)))
    forged = data.draw(
        st.sampled_from(
            [
                *audit.records,
                seal(intent("run-x"), seq=last + 1, previous=audit.records[-1].hash, at=AT),
            ]
        )
    )
    verdict = replace(audit, records=(*audit.records, replace(forged, seq=seq))).verdict()
    assert (seq, Flaw.INSERTED) in {(one.seq, one.flaw) for one in verdict.findings}


@given(audits(least=2), st.data())
def test_two_records_that_changed_places_are_named(audit: Audit, data: st.DataObject) -> None:
    pick = st.integers(0, len(audit.records) - 1)
    one, other = data.draw(pick), data.draw(pick)
    assume(one != other)
    first, second = audit.records[one], audit.records[other]
    swapped = with_record(audit, one, replace(second, seq=first.seq))
    swapped = with_record(swapped, other, replace(first, seq=second.seq))
    found = {(each.seq, each.flaw) for each in swapped.verdict().findings}
    assert {(first.seq, Flaw.MOVED), (second.seq, Flaw.MOVED)} <= found


@given(audits(), st.data())
def test_a_record_moved_to_another_number_is_named(audit: Audit, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(audit.records) - 1))
    record = audit.records[index]
    seq = data.draw(st.integers(-2, len(audit.records) + 3))
    assume(seq not in {each.seq for each in audit.records})
    verdict = with_record(audit, index, replace(record, seq=seq)).verdict()
    assert record.seq in named(verdict)


@given(audits(), st.data())
def test_a_rewritten_record_with_a_fitting_hash_is_named(audit: Audit, data: st.DataObject) -> None:
    """The forger knows how records are sealed, and has no key."""
    index = data.draw(st.integers(0, len(audit.records) - 1))
    record = audit.records[index]
    body = json.loads(record.text)
    change = data.draw(st.sampled_from(["time", "entry", "previous", "uptime_ms"]))
    if change == "time":
        body["time"] = "2027-01-01T00:00:00.000000Z"
    elif change == "entry":
        body["entry"]["principal"] = "somebody else"
    elif change == "previous":
        body["previous"] = sha256(b"another")
    else:
        body["uptime_ms"] += 1
    text = json.dumps(body, separators=(",", ":"), sort_keys=True)
    forged = replace(record, text=text, hash=sha256(text.encode()))
    verdict = with_record(audit, index, forged).verdict()
    assert named(verdict) == {record.seq}, verdict.findings


@given(audits(), st.data())
def test_a_rewritten_and_rechained_end_is_found(audit: Audit, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(audit.records) - 1))
    kept = audit.records[:index]
    previous = kept[-1].hash if kept else START
    count = len(audit.records) - index
    entries: list[Entry] = [intent(f"run-forged-{number}") for number in range(count)]
    forged = chained(entries, first_seq=index + 1, previous=previous)
    verdict = replace(audit, records=kept + forged).verdict()
    assert len(audit.records) in named(verdict)


@given(audits(), st.data())
def test_a_changed_statement_is_found(audit: Audit, data: st.DataObject) -> None:
    which = data.draw(st.sampled_from(["head", "anchor"]))
    statement = getattr(audit, which)
    part = data.draw(st.sampled_from(["text", "signature"]))
    value = getattr(statement, part)
    at = data.draw(st.integers(0, len(value) - 1))
    flipped = chr(ord(value[at]) ^ (1 << data.draw(st.integers(0, 6))))
    changed = replace(statement, **{part: value[:at] + flipped + value[at + 1 :]})
    verdict = replace(audit, **{which: changed}).verdict()
    assert Flaw.UNSIGNED in {finding.flaw for finding in verdict.findings}


@given(audits(), st.sampled_from(["head", "anchor"]))
def test_a_missing_statement_is_found(audit: Audit, which: str) -> None:
    less = replace(audit, head=None) if which == "head" else replace(audit, anchor=None)
    verdict = less.verdict()
    assert Flaw.UNSIGNED in {finding.flaw for finding in verdict.findings}


@given(audits(least=2), st.data())
def test_an_older_head_put_back_is_found(audit: Audit, data: st.DataObject) -> None:
    kept = data.draw(st.integers(0, len(audit.records) - 1))
    verdict = replace(audit, head=signed(audit.records[:kept])).verdict()
    assert (kept + 1, Flaw.INSERTED) in {(one.seq, one.flaw) for one in verdict.findings}


@given(audits())
def test_another_key_is_not_believed(audit: Audit) -> None:
    assert not audit.verdict(key="00" * 32).intact
    assert not audit.verdict(key="").intact


@given(audits(), st.data())
def test_a_changed_outcome_is_named(audit: Audit, data: st.DataObject) -> None:
    receipts = [record for record in audit.records if record.kind == "receipt"]
    assume(receipts)
    record = data.draw(st.sampled_from(receipts))
    outcomes = tuple(
        (run_id, sha256(b"forged") if run_id == record.run_id else digest)
        for run_id, digest in audit.outcomes
    )
    verdict = replace(audit, outcomes=outcomes).verdict()
    assert {(one.seq, one.flaw) for one in verdict.findings} == {(record.seq, Flaw.OUTCOME_CHANGED)}


def _contradicting(build: Callable[[], list[Entry]]) -> set[tuple[int | None, Flaw]]:
    records = chained(build())
    verdict = Audit(records, signed(records), signed(records), ()).verdict()
    return {(one.seq, one.flaw) for one in verdict.findings}


def test_records_that_hold_but_cannot_be_are_named() -> None:
    second = _contradicting(lambda: [intent("a"), receipt("a", "x"), receipt("a", "y")])
    assert second == {(3, Flaw.CONTRADICTION)}
    unannounced = _contradicting(lambda: [receipt("a", "x")])
    assert unannounced == {(1, Flaw.CONTRADICTION)}
    twice = _contradicting(lambda: [intent("a"), intent("a"), receipt("a", "x")])
    assert twice == {(2, Flaw.CONTRADICTION)}
    assert _contradicting(lambda: [receipt("a", "x", started=False, status="refused")]) == set()


@given(audits(least=2), st.data())
def test_a_pruned_beginning_is_pinned(audit: Audit, data: st.DataObject) -> None:
    cut = data.draw(st.integers(1, len(audit.records)))
    kept = audit.records[cut:]
    head = signed(kept, cut + 1, audit.records[cut - 1].hash)
    anchor = data.draw(st.sampled_from([audit.anchor, head]))
    pruned = replace(audit, records=kept, head=head, anchor=anchor)
    assert pruned.verdict().intact, pruned.verdict().findings
    # What was pruned does not come back, and nothing else can stand in its place.
    back = replace(pruned, records=audit.records[cut - 1 :])
    assert (cut, Flaw.INSERTED) in {(one.seq, one.flaw) for one in back.verdict().findings}
    if len(kept) > 1:
        short = replace(pruned, records=kept[1:])
        assert (cut + 1, Flaw.MISSING) in {(one.seq, one.flaw) for one in short.verdict().findings}
