"""The preview: the part of the output that fits a model's context.

The last 2,000 lines or 50 KiB, whichever is reached first, in whole lines; control sequences are
gone and each line is in its last version (see `sandboxrun.output.lines`). The complete output is
never touched by this.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sandboxrun.model.preview import Preview, PreviewShape
from sandboxrun.output.ansi import AnsiStripper
from sandboxrun.output.lines import (
    Budget,
    LineFolder,
    Tail,
    count_lines,
    first_lines,
    last_lines,
)
from sandboxrun.output.utf8 import LONGEST_CHARACTER

PREVIEW_BUDGET: Final = Budget(lines=2000, bytes=50 * 1024)


class PreviewBuilder:
    """Builds the preview of a stream in memory that does not depend on the stream's length.

    Any way of cutting the stream gives the same preview.
    """

    def __init__(
        self,
        shape: PreviewShape = PreviewShape.TAIL,
        budget: Budget = PREVIEW_BUDGET,
        clean: Callable[[bytes], bytes] | None = None,
    ) -> None:
        """``clean`` has the last word on what is shown: folding lines can join what was apart."""
        self._clean = clean
        self._skipped = False
        self._shape = shape
        self._budget = budget
        self._half = budget.half()
        self._stripper = AnsiStripper()
        self._keep = budget.bytes + 2 * LONGEST_CHARACTER
        self._folder = LineFolder(self._keep)
        self._tail = Tail(budget)
        self._head = b""
        self._head_full = shape is PreviewShape.TAIL
        self._total_bytes = 0
        self._newlines = 0
        self._ends_line = True

    def feed(self, data: bytes) -> None:
        """Add output."""
        if not data:
            return
        self._total_bytes += len(data)
        self._newlines += data.count(b"\n")
        self._ends_line = data.endswith(b"\n")
        self._add(self._stripper.feed(data))

    def skip(self) -> None:
        """Go on at a later place of the stream, in the middle of a line."""
        self._stripper = AnsiStripper()
        self._folder = LineFolder(self._keep)
        self._tail = Tail(self._budget)
        self._tail.cut = self._skipped = self._head_full = True

    def finish(
        self,
        *,
        total_bytes: int | None = None,
        total_lines: int | None = None,
        rest: str | None = None,
    ) -> Preview:
        """Return the preview; nothing is fed afterwards.

        The totals are of what was fed unless given: the raw output's may differ where secrets
        were removed. ``rest`` says where the complete output is, as a sentence.
        """
        self._add(self._stripper.finish())
        head, tail, cut = self._ends()
        shown = head + tail
        text = shown.decode("utf-8", "backslashreplace")
        if total_bytes is None:
            total_bytes = self._total_bytes
        if total_lines is None:
            total_lines = self._newlines + (not self._ends_line)
        notice = None
        if cut:
            notice = _notice(head, tail, total_bytes=total_bytes, total_lines=total_lines)
            notice += "" if rest is None else f" {rest}"
            if head:
                text = _joined(head, tail, count_lines(shown), total_lines)
        return Preview(
            text=text,
            truncated=cut,
            notice=notice,
            total_bytes=total_bytes,
            total_lines=total_lines,
            shown_bytes=len(shown),
            shown_lines=count_lines(shown),
        )

    def _add(self, data: bytes) -> None:
        lines, cut = self._folder.feed(data)
        if self._skipped and lines:
            # The rest of a line whose beginning was skipped.
            self._skipped = False
            lines = lines[lines.index(b"\n") + 1 :]
        if cut:
            self._head_full = True
            self._tail.cut = True
        if not self._head_full:
            room = Budget(
                self._half.lines - self._head.count(b"\n"), self._half.bytes - len(self._head)
            )
            taken = first_lines(lines, room)
            self._head += taken
            self._head_full = len(taken) < len(lines)
            lines = lines[len(taken) :]
        self._tail.add(lines)

    def _ends(self) -> tuple[bytes, bytes, bool]:
        rest = self._tail.text + self._folder.current
        cut = self._tail.cut or self._folder.current_cut
        everything = self._head + rest
        shown = last_lines(everything, self._budget)
        if not cut and shown == everything:
            shown = self._cleaned(shown, self._budget)
            return b"", shown, False
        if self._shape is PreviewShape.TAIL:
            return b"", self._cleaned(shown, self._budget), True
        head = first_lines(self._cleaned(self._head, self._budget), self._half)
        return head, self._cleaned(last_lines(rest, self._half), self._half), True

    def _cleaned(self, text: bytes, budget: Budget) -> bytes:
        return text if self._clean is None else last_lines(self._clean(text), budget)


def text_for_model(preview: Preview) -> str:
    """Return what a model is given: the preview's text, and its notice at the end."""
    if preview.notice is None:
        return preview.text
    gap = "" if not preview.text or preview.text.endswith("\n") else "\n"
    return f"{preview.text}{gap}[{preview.notice}]"


def _joined(head: bytes, tail: bytes, shown_lines: int, total_lines: int) -> str:
    gone = max(total_lines - shown_lines, 0)
    before, after = (part.decode("utf-8", "backslashreplace") for part in (head, tail))
    return f"{before}[… {gone:,} lines not shown …]\n{after}"


def _notice(head: bytes, tail: bytes, *, total_bytes: int, total_lines: int) -> str:
    lines, size = count_lines(head + tail), len(head) + len(tail)
    part = "the beginning and the end" if head else "the end"
    return (
        f"Output cut: this is {part}, {lines:,} of {total_lines:,} lines "
        f"({size:,} of {total_bytes:,} bytes)."
    )
