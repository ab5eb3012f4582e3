"""Opening the audit answers every state of database, head, anchor and key; it never gives up."""

from __future__ import annotations

from dataclasses import replace

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st
from tests.state_samples import intent

from sandboxrun.audit.continuity import Surroundings, judge
from sandboxrun.audit.digest import canonical
from sandboxrun.audit.record import BreakReason, Instant, Record, genesis, seal
from sandboxrun.audit.signing import Head, SignedHead, Signer

AT = Instant("2026-01-01T00:00:00.000000Z", 1234)
START = genesis("inst-test")


def _signer(seed: bytes) -> Signer:
    private = Ed25519PrivateKey.from_private_bytes(seed * 32)
    return Signer(private, private.public_key().public_bytes_raw().hex())


OURS, OTHER = _signer(b"a"), _signer(b"b")


def _chain(count: int) -> list[Record]:
    records: list[Record] = []
    previous = START
    for seq in range(1, count + 1):
        record = seal(intent(f"run-{seq}"), seq=seq, previous=previous, at=AT)
        records.append(record)
        previous = record.hash
    return records


CHAIN = _chain(5)


def _head(signer: Signer, count: int) -> SignedHead:
    return signer.sign(
        Head(
            installation="inst-test",
            key=signer.key,
            first_seq=1,
            first_previous=START,
            seq=count,
            hash=CHAIN[count - 1].hash if count else START,
            time=AT.time,
        )
    )


heads = st.one_of(
    st.none(),
    st.builds(_head, st.sampled_from([OURS, OTHER]), st.integers(0, 5)),
    st.builds(SignedHead, st.text(), st.text()),
    st.builds(
        lambda count, text: replace(_head(OURS, count), signature=text),
        st.integers(0, 5),
        st.text(),
    ),
)


@given(heads, heads, st.integers(0, 5), st.sampled_from([OURS, OTHER]))
def test_every_state_is_answered(
    head: SignedHead | None, anchor: SignedHead | None, count: int, signer: Signer
) -> None:
    records = CHAIN[:count]
    around = Surroundings(
        installation="inst-test",
        key=signer.key,
        head=head,
        anchor=anchor,
        first=records[0] if records else None,
        last=records[-1] if records else None,
        at_anchor=None,
    )
    going_on = judge(around)
    # What comes next has room: it never lands on a record that is there.
    assert going_on.seq >= count
    if going_on.found is not None:
        canonical(going_on.found.model_dump(mode="json"))
    whole = head == _head(signer, count)
    if whole and anchor is None and count > 0:
        assert going_on.found is not None
        assert going_on.found.reason is BreakReason.ANCHOR_MISSING


@given(st.integers(0, 5), st.integers(0, 5))
def test_what_fits_simply_goes_on(count: int, anchored: int) -> None:
    records = CHAIN[:count]
    around = Surroundings(
        installation="inst-test",
        key=OURS.key,
        head=_head(OURS, count),
        anchor=_head(OURS, anchored),
        first=records[0] if records else None,
        last=records[-1] if records else None,
        at_anchor=CHAIN[anchored - 1] if 0 < anchored <= count else None,
    )
    going_on = judge(around)
    assert going_on.seq == count
    if anchored <= count:
        assert going_on.found is None
    else:
        assert going_on.found is not None
        assert going_on.found.reason is BreakReason.ROLLED_BACK
