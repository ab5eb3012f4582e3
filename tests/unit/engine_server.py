"""A scripted HTTP server on a unix socket: what engines do when they misbehave."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

PING = b"HTTP/1.1 200 OK\r\nApi-Version: 1.41\r\nServer: Docker/20 (linux)\r\nContent-Length: 2\r\n\r\nOK"
INFO = (
    b'{"ServerVersion":"20","ID":"A","CgroupVersion":"1","DefaultRuntime":"crun","Driver":"o",'
    b'"Runtimes":{"crun":{}},"Architecture":"x86_64","NCPU":2,"MemTotal":1000}'
)


def answer(status: int, body: bytes = b"", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def state(phase: str, exit_code: int = 0) -> bytes:
    started = "0001-01-01T00:00:00Z" if phase == "created" else "2024-01-01T00:00:00Z"
    return answer(
        200,
        (
            f'{{"Id":"c1","Name":"/n","Image":"sha256:i","State":{{"Status":"{phase}",'
            f'"ExitCode":{exit_code},"OOMKilled":false,"Error":"","StartedAt":"{started}",'
            f'"FinishedAt":"{started}"}},"Config":{{"Labels":{{}}}}}}'
        ).encode(),
    )


Reply = bytes | None | Callable[[socket.socket], None]
"""Bytes to send, None to close without an answer, or something to do with the connection."""


@dataclass
class Server:
    path: Path
    replies: dict[str, list[Reply]] = field(default_factory=dict)
    """By "METHOD /path" without version and query; the last one is repeated."""
    requests: list[str] = field(default_factory=list)
    stopping: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"unix://{self.path}"

    def count(self, key: str) -> int:
        return self.requests.count(key)

    def serve(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

    def _talk(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            data = b""
            while True:
                while b"\r\n\r\n" not in data:
                    piece = connection.recv(65536)
                    if not piece:
                        return
                    data += piece
                head, _, rest = data.partition(b"\r\n\r\n")
                length = _content_length(head)
                while len(rest) < length:
                    rest += connection.recv(65536)
                data = rest[length:]
                reply = self._reply(head)
                if reply is None:
                    return
                if callable(reply):
                    reply(connection)
                    return
                connection.sendall(reply)

    def _reply(self, head: bytes) -> Reply:
        method, target = head.decode().split(" ")[:2]
        path = target.partition("?")[0]
        if path.startswith("/v1."):
            path = "/" + path.split("/", 2)[2]
        key = f"{method} {path}"
        self.requests.append(key)
        if key == "GET /_ping" and key not in self.replies:
            return PING
        if key == "GET /info" and key not in self.replies:
            return answer(200, INFO)
        waiting = self.replies.get(key, [answer(404, b'{"message":"No such container: x"}')])
        return waiting.pop(0) if len(waiting) > 1 else waiting[0]

    def mute(self, connection: socket.socket) -> None:
        """Never answer; the connection stays open until the test ends."""
        del connection
        self.stopping.wait(30)


def _content_length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        if line.lower().startswith(b"content-length:"):
            return int(line.split(b":")[1])
    return 0


@contextlib.contextmanager
def serving(directory: Path) -> Iterator[Server]:
    server = Server(directory / "s")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(server.path))
        listener.listen(16)
        thread = threading.Thread(target=server.serve, args=(listener,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.stopping.set()
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
