"""Runs the real init, compiled from the sources, as PID 1 of a new PID namespace."""

from __future__ import annotations

import os
import platform
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from sandboxrun.init.records import ExitKind, ExitRecord
from sandboxrun.init.request import InitRequest
from sandboxrun.init.session import (
    End,
    EndReason,
    Event,
    Exited,
    Fatal,
    InitSession,
    Output,
    PostureReceived,
)
from sandboxrun.model.ordering import Ordering

ROOT = Path(__file__).parents[2]
UID = 2_000_001
PATIENCE = 60.0
ENV = ((b"PATH", b"/usr/local/bin:/usr/bin:/bin"), (b"HOME", b"/"))

needs_namespaces = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("unshare") is None or shutil.which("cc") is None,
    reason="making a PID namespace takes root, unshare and a C compiler",
)
exact_order = pytest.mark.skipif(
    tuple(int(part) for part in platform.release().split(".")[:2]) < (5, 19),
    reason="exact order needs Linux 5.19",
)


@dataclass
class Result:
    """What one init said."""

    events: list[Event] = field(default_factory=list)
    end: End | None = None
    status: int | None = None

    @property
    def record(self) -> ExitRecord:
        last = self.events[-1]
        assert isinstance(last, Exited), last
        assert self.end == End(EndReason.COMPLETE)
        assert self.status == 0
        return last.record

    @property
    def code(self) -> int | None:
        assert self.record.kind is ExitKind.EXITED, self.record
        return self.record.code

    @property
    def output(self) -> bytes:
        """Both streams, in the order reported."""
        return b"".join(event.data for event in self.events if isinstance(event, Output))

    def stream(self, name: str) -> bytes:
        return b"".join(
            event.data
            for event in self.events
            if isinstance(event, Output) and event.stream == name
        )

    @property
    def fatal(self) -> str:
        last = self.events[-1]
        assert isinstance(last, Fatal), last
        return last.text


class InitProcess:
    """One init; its pipes are driven by hand, every wait has a deadline."""

    def __init__(self, command: Sequence[str | Path], *, raw: bool = False) -> None:
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.to_init, self.from_init = self.process.stdin, self.process.stdout
        self.session = InitSession()
        self.result = Result()
        if not raw:
            self.read_until(lambda: bool(self.result.events))
            assert isinstance(self.result.events[0], PostureReceived)

    def send(self, data: bytes) -> None:
        """Write all, reading meanwhile so that neither side waits for the other."""
        view = memoryview(data)
        end = time.monotonic() + PATIENCE
        os.set_blocking(self.to_init.fileno(), False)
        while view:
            assert time.monotonic() < end, "the init takes no input"
            readable, writable, _ = select.select([self.from_init], [self.to_init], [], 1)
            if readable and not self._read():
                return
            if writable:
                try:
                    view = view[os.write(self.to_init.fileno(), view[:65536]) :]
                except BrokenPipeError:
                    return

    def request(self, request: InitRequest) -> None:
        for frame in self.session.request(request):
            self.send(frame)

    def read_until(self, done: object = None) -> Result:
        """Read to the end, or until ``done()``."""
        end = time.monotonic() + PATIENCE
        while not (callable(done) and done()):
            readable, _, _ = select.select([self.from_init], [], [], end - time.monotonic())
            assert readable, f"the init is stuck after {self.result.events[-3:]}"
            if not self._read():
                break
        return self.result

    def finish(self) -> Result:
        """Read to the end and collect the init's own exit status."""
        self.read_until()
        self.result.end = self.session.eof()
        self.result.status = self.process.wait(PATIENCE)
        return self.result

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.to_init.close()
        self.from_init.close()

    def _read(self) -> bool:
        data = os.read(self.from_init.fileno(), 1 << 16)
        self.result.events += self.session.receive(data)
        return bool(data)


def build_init(directory: Path, *options: str, name: str = "init") -> Path:
    binary = directory / name
    command = ["make", "-s", "-C", str(ROOT / "images" / "init"), f"OUT={binary}", *options]
    subprocess.run(command, check=True)
    return binary


@contextmanager
def built_init() -> Iterator[Path]:
    """Yield a binary that every user can execute: SANDBOXRUN_TEST_INIT, or a fresh one."""
    given = os.environ.get("SANDBOXRUN_TEST_INIT")
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        if given is not None:
            yield Path(shutil.copy(given, Path(directory) / "init"))
        else:
            yield build_init(Path(directory))


def in_namespace(binary: Path, *options: str, uid: int = UID) -> list[str | Path]:
    """Return the command that makes the binary PID 1 of a new namespace, as user ``uid``."""
    drop = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--no-new-privs"]
    unshare = ["unshare", "-p", "-f", "--mount-proc", "--kill-child", "setsid"]
    return [*unshare, *drop, binary, *options]


@contextmanager
def talk(command: Sequence[str | Path], *, raw: bool = False) -> Iterator[InitProcess]:
    """Yield the init that ``command`` starts; it is killed afterwards."""
    process = InitProcess(command, raw=raw)
    try:
        yield process
    finally:
        process.close()


def init_process(
    binary: Path, *options: str, uid: int = UID, raw: bool = False
) -> AbstractContextManager[InitProcess]:
    return talk(in_namespace(binary, *options, uid=uid), raw=raw)


def run_in_init(
    binary: Path,
    command: str | bytes | Sequence[str],
    *,
    ordering: Ordering = Ordering.ARRIVAL,
    stdin: bytes | None = None,
    deadline_ms: int = 50_000,
    cwd: bytes = b"/",
    env: tuple[tuple[bytes, bytes], ...] = ENV,
    uid: int = UID,
) -> Result:
    """Run one command to its end."""
    request = request_for(
        command,
        env=env,
        cwd=cwd,
        deadline_ms=deadline_ms,
        ordering=ordering,
        stdin=stdin is not None,
    )
    with init_process(binary, uid=uid) as process:
        return run_request(process, request, stdin)


def request_for(command: str | bytes | Sequence[str], **fields: Any) -> InitRequest:
    """Return a request for a shell command (text) or for a program (list)."""
    fields = {"env": ENV, "cwd": b"/", "deadline_ms": 50_000} | fields
    if isinstance(command, bytes | str):
        return InitRequest(script=os.fsencode(command), **fields)
    return InitRequest(argv=tuple(os.fsencode(word) for word in command), **fields)


def run_request(process: InitProcess, request: InitRequest, stdin: bytes | None = None) -> Result:
    """Send the request and the whole stdin, and read to the end."""
    process.request(request)
    if stdin is not None:
        for frame in process.session.stdin(stdin):
            process.send(frame)
        if not any(isinstance(event, Exited) for event in process.result.events):
            process.send(process.session.stdin_end())
    return process.finish()
