"""From what a command wrote to what is kept and shown: limit, redaction, preview. Sans-IO.

Up to the limit, output is redacted and returned, to be logged. Behind it, it is counted and only
its end is remembered: that costs next to nothing a byte, so a firehose is drained at the speed of
memory. The preview always shows the end of everything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sandboxrun.model.event import Stream
from sandboxrun.model.output_limit import MAX_OUTPUT_BYTES, OnOutputLimit
from sandboxrun.model.preview import Preview, PreviewShape
from sandboxrun.output.ordered import OrderedRedactor
from sandboxrun.output.preview import PREVIEW_BUDGET, PreviewBuilder
from sandboxrun.output.recent import Recent
from sandboxrun.output.redact import Redaction

REMEMBERED_BYTES: Final = 5 * PREVIEW_BUDGET.bytes
"""How much of the end of discarded output is remembered: a preview, with room for colours."""


@dataclass(frozen=True, slots=True)
class OutputPolicy:
    """What is kept and shown of a run's output."""

    limit_bytes: int = MAX_OUTPUT_BYTES
    """Raw bytes, both streams together."""
    on_limit: OnOutputLimit = OnOutputLimit.END
    preview: PreviewShape = PreviewShape.TAIL


class Capture:
    """The output of one run."""

    def __init__(self, redaction: Redaction, policy: OutputPolicy) -> None:
        self.policy = policy
        self._redaction = redaction
        self._redactor = OrderedRedactor(redaction)
        self._preview = PreviewBuilder(policy.preview, clean=redaction.bytes)
        self._recent = Recent(REMEMBERED_BYTES)
        self._newlines = 0
        self._ends_line = True
        self._finished = False
        self._redactions_in_recent = 0
        self._passed: dict[Stream, int] = {"stdout": 0, "stderr": 0}
        self.total_bytes = 0
        """Bytes the command wrote, both streams together."""

    @property
    def total_lines(self) -> int:
        """Lines it wrote, both streams as one text; an unfinished last one counts."""
        return self._newlines + (not self._ends_line)

    @property
    def limit_reached(self) -> bool:
        """Whether bytes were written that are not kept."""
        return self.total_bytes > self.policy.limit_bytes

    @property
    def redactions(self) -> int:
        """Replacements so far, in what is kept or shown."""
        return self._redactor.count + self._redactions_in_recent

    def feed(self, stream: Stream, data: bytes) -> list[tuple[Stream, bytes]]:
        """Take what the command wrote and return what can be logged now, in order."""
        if not data:
            return []
        room = max(self.policy.limit_bytes - self.total_bytes, 0)
        self.total_bytes += len(data)
        self._newlines += data.count(b"\n")
        self._ends_line = data.endswith(b"\n")
        if len(data) > room:
            self._recent.add(stream, data[room:])
        return self._shown(self._redactor.feed(stream, data[:room])) if room else []

    def waiting(self) -> dict[Stream, bytes]:
        """Return what a display may show early; see `OrderedRedactor.decided`."""
        return self._redactor.decided()

    def passed_bytes(self, stream: Stream) -> int:
        """Return how many bytes of ``stream`` were returned so far."""
        return self._passed[stream]

    def finish(self) -> list[tuple[Stream, bytes]]:
        """Return the rest that can be logged. Nothing is fed afterwards. Later calls do nothing.

        What was held back when the limit was reached is not returned, since it may be the
        beginning of a secret whose rest is not kept.
        """
        if self._finished:
            return []
        self._finished = True
        if not self.limit_reached:
            return self._shown(self._redactor.finish())
        if self._recent.lost:
            self._show_recent()
            return []
        for stream, data in self._recent.writes():
            self._shown(self._redactor.feed(stream, data))
        self._shown(self._redactor.finish())
        return []

    def preview(self, *, rest: str | None = None) -> Preview:
        """Return the preview, with the totals of the raw output. Only after `finish`.

        ``rest`` says where the complete output is, as a sentence.
        """
        return self._preview.finish(
            total_bytes=self.total_bytes, total_lines=self.total_lines, rest=rest
        )

    def _shown(self, parts: list[tuple[Stream, bytes]]) -> list[tuple[Stream, bytes]]:
        for stream, data in parts:
            self._preview.feed(data)
            self._passed[stream] += len(data)
        return parts

    def _show_recent(self) -> None:
        redactor = OrderedRedactor(self._redaction)
        for stream, data in self._recent.before().items():
            redactor.prime(stream, data)
        parts: list[bytes] = []
        for stream, data in self._recent.writes():
            parts += (shown for _, shown in redactor.feed(stream, data))
        parts += (shown for _, shown in redactor.finish())
        self._redactions_in_recent = redactor.count
        self._preview.skip()
        self._preview.feed(b"".join(parts))
