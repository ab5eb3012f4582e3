"""The host's policy, as its file is at the moment of asking."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Self

from sandboxrun.policy.document import Document
from sandboxrun.policy.examples import ScreenCommand
from sandboxrun.policy.load import SHIPPED, checked_policy, read_policy


class HostPolicy:
    """A policy that is read again when its file changes. Safe to use from any thread.

    A shipped policy never changes. A file that is gone, or no policy any more, is a fault each
    time it is asked for: until it is mended nothing may run under what it said before.
    """

    def __init__(self, named: str | Path, screen: ScreenCommand) -> None:
        """Read it a first time. Blocks. Raises `PolicyError`."""
        self.is_shipped = named in SHIPPED
        # A relative path means what it meant when the policy was named.
        self._named = named if self.is_shipped else _absolute(named)
        self._screen = screen
        self._turn = threading.Lock()
        source, self._text = read_policy(self._named)
        self.latest = checked_policy(self._text, screen, source=source)
        """What it said when it was last read."""

    @classmethod
    def fixed(cls, document: Document) -> Self:
        """Return one that is no file and never changes."""
        host = cls.__new__(cls)
        host.is_shipped, host.latest = True, document
        return host

    def current(self) -> Document:
        """Return what the file says now. Blocks. Raises `PolicyError`."""
        if self.is_shipped:
            return self.latest
        with self._turn:
            source, text = read_policy(self._named)
            if text != self._text:
                # Only a whole policy takes the place of another.
                self.latest = checked_policy(text, self._screen, source=source)
                self._text = text
            return self.latest


def _absolute(named: str | Path) -> str | Path:
    bare = isinstance(named, str) and not {"/", "."} & set(named)
    return named if bare else Path(named).absolute()
