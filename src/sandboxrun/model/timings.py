"""How long each stage of a run took."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Timings:
    """Milliseconds per stage, on the monotonic clock. A stage entered twice is added up."""

    def __init__(self) -> None:
        self._spent: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Count the body's time under ``name``, however it ends."""
        began = time.monotonic()
        try:
            yield
        finally:
            spent = (time.monotonic() - began) * 1000
            self._spent[name] = round(self._spent.get(name, 0.0) + spent, 3)

    def milliseconds(self) -> dict[str, float]:
        """Return what was counted so far."""
        return dict(self._spent)
