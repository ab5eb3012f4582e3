"""Deliberately broken containers, made with the plain Docker client.

Here probes have to find open what holds in a sandbox. None of them is privileged in a way that
leaves the machine changed: the probe program changes nothing, and leaves a foreign init alone.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.to_thread

from sandboxrun.checks.attempt import Attempt, Observation, encode_attempts, parse_begun
from sandboxrun.checks.subject import PROGRAM_NAME, Ran, packaged_probe
from sandboxrun.config import DEFAULT_IMAGE

LABEL = "sandboxrun.test=broken"
CAPABILITIES = [
    "AUDIT_CONTROL",
    "AUDIT_READ",
    "BLOCK_SUSPEND",
    "DAC_READ_SEARCH",
    "IPC_LOCK",
    "IPC_OWNER",
    "LEASE",
    "LINUX_IMMUTABLE",
    "MAC_ADMIN",
    "MAC_OVERRIDE",
    "NET_ADMIN",
    "NET_BROADCAST",
    "NET_RAW",
    "SYSLOG",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_MODULE",
    "SYS_NICE",
    "SYS_PACCT",
    "SYS_PTRACE",
    "SYS_RAWIO",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "WAKE_ALARM",
]
UNCONFINED = tuple(
    f"--security-opt={each}" for each in ("seccomp=unconfined", "systempaths=unconfined")
)
HOST_NAMESPACES = ("--network=host", "--pid=host", "--ipc=host", "--uts=host", "--cgroupns=host")
ALL_CAPABILITIES = tuple(f"--cap-add={name}" for name in CAPABILITIES)


@dataclass(frozen=True)
class Docker:
    """The Docker client on one engine."""

    url: str

    def call(
        self, *arguments: str, stdin: bytes = b"", timeout: float = 300
    ) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            ["docker", "-H", self.url, *arguments],
            input=stdin,
            capture_output=True,
            check=False,
            timeout=timeout,
        )

    def probe(
        self,
        attempts: list[Attempt],
        *options: str,
        command: tuple[str, ...] = (f"/probe/{PROGRAM_NAME}",),
    ) -> dict[Attempt, Observation]:
        """Run the probe program in a container made with ``options``."""
        with probe_directory() as directory:
            done = self.call(
                *("run", "--rm", "-i", "--label", LABEL, "-v", f"{directory}:/probe:ro"),
                *options,
                *("--entrypoint", command[0], DEFAULT_IMAGE, *command[1:]),
                stdin=encode_attempts(attempts),
            )
        lines = done.stdout.replace(b"\r\n", b"\n")
        assert lines, done.stderr.decode()
        return dict(zip(attempts, parse_begun(lines, len(attempts), ended="cut"), strict=True))

    def remove_all(self) -> None:
        found = self.call("ps", "-aq", "--filter", f"label={LABEL}").stdout.split()
        for container in found:
            self.call("rm", "-f", container.decode())


@contextmanager
def probe_directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="sandboxrun-probe-") as name:
        directory = Path(name)
        directory.chmod(0o755)
        file = directory / PROGRAM_NAME
        file.write_bytes(packaged_probe("x86_64"))
        file.chmod(0o755)
        yield directory


class OneContainer:
    """What many tools do: one container that lives on, and every command in it."""

    def __init__(self, docker: Docker, container: str) -> None:
        self._docker = docker
        self._container = container

    async def run_probe(self, request: bytes, *, timeout_seconds: float) -> Ran:
        """See `sandboxrun.checks.subject.Subject`."""
        arguments = ("exec", "-i", "-w", "/work", self._container, f"/probe/{PROGRAM_NAME}")
        try:
            done = await anyio.to_thread.run_sync(
                lambda: self._docker.call(*arguments, stdin=request, timeout=timeout_seconds)
            )
        except subprocess.TimeoutExpired:
            return Ran(output=b"", ended="timed_out", reason="The client was ended.")
        return Ran(output=done.stdout, ended="succeeded", reason="")

    @asynccontextmanager
    async def holding(self, request: bytes, *, answers: int) -> AsyncIterator[bool]:
        """See `sandboxrun.checks.subject.Subject`."""
        command = ["docker", "-H", self._docker.url, "exec", "-i", "-w", "/work", self._container]
        async with await anyio.open_process([*command, f"/probe/{PROGRAM_NAME}"]) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            await process.stdin.send(request)
            await process.stdin.aclose()
            lines = 0
            with contextlib.suppress(anyio.EndOfStream):
                while lines < answers:
                    lines += (await process.stdout.receive()).count(b"\n")
            yield lines >= answers
            process.kill()


@contextmanager
def one_container(docker: Docker) -> Iterator[OneContainer]:
    name = f"sandboxrun-broken-{secrets.token_hex(4)}"
    with probe_directory() as directory:
        done = docker.call(
            *("run", "-d", "--name", name, "--label", LABEL, "-v", f"{directory}:/probe:ro"),
            *("-w", "/work", "--entrypoint", "sleep", DEFAULT_IMAGE, "900"),
        )
        assert done.returncode == 0, done.stderr
        try:
            yield OneContainer(docker, name)
        finally:
            docker.call("rm", "-f", name)


def inspect_state(docker: Docker) -> list[object]:
    """Return what is left of broken containers."""
    listed = docker.call("ps", "-a", "--filter", f"label={LABEL}", "--format", "{{json .}}")
    return [json.loads(line) for line in listed.stdout.splitlines()]
