"""Exact bytes: what goes in comes out, by SHA-256, on every engine."""

from __future__ import annotations

import hashlib
import random

import pytest
from run_bench import Bench

from sandboxrun import Outcome, Status
from sandboxrun.engine.protocol import EngineKind
from sandboxrun.model.event import Output

MIB = 1024 * 1024
pytestmark = [
    pytest.mark.engine,
    pytest.mark.parametrize(
        "bench",
        [
            pytest.param((EngineKind.DOCKER, None), id="docker", marks=pytest.mark.docker),
            pytest.param((EngineKind.PODMAN, None), id="podman", marks=pytest.mark.podman),
        ],
        indirect=True,
        scope="module",
    ),
]
EVERY_BYTE = bytes(range(1, 256))


def _noise(size: int, *, without: bytes = b"") -> bytes:
    generator = random.Random(size)
    table = bytes(value for value in range(256) if value not in without)
    return bytes(generator.choices(table, k=size))


def _output(bench: Bench, outcome: Outcome, stream: str = "stdout") -> bytes:
    """Return the recorded bytes of one stream, put together from the events."""

    async def collect() -> bytes:
        from sandboxrun.output.events import events  # noqa: PLC0415 - read as another process would

        path = bench.settings.state_dir / "spool" / f"{outcome.run_id}.spool"
        return b"".join(
            [
                event.data
                async for event in events(path)
                if isinstance(event, Output) and event.stream == stream
            ]
        )

    return bench.portal.call(collect)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _succeeded(outcome: Outcome) -> Outcome:
    assert outcome.status is Status.SUCCEEDED, outcome
    return outcome


def test_a_command_of_three_mebibytes(bench: Bench) -> None:
    data = _noise(3 * MIB, without=b"\0'")
    outcome = _succeeded(bench.run(b"printf %s '" + data + b"' | sha256sum"))  # type: ignore[arg-type]
    assert _output(bench, outcome).split()[0].decode() == _digest(data)


@pytest.mark.parametrize("size", [200_000, MIB])
def test_a_here_document(bench: Bench, size: int) -> None:
    data = _noise(size, without=b"\0\n") + b"\n"
    command = b"sha256sum <<'END OF IT'\n" + data + b"END OF IT\n"
    outcome = _succeeded(bench.run(command))  # type: ignore[arg-type]
    assert _output(bench, outcome).split()[0].decode() == _digest(data)


def test_arguments_and_environment_of_any_bytes(bench: Bench) -> None:
    outcome = _succeeded(
        bench.run(argv=("printf", "%s", EVERY_BYTE), env={"ODD": EVERY_BYTE, b"N\xff": b"v"})
    )
    assert _output(bench, outcome) == EVERY_BYTE
    env = _succeeded(bench.run(argv=("env", "-0"), env={"ODD": EVERY_BYTE, b"N\xff": b"v"}))
    found = _output(bench, env).split(b"\0")
    assert b"ODD=" + EVERY_BYTE in found
    assert b"N\xff=v" in found


@pytest.mark.parametrize("size", [0, 1, 65_537, 5 * MIB])
def test_stdin_arrives_whole_and_ends(bench: Bench, size: int) -> None:
    data = _noise(size)
    outcome = _succeeded(bench.run("sha256sum", stdin=data))
    assert _output(bench, outcome).split()[0].decode() == _digest(data)


def test_a_command_that_does_not_read_its_stdin(bench: Bench) -> None:
    assert _succeeded(bench.run("echo done", stdin=_noise(5 * MIB))).preview.text == "done\n"


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\0\xff\xfe\x80\xc3(\xed\xa0\x80\xf5", id="invalid-utf8"),
        pytest.param(b"a\rb\r\rc", id="lone-cr"),
        pytest.param("ä€😀".encode() * 1000, id="utf8"),
        pytest.param(b"no final newline", id="no-newline"),
        pytest.param(b"\n" * 100_000, id="newlines"),
        pytest.param(b"\x1b]0;title\x07\x1b[31mred\x1b[0m", id="ansi"),
    ],
)
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_output_of_any_bytes(bench: Bench, data: bytes, stream: str) -> None:
    to = "" if stream == "stdout" else " >&2"
    outcome = _succeeded(bench.run(f"cat{to}", stdin=data))
    assert _output(bench, outcome, stream) == data
    assert outcome.preview.total_bytes == len(data)


def test_random_output_on_both_streams(bench: Bench) -> None:
    data = _noise(4 * MIB)
    outcome = _succeeded(bench.run("tee /dev/stderr", stdin=data))
    assert _digest(_output(bench, outcome)) == _digest(data)
    assert _digest(_output(bench, outcome, "stderr")) == _digest(data)


def test_the_last_bytes_are_not_lost(bench: Bench) -> None:
    for size in (1, 65_536, 65_537, 1_000_003):
        outcome = _succeeded(bench.run(f"head -c {size} /dev/zero; printf END"))
        assert _output(bench, outcome) == bytes(size) + b"END"


@pytest.mark.slow
def test_a_line_of_a_gibibyte(bench: Bench) -> None:
    outcome = bench.run(
        "head -c 1G /dev/zero | tr '\\0' x", on_output_limit="discard", timeout_seconds=600
    )
    assert _succeeded(outcome).preview.total_bytes == 1024 * MIB
    assert outcome.preview.total_lines == 1
