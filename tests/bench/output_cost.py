"""What output costs: redaction by kind of text, and the whole capture of a firehose.

Run it: ``python -m tests.bench.output_cost``. It prints JSON Lines. Rates are per second of CPU
time, so that what else the machine does does not count.
"""

from __future__ import annotations

import base64
import json
import os
import random
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from sandboxrun.model.output_limit import OnOutputLimit
from sandboxrun.output.capture import OutputPolicy
from sandboxrun.output.redact import Redaction, StreamRedactor
from sandboxrun.output.run_log import RunLog
from sandboxrun.output.secret_forms import Secret

CHUNK = 64 * 1024
UNIT = 4 * 1024 * 1024
LONG = 16
FIREHOSE_BYTES = 10 * 1000**3
SAMPLE_EVERY = 100
KEPT_BYTES = 60 * 1000**2
LOG_LINE = (
    "2030-05-01T12:00:{:02d}.123Z INFO  [worker-{}] app.web.access - request GET "
    "https://example.com/api/v1/items/{} took {} ms status=200\n"
)


def log_text(size: int) -> bytes:
    pick = random.Random(1)
    lines = (
        LOG_LINE.format(
            pick.randrange(60), pick.randrange(99), pick.randrange(10**6), pick.randrange(999)
        )
        for _ in range(size // 100)
    )
    return "".join(lines).encode()[:size]


def encoded(size: int) -> bytes:
    return base64.b64encode(os.urandom(size * 3 // 4))


def wrapped(size: int) -> bytes:
    return base64.encodebytes(os.urandom(size * 3 // 4))[:size]


def coloured(size: int) -> bytes:
    return (b"\x1b[32mPASSED\x1b[0m tests/unit/test_things.py::test_one\n" * (size // 40))[:size]


def chunks(data: bytes) -> Iterator[bytes]:
    return (data[start : start + CHUNK] for start in range(0, len(data), CHUNK))


def redaction_rate(redaction: Redaction, data: bytes) -> float:
    stream = StreamRedactor(redaction)
    began = time.process_time()
    for chunk in chunks(data):
        stream.feed(chunk)
    stream.feed(b"", final=True)
    return len(data) / (time.process_time() - began) / 1e6


def resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1024**2


def firehose(redaction: Redaction, chunk: bytes, total: int) -> dict[str, object]:
    before = peak = resident_mib()
    with tempfile.TemporaryDirectory() as name:
        policy = OutputPolicy(on_limit=OnOutputLimit.DISCARD)
        log = RunLog(Path(name, "spool"), redaction, policy=policy)
        began = time.process_time()
        for number in range(total // len(chunk)):
            log.output("stdout", chunk)
            if number % SAMPLE_EVERY == 0:
                peak = max(peak, resident_mib())
        preview = log.preview()
        seconds = time.process_time() - began
        log.close()
    return {
        "bytes": preview.total_bytes,
        "exact": preview.total_bytes == total // len(chunk) * len(chunk),
        "mb_per_cpu_second": round(preview.total_bytes / seconds / 1e6),
        "resident_growth_mib": round(peak - before, 1),
    }


def report(**fields: object) -> None:
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def main() -> None:
    secrets = [Secret(f"S{i}", base64.b64encode(os.urandom(24))) for i in range(100)]
    redaction = Redaction.of(secrets)
    chunk = log_text(CHUNK)
    report(firehose="lines", **firehose(redaction, chunk, FIREHOSE_BYTES))
    report(firehose="no newline", **firehose(redaction, b"x" * CHUNK, FIREHOSE_BYTES))
    report(firehose="all kept", **firehose(redaction, chunk, KEPT_BYTES))
    texts = {"log": log_text, "base64": encoded, "wrapped": wrapped, "coloured": coloured}
    for name, text in texts.items():
        short, long = (redaction_rate(redaction, text(size)) for size in (UNIT, LONG * UNIT))
        ratio = round(short / long, 2)
        report(redact=name, mb_per_cpu_second=round(long), rate_1x_over_16x=ratio)


if __name__ == "__main__":
    main()
