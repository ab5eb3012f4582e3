"""Exact order in the product's own container: our filter, our limits, every engine."""

from __future__ import annotations

import pytest
from subjects import Subject
from test_posture import hardened

from sandboxrun.engine.sandbox import open_sandbox
from sandboxrun.init.records import ExitKind, ExitRecord
from sandboxrun.init.request import InitRequest, Ordering
from sandboxrun.init.session import Output

pytestmark = [pytest.mark.anyio, pytest.mark.engine]
ENV = ((b"PATH", b"/usr/local/bin:/usr/bin:/bin"), (b"HOME", b"/tmp"))
ALTERNATING = {
    "bash": b"for ((i = 0; i < 10000; i += 2)); do echo $i; echo $((i + 1)) >&2; done",
    "swapped": b"f() { for ((i = 0; i < 10000; i += 2)); do echo $i; echo $((i + 1)) >&2; done; }; "
    b"f 3>&1 1>&2 2>&3",
    "perl": b"perl -e '$| = 1; for ($i = 0; $i < 10000; $i += 2) "
    b'{ print "$i\\n"; print STDERR $i + 1, "\\n" }\'',
    "processes": b"for ((i = 0; i < 10000; i += 200)); do "
    b"perl -e '$| = 1; for ($i = $ARGV[0]; $i < $ARGV[0] + 200; $i += 2) "
    b'{ print "$i\\n"; print STDERR $i + 1, "\\n" }\' $i; done',
    "subshells": b"for ((i = 0; i < 10000; i += 100)); do (for ((k = i; k < i + 100; k += 2)); do "
    b"echo $k; echo $((k + 1)) >&2; done); done",
}
SIGNALLED = (
    b"trap : USR1; (exec 2>/dev/null; while :; do kill -USR1 $$ || exit; %s; done) & "
    b"for ((i = 0; i < 5000; i++)); do echo $i >&2; done"
)


@pytest.fixture
def anyio_backend(which: str) -> str:
    return which.split("-")[1]


async def run(subject: Subject, script: bytes) -> tuple[ExitRecord, bytes]:
    spec = await hardened(subject)
    output: list[Output] = []
    request = InitRequest(
        script=script, cwd=b"/", deadline_ms=60_000, env=ENV, ordering=Ordering.EXACT
    )
    async with open_sandbox(subject.engine, spec) as sandbox:
        await sandbox.start()
        await sandbox.run(request, None, output.append)
        await sandbox.finish(output.append)
        record = sandbox.record
    assert record is not None
    assert record.kind is ExitKind.EXITED
    assert record.code == 0
    if record.ordering is not Ordering.EXACT:
        pytest.skip("this engine or kernel has no notification")
    assert record.unguarded == 0
    return record, b"".join(each.data for each in output)


@pytest.mark.parametrize("name", ALTERNATING)
async def test_nothing_is_misplaced(subject: Subject, name: str) -> None:
    _, output = await run(subject, ALTERNATING[name])
    assert output.split() == [b"%d" % number for number in range(10_000)]


@pytest.mark.parametrize("pause", [b"sleep 0.1", b":"])
async def test_nothing_is_lost_to_signals(subject: Subject, pause: bytes) -> None:
    record, output = await run(subject, SIGNALLED % pause)
    assert output.split() == [b"%d" % number for number in range(5000)]
    # A redirection and a write for each line; the rest is what the signaller does itself.
    assert 10_000 <= record.notifications <= 10_002
