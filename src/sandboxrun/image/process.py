"""Run the system's own tools in namespaces of their own, so that nothing of them is left behind."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from subprocess import DEVNULL, PIPE, STDOUT

import anyio
from anyio.abc import ByteReceiveStream, Process

from sandboxrun.errors import ImageBuildError, InstallError

_END_SECONDS = 10.0
"""How long a killed tool and its children may take to disappear."""
_LINE_LIMIT = 16 * 1024
"""A longer line is cut: it is for progress and messages only."""
_TAIL_LINES = 15
"""How much of a failed tool's output its fault repeats."""
# Mounts and processes of the tool end with it: the pid namespace's first process dies with
# unshare(1), the mounts die with the last process, and the host's mount table never has them.
PRIVATE_NAMESPACES = ("unshare", "--mount", "--pid", "--fork", "--kill-child")


async def run_tool(
    argv: Sequence[str], *, env: Mapping[str, str], on_line: Callable[[str], None]
) -> None:
    """Run ``argv`` to its end, handing each line of its output (both streams) to ``on_line``.

    Raises `InstallError` if the program is absent and `ImageBuildError`, with the last lines, if
    it fails. When cancelled the tool is killed, and its end awaited for a bounded time.
    """
    tail: deque[str] = deque(maxlen=_TAIL_LINES)
    async with _opened(argv, env, stderr=STDOUT) as process:
        async for line in _lines(_stdout(process)):
            tail.append(line)
            on_line(line)
        code = await process.wait()
    if code != 0:
        said = "\n".join(f"  {line}" for line in tail)
        raise ImageBuildError(f"`{' '.join(argv)}` ended with status {code}:\n{said}")


@asynccontextmanager
async def tool_output(
    argv: Sequence[str], *, env: Mapping[str, str]
) -> AsyncIterator[AsyncIterator[bytes]]:
    """Run ``argv`` and give its standard output as chunks while the body runs.

    The iterator raises `ImageBuildError` at the end of a failed tool's output, so that a cut
    stream is never taken for a whole one. Raises `InstallError` if the program is absent. When
    the body ends early or is cancelled, the tool is killed.
    """
    async with _opened(argv, env, stderr=PIPE) as process:
        yield _Output(process, argv)


class _Output:
    def __init__(self, process: Process, argv: Sequence[str]) -> None:
        self._process = process
        self._argv = argv

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        try:
            return await _stdout(self._process).receive(1024 * 1024)
        except anyio.EndOfStream:
            # The tools used here write little to stderr; it fits its pipe until the end.
            said = await self._stderr()
            code = await self._process.wait()
            if code != 0:
                raise ImageBuildError(
                    f"`{' '.join(self._argv)}` ended with status {code}: {said}"
                ) from None
            raise StopAsyncIteration from None

    async def _stderr(self) -> str:
        stream = self._process.stderr
        if stream is None:
            return ""
        return "\n".join([line async for line in _lines(stream)])


@asynccontextmanager
async def _opened(
    argv: Sequence[str], env: Mapping[str, str], *, stderr: int
) -> AsyncIterator[Process]:
    try:
        process = await anyio.open_process(
            argv, stdin=DEVNULL, stdout=PIPE, stderr=stderr, env=dict(env)
        )
    except FileNotFoundError as missing:
        raise InstallError(
            f"The program {argv[0]} is not installed.",
            advice=f"Install {argv[0]} with the system's package manager, or choose --builder.",
        ) from missing
    try:
        yield process
    finally:
        with anyio.CancelScope(shield=True), anyio.move_on_after(_END_SECONDS):
            await _end(process)


async def _end(process: Process) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.kill()
    await process.wait()
    # The pipes reach their end when the last process that holds them is gone.
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            async for _ in stream:
                pass
            await stream.aclose()


def _stdout(process: Process) -> ByteReceiveStream:
    if process.stdout is None:
        raise ImageBuildError("The tool was started without a pipe.")
    return process.stdout


async def _lines(stream: ByteReceiveStream) -> AsyncIterator[str]:
    pending = b""
    async for chunk in stream:
        *whole, pending = (pending + chunk).split(b"\n")
        for line in whole:
            yield line[:_LINE_LIMIT].decode(errors="replace")
        pending = pending[:_LINE_LIMIT]
    if pending:
        yield pending.decode(errors="replace")
