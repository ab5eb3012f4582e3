"""Which slot serves which run."""

from __future__ import annotations

from dataclasses import fields, replace

from hypothesis import given
from hypothesis import strategies as st

from sandboxrun.model.limits import MIB, Limits
from sandboxrun.policy.authority import PolicyDigests
from sandboxrun.warm.key import SlotKey, usable

names = st.sampled_from(["a", "b", "c"])
digests = st.builds(PolicyDigests, host_policy=names, workspace_policy=st.one_of(st.none(), names))
limits = st.builds(
    Limits,
    cpus=st.sampled_from([0.5, 1.0]),
    memory_bytes=st.sampled_from([64 * MIB, 128 * MIB]),
    pids=st.sampled_from([16, 32]),
)
keys = st.builds(
    SlotKey,
    workspace_id=st.one_of(st.none(), names),
    read_only=st.booleans(),
    image_id=names,
    runtime=st.one_of(st.none(), names),
    limits=limits,
    digests=digests,
)
times = st.floats(min_value=0, max_value=1e6, allow_nan=False)


@given(made=keys, wanted=keys, made_at=times, now=times, life=st.floats(0.1, 1e5))
def test_a_slot_serves_only_what_it_was_made_for(
    made: SlotKey, wanted: SlotKey, made_at: float, now: float, life: float
) -> None:
    if usable(made, made_at, wanted=wanted, now=now, life=life):
        for each in fields(SlotKey):
            assert getattr(made, each.name) == getattr(wanted, each.name)
        assert made_at <= now < made_at + life or now - made_at < life


@given(key=keys, other=digests, made_at=times, life=st.floats(0.1, 1e5))
def test_a_slot_made_before_a_policy_change_is_never_used_after_it(
    key: SlotKey, other: PolicyDigests, made_at: float, life: float
) -> None:
    wanted = replace(key, digests=other)
    fits = usable(key, made_at, wanted=wanted, now=made_at, life=life)
    assert fits == (key.digests == other)


@given(key=keys, made_at=times, waited=st.floats(0, 1e5), life=st.floats(0.1, 1e5))
def test_a_slot_ends_with_its_life(
    key: SlotKey, made_at: float, waited: float, life: float
) -> None:
    now = made_at + waited
    assert usable(key, made_at, wanted=key, now=now, life=life) == (now - made_at < life)
