"""The complete output of a run, kept for a while."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, ConfigDict


class Artifact(BaseModel):
    """Names the complete output. Whoever knows the id and may use the workspace can read it."""

    model_config = ConfigDict(frozen=True)

    id: str
    """Cannot be guessed."""
    bytes: int
    """Size of the output as it is kept (redacted), uncompressed."""
    sha256: str
    """Of these bytes, in hex."""
    expires_at: datetime
    """It can be read until then, unless it must make room for newer ones."""
