"""A signed head kept outside the database, so that a database put back or cut short is noticed.

It names only what was durable before it was written: whatever survives a power loss, the chain
is never behind it by accident. Everything here blocks.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final

from pydantic import BaseModel, ConfigDict, ValidationError

from sandboxrun.audit.signing import SignedHead
from sandboxrun.errors import StateError
from sandboxrun.model.ids import new_id
from sandboxrun.state.directory import StateDirectory

_ANCHOR: Final = "audit/anchor.json"
_MAX_BYTES: Final = 65_536


class _Anchor(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    statement: str
    signature: str


def read(directory: StateDirectory) -> SignedHead | None:
    """Return the anchor as it is stored; None when it is missing or not readable as one."""
    try:
        fd = os.open(_ANCHOR, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory.fd)
    except OSError:
        return None
    with os.fdopen(fd, "rb") as file:
        return parse(file.read(_MAX_BYTES))


def parse(data: bytes) -> SignedHead | None:
    """Return the anchor that ``data`` holds, or None."""
    try:
        anchor = _Anchor.model_validate_json(data)
    except ValidationError:
        return None
    return SignedHead(anchor.statement, anchor.signature)


def render(signed: SignedHead) -> bytes:
    """Return what `parse` reads."""
    return _Anchor(statement=signed.text, signature=signed.signature).model_dump_json().encode()


def write(directory: StateDirectory, signed: SignedHead) -> None:
    """Replace the anchor at once: a reader sees the old one or the new one.

    Raises `StateError` when it cannot be written; the old one is then still there.
    """
    fresh = f"audit/{new_id('anchor')}"
    try:
        fd = os.open(
            fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=directory.fd
        )
        with os.fdopen(fd, "wb") as file:
            file.write(render(signed))
            file.flush()
            os.fsync(file.fileno())
        os.rename(fresh, _ANCHOR, src_dir_fd=directory.fd, dst_dir_fd=directory.fd)
    except OSError as error:
        with suppress(FileNotFoundError):
            os.unlink(fresh, dir_fd=directory.fd)
        raise StateError(
            f"The audit's anchor in {directory.audit} cannot be written: {error.strerror}."
        ) from error
