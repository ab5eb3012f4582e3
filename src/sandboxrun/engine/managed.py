"""A private engine of our own: started where none answers, restarted when it died.

Everything of it is below one directory: data, socket, record of the process, log. It lives in a
mount namespace of its own (`launch`), so its mounts are nobody else's, and end with it. The calls
here block and are bounded; `up` and `down` exclude each other by a kernel lock.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, assert_never

from sandboxrun.engine import daemon_process, managed_docker, managed_podman
from sandboxrun.engine.daemon_record import DaemonRecord, is_alive, read_record
from sandboxrun.engine.managed_layout import Daemon, Layout
from sandboxrun.engine.protocol import EngineKind
from sandboxrun.errors import EngineError, EngineTimeoutError, EngineUnavailableError

LOCK_SECONDS: Final = 120.0
"""How long another `up` or `down` may take."""
LAUNCH_SECONDS: Final = 30.0
READY_SECONDS: Final = 60.0
PING_SECONDS: Final = 5.0
_PAUSE: Final = 0.05
_LOG_BYTES: Final = 10 * 1024 * 1024
_TAIL_BYTES: Final = 2000
_PING: Final = b"GET /_ping HTTP/1.0\r\nHost: engine\r\n\r\n"


@dataclass(frozen=True, slots=True)
class ManagedEngine:
    """The managed engine of one state directory."""

    layout: Layout

    @classmethod
    def of(cls, state_dir: Path, kind: EngineKind = EngineKind.DOCKER) -> ManagedEngine:
        """Return the managed engine of ``kind`` whose files are below ``state_dir``."""
        return cls(Layout(kind, state_dir.absolute() / "engine" / kind.value))

    @property
    def url(self) -> str:
        """Where it answers once it is up."""
        return self.layout.url

    def was_started(self) -> bool:
        """Return whether `up` has been called and `down` not since."""
        return self.layout.record.exists()

    def is_running(self) -> bool:
        """Return whether its daemon lives."""
        record = read_record(self.layout.record)
        return record is not None and is_alive(record)

    def up(self) -> str:
        """Start it unless it answers already, and return its address.

        Raises `InstallError` when the daemon's program is missing and `EngineUnavailableError`
        when this user may not start it, or when it does not come up; the text says why.
        """
        with self._locked():
            record = read_record(self.layout.record)
            if record is not None and is_alive(record):
                self._wait_until_ready(record)
                return self.url
            self._require_root()
            if record is not None:
                daemon_process.stop(record)
            self._launch()
            return self.url

    def down(self) -> bool:
        """Stop it, its containers and its helpers; return whether anything was running.

        Its data stay. Raises `EngineError` when something of it cannot be ended.
        """
        if not self.layout.base.exists():
            return False
        with self._locked():
            record = read_record(self.layout.record)
            if record is None:
                return False
            running = is_alive(record)
            if not daemon_process.stop(record):
                raise EngineError(f"Processes of the managed engine (pid {record.pid}) remain.")
            self._clear()
            return running

    def log_tail(self) -> str:
        """Return the end of its log."""
        try:
            data = self.layout.log.read_bytes()[-_TAIL_BYTES:]
        except FileNotFoundError:
            return ""
        return data.decode("utf-8", "backslashreplace").strip()

    def _launch(self) -> None:
        daemon = self._daemon()
        self._clear()
        self.layout.run.mkdir(parents=True, mode=0o711)
        self.layout.data.mkdir(mode=0o711, exist_ok=True)
        if self.layout.log.exists() and self.layout.log.stat().st_size > _LOG_BYTES:
            self.layout.log.write_bytes(b"")
        for path, text in daemon.files.items():
            path.write_text(text)
        self._spawn(daemon)
        record = read_record(self.layout.record)
        if record is None:
            raise EngineError("The managed engine left no record of its process.")
        self._wait_until_ready(record)

    def _spawn(self, daemon: Daemon) -> None:
        launcher = (sys.executable, "-I", "-m", "sandboxrun.engine.launch")
        layout = self.layout
        places = (str(layout.record), str(layout.log), str(layout.mark), *daemon.hidden)
        argv = (*launcher, *places, "--", *daemon.argv)
        try:
            done = subprocess.run(
                argv,
                env=dict(daemon.env),
                cwd="/",
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=LAUNCH_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise EngineTimeoutError("The managed engine could not be launched in time.") from error
        if done.returncode != 0:
            reason = done.stderr.decode("utf-8", "backslashreplace").strip()
            raise EngineUnavailableError(
                f"The managed engine cannot be started: {reason}",
                advice="It needs root with CAP_SYS_ADMIN. Otherwise name an engine that runs with "
                "--engine or DOCKER_HOST.",
            )

    def _daemon(self) -> Daemon:
        match self.layout.kind:
            case EngineKind.DOCKER:
                return managed_docker.daemon(self.layout)
            case EngineKind.PODMAN:
                return managed_podman.daemon(self.layout)
            case EngineKind.FAKE:
                raise EngineError("A fake engine has no daemon.")
            case _:
                assert_never(self.layout.kind)

    def _clear(self) -> None:
        """Remove what belonged to a life of the daemon that is over."""
        daemon_process.unmount_below(self.layout.base)
        daemon_process.unmount_below(self.layout.run)
        if self.layout.run.exists():
            shutil.rmtree(self.layout.run)
        self.layout.record.unlink(missing_ok=True)

    def _wait_until_ready(self, record: DaemonRecord) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while not answers(self.layout.socket):
            if not is_alive(record):
                raise EngineUnavailableError(
                    f"The managed engine ended while starting. The end of its log:\n{self.log_tail()}",
                    advice=f"The whole log is {self.layout.log}.",
                )
            if time.monotonic() > deadline:
                raise EngineUnavailableError(
                    f"The managed engine (pid {record.pid}) runs but does not answer.",
                    advice=f"`sandboxrun engine down` ends it; its log is {self.layout.log}.",
                )
            time.sleep(_PAUSE)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self.layout.base.mkdir(parents=True, mode=0o700, exist_ok=True)
        descriptor = os.open(
            self.layout.base / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        try:
            deadline = time.monotonic() + LOCK_SECONDS
            while not _try_lock(descriptor):
                if time.monotonic() > deadline:
                    raise EngineTimeoutError("Another process is starting or stopping the engine.")
                time.sleep(_PAUSE)
            yield
        finally:
            os.close(descriptor)

    @staticmethod
    def _require_root() -> None:
        if os.geteuid() != 0:
            raise EngineUnavailableError("Only root can start the managed engine.")


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def answers(path: Path) -> bool:
    """Return whether an engine answers at a unix socket within a few seconds. Blocking."""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(PING_SECONDS)
            connection.connect(str(path))
            connection.sendall(_PING)
            return b" 200 " in connection.recv(256).split(b"\r\n", 1)[0]
    except OSError:
        return False
