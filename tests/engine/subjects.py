"""Engines to test against: the fake, and real ones; and what tests do with them.

A real engine is the one SANDBOXRUN_TEST_DOCKER or SANDBOXRUN_TEST_PODMAN names, else the managed
one of SANDBOXRUN_TEST_STATE (default: build/state), which is brought up when this is root and the
daemon is installed.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

import anyio
import anyio.lowlevel

from sandboxrun.engine.fake_process import FakeProcess
from sandboxrun.engine.protocol import Engine, EngineInfo, ImageInfo
from sandboxrun.engine.spec import ContainerSpec, TmpfsMount, Ulimit, VolumeSpec

MIB = 1024 * 1024
PROGRAM = "sandboxrun.test.program"
OWNER = "sandboxrun.test.owner"


async def _cat(process: FakeProcess) -> int:
    while data := await process.read():
        process.write(data)
    return 0


async def _speak(process: FakeProcess) -> int:
    process.write(b"hello")
    process.write_error(b"oops")
    return 3


async def _tail(process: FakeProcess) -> int:
    process.write(bytes(100_000) + b"END")
    return 0


async def _seven(process: FakeProcess) -> int:
    del process
    await anyio.lowlevel.checkpoint()
    return 7


async def _wait(process: FakeProcess) -> int:
    del process
    await anyio.sleep_forever()
    return 0


@dataclass(frozen=True)
class Program:
    script: str
    fake: Callable[[FakeProcess], Awaitable[int]]


async def _flood(process: FakeProcess) -> int:
    process.write(bytes(8 * MIB))
    await anyio.sleep_forever()
    return 0


PROGRAMS = {
    "cat": Program("cat", _cat),
    "speak": Program("printf hello; printf oops >&2; exit 3", _speak),
    "tail": Program("head -c 100000 /dev/zero; printf END", _tail),
    "seven": Program("exit 7", _seven),
    "flood": Program("cat /dev/zero", _flood),
    "wait": Program("sleep 600", _wait),
}


@dataclass
class Subject:
    """One engine, an image it has, and everything the test made on it."""

    engine: Engine
    image: ImageInfo
    info: EngineInfo
    runtime: str | None
    owner: str = field(default_factory=lambda: secrets.token_hex(6))

    def name(self) -> str:
        return f"test-{secrets.token_hex(8)}"

    @property
    def labels(self) -> tuple[tuple[str, str], ...]:
        return ((OWNER, self.owner),)

    def spec(self, program: str, **changes: object) -> ContainerSpec:
        spec = ContainerSpec(
            name=self.name(),
            image=self.image.id,
            entrypoint=("/bin/sh", "-c", PROGRAMS[program].script),
            user="2000000:2000000",
            hostname="sandbox",
            network="none",
            memory_bytes=64 * MIB,
            nano_cpus=1_000_000_000,
            pids=64,
            shm_bytes=MIB,
            seccomp='{"defaultAction":"SCMP_ACT_ALLOW"}',
            seccomp_file="unconfined",
            labels=(*self.labels, (PROGRAM, program)),
            env=(("PATH", "/bin"),),
            tmpfs=(TmpfsMount("/tmp", MIB, 64),),
            ulimits=(Ulimit("nofile", 256), Ulimit("core", 0)),
            runtime=self.runtime,
        )
        return replace(spec, **changes)  # type: ignore[arg-type]

    def volume(self, **options: str) -> VolumeSpec:
        return VolumeSpec(self.name(), self.labels, tuple(options.items()))

    async def clean(self) -> None:
        labels = {OWNER: self.owner}
        for container in await self.engine.list_containers(labels):
            await self.engine.remove(container.id, timeout_seconds=30)
        for volume in await self.engine.list_volumes(labels):
            await self.engine.remove_volume(volume.name)


async def play(process: FakeProcess) -> int:
    return await PROGRAMS[dict(process.spec.labels)[PROGRAM]].fake(process)
