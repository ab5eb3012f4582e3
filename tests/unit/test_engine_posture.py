"""Every single way a posture can be other than promised is noticed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from test_engine_spec import DOCKER_V1, DOCKER_V2, PODMAN_V1, plan

from sandboxrun.engine.fake_posture import encode_posture, posture_payload, posture_sections
from sandboxrun.engine.fake_store import FAKE_INFO
from sandboxrun.engine.hardening import harden
from sandboxrun.engine.posture_compare import compare, require
from sandboxrun.engine.posture_promise import Promise, promised_posture
from sandboxrun.engine.protocol import EngineInfo
from sandboxrun.errors import PostureError
from sandboxrun.init.posture import Capabilities, Descriptor, Ids, Posture, Unlimited, parse_posture
from sandboxrun.init.proc import Mount, Rlimit

ENGINES = [DOCKER_V1, DOCKER_V2, PODMAN_V1, FAKE_INFO]


def kept(info: EngineInfo = DOCKER_V1) -> tuple[Promise, Posture]:
    spec = harden(plan(engine=info))
    return promised_posture(spec, info), parse_posture(posture_payload(spec, info))


@pytest.mark.parametrize("info", ENGINES)
def test_a_kept_promise_has_no_deviation(info: EngineInfo) -> None:
    promise, posture = kept(info)
    assert compare(promise, posture) == []
    require(promise, posture)


def mount(posture: Posture, point: str, **changes: object) -> Posture:
    changed = tuple(
        replace(each, **changes) if each.point == point else each  # type: ignore[arg-type]
        for each in posture.mounts
    )
    assert changed != posture.mounts
    return replace(posture, mounts=changed)


def added(posture: Posture, point: str) -> Posture:
    extra = Mount(
        point=point,
        root="/",
        fstype="ext4",
        source="/dev/sda",
        options=frozenset({"ro"}),
        super_options=frozenset({"ro"}),
        propagation=(),
    )
    return replace(posture, mounts=(*posture.mounts, extra))


def dropped(posture: Posture, point: str) -> Posture:
    left = tuple(each for each in posture.mounts if each.point != point)
    assert left != posture.mounts
    return replace(posture, mounts=left)


def limited(posture: Posture, name: str, soft: int | None, hard: int | None) -> Posture:
    others = tuple(each for each in posture.rlimits if each.name != name)
    return replace(posture, rlimits=(*others, Rlimit(name=name, soft=soft, hard=hard)))


def capable(posture: Posture, which: str) -> Posture:
    nothing = {"inheritable": 0, "permitted": 0, "effective": 0, "bounding": 0, "ambient": 0}
    return replace(posture, capabilities=Capabilities(**(nothing | {which: 1})))


def cgroup(posture: Posture, **changes: object) -> Posture:
    return replace(posture, cgroup=replace(posture.cgroup, **changes))  # type: ignore[arg-type]


RW = frozenset({"rw", "nosuid", "nodev", "noexec"})
DEVIATIONS: list[tuple[str, Callable[[Posture], Posture]]] = [
    *(
        (f"cap {name}", lambda p, name=name: capable(p, name))
        for name in ("inheritable", "permitted", "effective", "bounding", "ambient")
    ),
    ("new privileges", lambda p: replace(p, no_new_privs=False)),
    ("no seccomp", lambda p: replace(p, seccomp_mode=0)),
    ("another filter", lambda p: replace(p, calls=(("clone3", 38), ("io_uring_setup", 22)))),
    ("a filter nobody tried", lambda p: replace(p, calls=())),
    ("a hole in the filter", lambda p: replace(p, calls=(*p.calls[:-1], ("vsock", 0)))),
    ("no filter", lambda p: replace(p, seccomp_filters=0)),
    ("root", lambda p: replace(p, uids=Ids(real=0, effective=0, saved=0, filesystem=0))),
    ("saved root", lambda p: replace(p, uids=replace(p.uids, saved=0))),
    ("another group", lambda p: replace(p, gids=replace(p.gids, real=0))),
    ("a supplementary group", lambda p: replace(p, groups=(2_000_123, 0))),
    ("memory", lambda p: cgroup(p, memory_bytes=Unlimited.UNLIMITED)),
    ("memory not readable", lambda p: cgroup(p, memory_bytes=None)),
    ("swap", lambda p: cgroup(p, swap_bytes=Unlimited.UNLIMITED)),
    ("pids", lambda p: cgroup(p, pids=Unlimited.UNLIMITED)),
    ("cpu", lambda p: cgroup(p, cpu_quota_us=Unlimited.UNLIMITED)),
    ("cpu period", lambda p: cgroup(p, cpu_period_us=50_000)),
    ("cpu not readable", lambda p: cgroup(p, cpu_period_us=None)),
    ("nofile", lambda p: limited(p, "nofile", 4096, 8192)),
    ("fsize", lambda p: limited(p, "fsize", None, None)),
    ("core", lambda p: replace(p, rlimits=tuple(r for r in p.rlimits if r.name != "core"))),
    ("writable root", lambda p: mount(p, "/", options=frozenset({"rw"}))),
    ("writable init", lambda p: mount(p, "/.sandboxrun", options=frozenset({"rw"}))),
    ("workspace read-only", lambda p: mount(p, "/workspace", options=frozenset({"ro"}))),
    ("no workspace", lambda p: dropped(p, "/workspace")),
    ("unmasked", lambda p: dropped(p, "/proc/interrupts")),
    ("masked with contents", lambda p: mount(p, "/proc/keys", root="/keys", fstype="proc")),
    ("writable /proc/sys", lambda p: mount(p, "/proc/sys", options=RW)),
    ("no /proc/sys", lambda p: dropped(p, "/proc/sys")),
    ("writable /sys", lambda p: mount(p, "/sys", options=RW)),
    ("unsized /tmp", lambda p: mount(p, "/tmp", super_options=frozenset({"rw"}))),
    ("no inode limit", lambda p: mount(p, "/tmp", super_options=frozenset({"rw", "size=524288k"}))),
    ("suid /tmp", lambda p: mount(p, "/tmp", options=frozenset({"rw", "nodev"}))),
    ("/tmp on disk", lambda p: mount(p, "/tmp", fstype="ext4")),
    ("exec /dev/shm", lambda p: mount(p, "/dev/shm", options=frozenset({"rw", "nosuid", "nodev"}))),
    ("the engine's resolver", lambda p: mount(p, "/etc/resolv.conf", options=frozenset({"rw"}))),
    ("a socket", lambda p: added(p, "/var/run/docker.sock")),
    ("a host directory", lambda p: added(p, "/host")),
    ("a mount below the workspace", lambda p: added(p, "/workspace/x")),
    ("shared", lambda p: mount(p, "/workspace", propagation=("shared:5",))),
    ("a writable directory of cgroups", lambda p: mount(p, "/sys/fs/cgroup", options=RW)),
    ("a writable cgroup", lambda p: added(p, "/sys/fs/cgroup/memory")),
    (
        "a leaked descriptor",
        lambda p: replace(
            p, descriptors=(*p.descriptors, Descriptor(number=7, target="/", flags=0))
        ),
    ),
    ("a closed descriptor", lambda p: replace(p, descriptors=p.descriptors[:2])),
    (
        "a terminal",
        lambda p: replace(
            p, descriptors=(Descriptor(number=0, target="/dev/pts/0", flags=2), *p.descriptors[1:])
        ),
    ),
    ("the host's name", lambda p: replace(p, hostname="host")),
    ("environment", lambda p: replace(p, env_names=("AWS_SECRET",))),
    ("the host's cgroup", lambda p: replace(p, cgroup_paths=("0::/system.slice/x",))),
]


@pytest.mark.parametrize(
    "change", [each[1] for each in DEVIATIONS], ids=[each[0] for each in DEVIATIONS]
)
def test_each_deviation_is_found(change: Callable[[Posture], Posture]) -> None:
    promise, posture = kept()
    assert len(compare(promise, change(posture))) >= 1
    with pytest.raises(PostureError, match="promised"):
        require(promise, change(posture))


def test_podman_4_on_version_1_has_the_hosts_cgroup_namespace() -> None:
    promise, posture = kept(PODMAN_V1)
    shown = replace(posture, cgroup_paths=("4:memory:/libpod_parent/x",))
    assert compare(promise, shown) == []


def test_a_masked_path_that_is_hidden_again_is_still_hidden() -> None:
    promise, posture = kept()
    twice = replace(
        posture,
        mounts=(*posture.mounts, *[each for each in posture.mounts if each.point == "/proc/keys"]),
    )
    assert compare(promise, twice) == []


def test_sections_can_be_changed() -> None:
    promise, _ = kept()
    sections = posture_sections(promise) | {"hostname": "elsewhere"}
    posture = parse_posture(encode_posture(sections))
    assert [each.what for each in compare(promise, posture)] == ["hostname"]
