"""Wall-clock stamps of rows. Deadlines never use them: they use the monotonic clock."""

from __future__ import annotations

from datetime import UTC, datetime


def timestamp() -> str:
    """Return now as RFC 3339 text in UTC with microseconds; such texts sort by time."""
    return rfc3339(datetime.now(UTC))


def rfc3339(moment: datetime) -> str:
    """Return a moment as RFC 3339 text in UTC with microseconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
