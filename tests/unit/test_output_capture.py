"""What is kept and shown of a run's output: limit, totals, preview, faults of the disk."""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandboxrun.model.event import Event, Exited, Output, Settled, Stream, Truncated
from sandboxrun.model.output_limit import OnOutputLimit
from sandboxrun.model.preview import PreviewShape
from sandboxrun.model.status import Status
from sandboxrun.output.capture import REMEMBERED_BYTES, Capture, OutputPolicy
from sandboxrun.output.host_secrets import host_secrets
from sandboxrun.output.redact import Redaction
from sandboxrun.output.run_log import RunLog
from sandboxrun.output.secret_forms import Secret
from sandboxrun.output.spool_reader import SpoolReader

SECRET = b"correct-horse-battery"
REDACTION = Redaction.of([Secret("PHRASE", SECRET)])
DISCARD = OnOutputLimit.DISCARD


def events_of(path: Path) -> list[Event]:
    with SpoolReader(path) as reader:
        found: list[Event] = []
        while batch := reader.read(final=True):
            found += batch
        return found


def text_of(path: Path, stream: Stream | None = None) -> bytes:
    return b"".join(
        [
            event.data
            for event in events_of(path)
            if isinstance(event, Output) and stream in (None, event.stream)
        ]
    )


def test_the_log_holds_redacted_bytes_and_the_totals_count_raw_ones(tmp_path: Path) -> None:
    log = RunLog(tmp_path / "spool", REDACTION)
    log.output("stdout", b"the phrase is correct-ho")
    log.output("stderr", b"meanwhile\n")
    log.output("stdout", b"rse-battery\nbye correct-h")
    log.event(Exited(exit_code=0))
    preview = log.preview()
    log.event(Settled(status=Status.SUCCEEDED))
    log.close()
    expected = b"the phrase is [redacted: PHRASE]meanwhile\n\nbye correct-h"
    assert text_of(log.path) == expected
    assert preview.text == expected.decode()
    assert preview.total_bytes == log.output_bytes == 24 + 10 + 12 + 13
    assert preview.total_lines == 3
    assert log.capture.redactions == 1
    assert log.output_digest() == hashlib.sha256(expected).hexdigest()
    kinds = [event.type for event in events_of(log.path)]
    assert kinds[-2:] == ["exited", "settled"]


@pytest.mark.parametrize("discarding", [True, False])
def test_the_limit_is_exact_and_announced_once(tmp_path: Path, *, discarding: bool) -> None:
    asked: list[bool] = []
    policy = OutputPolicy(limit_bytes=1000, on_limit=DISCARD if discarding else OnOutputLimit.END)
    log = RunLog(tmp_path / "spool", REDACTION, policy=policy, on_limit=lambda: asked.append(True))
    log.output("stdout", b"a" * 600)
    log.output("stderr", b"b" * 400)
    assert not log.capture.limit_reached
    for _ in range(3):
        log.output("stdout", b"c" * 100)
    log.event(Exited(exit_code=0))
    log.close()
    assert asked == ([] if discarding else [True])
    assert text_of(log.path) == b"a" * 600 + b"b" * 400
    (truncated,) = [event for event in events_of(log.path) if isinstance(event, Truncated)]
    assert (truncated.kept_bytes, truncated.limit_bytes) == (1000, 1000)
    assert truncated.discarding == discarding
    preview = log.preview()
    assert preview.total_bytes == 1300
    assert preview.text == "a" * 600 + "b" * 400 + "c" * 300


def test_a_secret_that_the_limit_cuts_is_not_kept(tmp_path: Path) -> None:
    policy = OutputPolicy(limit_bytes=20, on_limit=DISCARD)
    log = RunLog(tmp_path / "spool", REDACTION, policy=policy)
    log.output("stdout", b"say: " + SECRET + b"!\n")
    preview = log.preview()
    log.close()
    assert text_of(log.path) == b"say: "
    assert preview.text == "say: [redacted: PHRASE]!\n"


def test_the_end_of_a_firehose_is_previewed_in_flat_memory() -> None:
    policy = OutputPolicy(limit_bytes=1000, on_limit=DISCARD)
    capture = Capture(REDACTION, policy)
    line = b"%011d\n"
    for number in range(100_000):
        capture.feed("stdout" if number % 5 else "stderr", line % number)
        if number % 5000 == 0:
            held = sum(len(data) for _, data in capture._recent._writes)
            assert held <= REMEMBERED_BYTES + 16 * 1024
    capture.feed("stdout", SECRET[:9])
    capture.feed("stderr", b"end\n")
    capture.feed("stdout", SECRET[9:] + b"\n")
    capture.finish()
    preview = capture.preview(rest="It is gone.")
    assert preview.total_lines == 100_002
    assert preview.total_bytes == 1_200_000 + 4 + len(SECRET) + 1
    assert preview.shown_lines == 2000
    assert preview.notice is not None
    assert preview.notice.endswith("It is gone.")
    lines = preview.text.splitlines()
    assert lines[-1] == ""
    assert lines[-2] == "[redacted: PHRASE]end"
    assert lines[:-2] == [f"{number:011}" for number in range(100_000 - 1998, 100_000)]


def test_a_secret_that_was_begun_in_what_is_forgotten_is_not_shown() -> None:
    capture = Capture(REDACTION, OutputPolicy(limit_bytes=0, on_limit=DISCARD))
    capture.feed("stderr", SECRET[:15])
    for _ in range(20):
        capture.feed("stdout", b"x" * 65_535 + b"\n")
    capture.feed("stderr", SECRET[15:] + b" done\n")
    capture.finish()
    text = capture.preview().text
    assert text == " done\n"


@given(st.integers(0, 3000), st.integers(1, 900), st.sampled_from(PreviewShape))
@settings(max_examples=60, deadline=None)
def test_the_preview_does_not_depend_on_the_limit(
    lines: int, limit: int, shape: PreviewShape
) -> None:
    data = b"".join([b"line %d\n" % number for number in range(lines)])
    previews = []
    for bytes_kept in (limit, 10**9):
        policy = OutputPolicy(limit_bytes=bytes_kept, on_limit=DISCARD, preview=shape)
        capture = Capture(REDACTION, policy)
        for start in range(0, len(data), 777):
            capture.feed("stdout", data[start : start + 777])
        capture.finish()
        previews.append(capture.preview())
    assert previews[0] == previews[1]


def test_a_full_disk_costs_the_log_and_not_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = RunLog(tmp_path / "spool", REDACTION)
    log.output("stdout", b"before\n")
    real = os.writev

    def full(_fd: int, _parts: list[bytes]) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "writev", full)
    log.output("stdout", b"lost\n")
    assert log.fault is not None
    assert "No space left" in log.fault.message
    monkeypatch.setattr(os, "writev", real)
    log.output("stdout", b"later\n")
    log.event(Settled(status=Status.SUCCEEDED))
    log.close()
    assert text_of(log.path) == b"before\n"
    assert log.preview().text == "before\nlost\nlater\n"
    assert events_of(log.path)[-1].type == "settled"


def test_secrets_of_the_host_are_told_by_name_and_look() -> None:
    environment = {
        "GITHUB_TOKEN": "abc123def456",
        "DATABASE_URL": "postgres://u:p@db/x",
        "AWS_SECRET_ACCESS_KEY": "a" * 40,
        "SSH_AUTH_SOCK": "/tmp/ssh-abc/agent.1",
        "PWD": "/home/user",
        "AUTH_MODE": "disabled",
        "KEYBOARD": "qwertz-with-1-key",
        "GIT_AUTHOR_NAME": "Some Body 1",
        "TOKEN": "short1",
    }
    found = {secret.label for secret in host_secrets(environment)}
    assert found == {"GITHUB_TOKEN", "DATABASE_URL", "AWS_SECRET_ACCESS_KEY"}
