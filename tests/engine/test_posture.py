"""The promise is kept on real engines, and each part of it is seen to be missed when it is broken."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import replace

import anyio
import pytest
from subjects import Subject

from sandboxrun.engine.hardening import LaunchPlan, harden
from sandboxrun.engine.init_volume import InitVolume, ensure
from sandboxrun.engine.posture_compare import compare
from sandboxrun.engine.posture_promise import promised_posture
from sandboxrun.engine.protocol import EngineKind
from sandboxrun.engine.sandbox import open_sandbox
from sandboxrun.engine.spec import ContainerSpec, TmpfsMount, Ulimit, VolumeMount
from sandboxrun.init.binary import packaged_binary
from sandboxrun.init.posture import Posture
from sandboxrun.init.request import InitRequest
from sandboxrun.init.session import Output
from sandboxrun.model.limits import Limits

pytestmark = [pytest.mark.anyio, pytest.mark.engine]


@pytest.fixture
def anyio_backend(which: str) -> str:
    return which.split("-")[1]


async def hardened(subject: Subject, **changes: object) -> ContainerSpec:
    binary = packaged_binary(subject.info.architecture).content
    init = await ensure(subject.engine, subject.image.id, binary, subject.labels)
    workspace = await subject.engine.create_volume(subject.volume())
    plan = LaunchPlan(
        name=subject.name(),
        engine=subject.info,
        image=subject.image,
        limits=Limits(memory_bytes=128 << 20, cpus=0.5, pids=64),
        uid=2_000_000 + secrets.randbelow(4096),
        workspace=workspace.name,
        read_only=False,
        init=init,
        labels=subject.labels,
        runtime=subject.runtime,
    )
    return harden(replace(plan, **changes))  # type: ignore[arg-type]


async def posture(subject: Subject, spec: ContainerSpec) -> Posture:
    async with open_sandbox(subject.engine, spec) as sandbox:
        return await sandbox.start()


@pytest.mark.parametrize("read_only", [False, True])
async def test_the_promise_is_kept(subject: Subject, read_only: bool) -> None:
    spec = await hardened(subject, read_only=read_only)
    assert compare(promised_posture(spec, subject.info), await posture(subject, spec)) == []


async def test_a_pause_container_lends_its_network(subject: Subject) -> None:
    pause = await subject.engine.create(subject.spec("wait"))
    await subject.engine.start(pause)
    spec = await hardened(subject, network=f"container:{pause}")
    assert compare(promised_posture(spec, subject.info), await posture(subject, spec)) == []


async def test_a_command_runs_in_it(subject: Subject) -> None:
    spec = await hardened(subject)
    script = b"id -u; cat /etc/resolv.conf; cat /etc/hostname; echo x > /tmp/a && cat /tmp/a; ls /proc/interrupts; cat /proc/interrupts; echo y > /dev/shm/b && cat /dev/shm/b; touch /x /etc/x /.sandboxrun/x 2>/dev/null || echo refused; env"
    request = InitRequest(script=script, cwd=b"/", deadline_ms=10_000, env=((b"PATH", b"/bin"),))
    output: list[Output] = []
    async with open_sandbox(subject.engine, spec) as sandbox:
        await sandbox.start()
        await sandbox.run(request, None, output.append)
        await sandbox.finish(output.append)
        assert sandbox.is_over
        assert await sandbox.contradiction() is None
        assert sandbox.state is not None
    text = b"".join(each.data for each in output).decode()
    uid = spec.user.partition(":")[0]
    assert text.splitlines()[:6] == [uid, "sandbox", "x", "/proc/interrupts", "y", "refused"]
    assert "LEFTOVER" not in text
    assert "HOSTNAME" not in text


CHANGES: list[tuple[str, Callable[[ContainerSpec], ContainerSpec], str]] = [
    ("pids", lambda s: replace(s, pids=s.pids + 1), "pids limit"),
    ("memory", lambda s: replace(s, memory_bytes=s.memory_bytes * 2), "memory limit"),
    ("cpu", lambda s: replace(s, nano_cpus=s.nano_cpus * 2), "CPU limit"),
    ("user", lambda s: replace(s, user="0:0"), "uid"),
    ("nofile", lambda s: replace(s, ulimits=(Ulimit("nofile", 777), *s.ulimits[:-1])), "rlimit nofile"),
    ("hostname", lambda s: replace(s, hostname="other"), "hostname"),
    ("workspace", lambda s: replace(s, volumes=(s.volumes[0], replace(s.volumes[1], read_only=True))), "mount /workspace"),
    ("extra volume", lambda s: replace(s, volumes=(*s.volumes, replace(s.volumes[1], target="/more"))), "mount /more"),
    ("tmp size", lambda s: replace(s, tmpfs=(replace(s.tmpfs[0], size_bytes=1 << 20), *s.tmpfs[1:])), "mount /tmp"),
    ("tmp inodes", lambda s: replace(s, tmpfs=(replace(s.tmpfs[0], inodes=99), *s.tmpfs[1:])), "mount /tmp"),
    ("extra tmpfs", lambda s: replace(s, tmpfs=(*s.tmpfs, TmpfsMount("/more", 1 << 20, 9))), "mount /more"),
    ("masks", lambda s: replace(s, masked_paths=("/proc/kcore",)), "mount /proc/cmdline"),
    ("cgroup tmpfs", lambda s: replace(s, read_only_paths=("/proc/sys",)), "mount /sys/fs/cgroup"),
    ("env", lambda s: replace(s, env=(("SECRET", "x"),)), "environment"),
    ("resolver", lambda s: replace(s, files=s.files[:-1]), "mount /etc/resolv.conf"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "what"), [each[1:] for each in CHANGES], ids=[each[0] for each in CHANGES]
)
async def test_what_is_not_as_promised_is_noticed(
    subject: Subject, change: Callable[[ContainerSpec], ContainerSpec], what: str
) -> None:
    spec = await hardened(subject)
    promise = promised_posture(spec, subject.info)
    found = compare(promise, await posture(subject, change(spec)))
    if what == "mount /etc/resolv.conf" and subject.info.kind is EngineKind.DOCKER:
        # Docker mounts its own there, read-only too; that it is ours is not to be seen.
        assert found == []
    elif what == "mount /sys/fs/cgroup" and subject.info.kind is EngineKind.PODMAN:
        # It takes no paths to mount read-only.
        assert found == []
    else:
        assert what in {each.what for each in found}


@pytest.mark.parametrize("profile", ["unconfined", '{"defaultAction":"SCMP_ACT_ALLOW"}'])
async def test_another_filter_is_noticed(subject: Subject, profile: str) -> None:
    spec = await hardened(subject)
    promise = promised_posture(spec, subject.info)
    if subject.info.kind is EngineKind.PODMAN and profile != "unconfined":
        pytest.skip("takes the profile from the init's volume")
    other = replace(spec, seccomp=profile, seccomp_file=profile)
    found = {each.what for each in compare(promise, await posture(subject, other))}
    assert ("seccomp" in found) == (profile == "unconfined")
    assert {"system call clone3", "system call io_uring_setup", "system call vsock"} <= found


async def test_an_images_volume_is_covered(subject: Subject) -> None:
    image = replace(subject.image, volumes=("/data",))
    spec = await hardened(subject, image=image)
    assert compare(promised_posture(spec, subject.info), await posture(subject, spec)) == []
    bare = replace(
        spec,
        volumes=(*spec.volumes, VolumeMount(spec.volumes[1].volume, "/data2", read_only=False)),
    )
    assert compare(promised_posture(spec, subject.info), await posture(subject, bare)) != []


async def test_installers_may_race(subject: Subject) -> None:
    binary = secrets.token_bytes(100_000)
    found: list[InitVolume] = []

    async def install() -> None:
        found.append(await ensure(subject.engine, subject.image.id, binary, subject.labels))

    async with anyio.create_task_group() as group:
        for _ in range(4):
            group.start_soon(install)
    assert len(set(found)) == 1
    assert len(found) == 4
    assert await ensure(subject.engine, subject.image.id, binary, (), known=found[0]) == found[0]
