"""How one path differs between two snapshots."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict


class PathDifference(BaseModel):
    """One path. What does not exist, or is no such thing, is null."""

    model_config = ConfigDict(frozen=True)

    path: str
    r"""Relative to the workspace, bytes that are not UTF-8 as ``\xNN``."""
    kind: Literal["created", "modified", "deleted"]
    what: tuple[str, ...]
    """Of a modified one: ``kind``, ``mode``, ``owner``, ``attributes``, ``target``, ``size``,
    ``time``, or ``content`` when nothing but the bytes differs."""
    mode_before: int | None
    mode_after: int | None
    """Kind and permission bits, as in stat(2)."""
    size_before: int | None
    size_after: int | None
    """Bytes of a regular file."""
    target_before: str | None
    target_after: str | None
    """Of a symbolic link."""
    diff: str | None
    """Unified, of small UTF-8 text."""
