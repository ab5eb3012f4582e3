"""Signal numbers and their names."""

from __future__ import annotations

import signal


def signal_name(number: int | None) -> str | None:
    """Return ``SIGTERM`` for 15, ``SIG40`` for a real-time signal, None for None."""
    if number is None:
        return None
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"


def signal_number(name: str | None) -> int | None:
    """Return the number `signal_name` named, or None for None."""
    if name is None:
        return None
    known = signal.Signals.__members__.get(name)
    return int(name.removeprefix("SIG")) if known is None else int(known)
