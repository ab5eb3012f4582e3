"""The person at the terminal, as an approver."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import anyio

from sandboxrun.approval.question import Answer, Approver, Question
from sandboxrun.interfaces.cli.question_text import question_text
from sandboxrun.interfaces.cli.tables import printable

_LINE_BYTES: Final = 4096
_TERMINAL: Final = "/dev/tty"


@asynccontextmanager
async def terminal_approver(by: str) -> AsyncIterator[Approver | None]:
    """Yield an approver that asks the person at the controlling terminal; None without one.

    There is one when stderr is a terminal that can be opened for reading, so that what is asked
    is seen where it is answered; stdin stays the command's. Leaving closes the terminal.
    """
    terminal = _open()
    if terminal is None:
        yield None
        return
    try:
        yield person_at(terminal, by)
    finally:
        os.close(terminal)


def person_at(terminal: int, by: str) -> Approver:
    """Return an approver that asks at an open terminal, which stays the caller's."""
    return _Person(terminal, by).ask


def _open() -> int | None:
    if not sys.stderr.isatty():
        return None
    try:
        return os.open(_TERMINAL, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return None


class _Person:
    """Asks one question at a time; the next waits until the one before is answered."""

    def __init__(self, terminal: int, by: str) -> None:
        self._terminal = terminal
        self._by = by
        self._turn = anyio.Lock()

    async def ask(self, question: Question) -> Answer:
        """Ask until there is an answer; the end of the terminal is a no.

        Cancelling takes the question back; what was typed is left to whoever reads next.
        """
        async with self._turn:
            try:
                self._write(f"\n{question_text(question)}\n\n{_choices(question)}")
                return await self._answer(question)
            except BaseException:
                self._write("\n(The question was withdrawn or answered elsewhere.)\n")
                raise

    async def _answer(self, question: Question) -> Answer:
        while True:
            self._write("> ")
            line = await self._line()
            if line is None:
                return Answer(approved=False, by=self._by, reason="The terminal was closed.")
            word, _, reason = line.strip().partition(" ")
            if word == "a" and not reason:
                return Answer(approved=True, by=self._by)
            if word == "always" and not reason and question.always is not None:
                return Answer(approved=True, by=self._by, always=True)
            if word == "d":
                return Answer(approved=False, by=self._by, reason=reason.strip() or None)
            self._write(_choices(question))

    async def _line(self) -> str | None:
        data = b""
        # The terminal gives whole lines; longer ones come in pieces.
        while not data.endswith(b"\n"):
            await anyio.wait_readable(self._terminal)
            try:
                piece = os.read(self._terminal, _LINE_BYTES)
            except OSError:
                return None
            if not piece:
                return None
            data = (data + piece)[-_LINE_BYTES:]
        return data.decode("utf-8", "replace")

    def _write(self, text: str) -> None:
        data = text.encode("utf-8", "replace")
        while data:
            try:
                data = data[os.write(self._terminal, data) :]
            except OSError:
                return


def _choices(question: Question) -> str:
    lines = ["a         allow it this once"]
    if question.always is not None:
        lines.append(f"always    allow this from now on: {printable(question.always.shown)}")
    lines.append("d REASON  deny it; the reason goes back word for word")
    return "\n".join(lines) + "\n"
