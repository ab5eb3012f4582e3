"""The complete output of a run, kept for a while."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

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


class Gone(StrEnum):
    """Why an artifact cannot be read any more."""

    EXPIRED = "expired"
    EVICTED = "evicted"
    """It made room for newer ones."""


@dataclass(frozen=True, slots=True)
class ArtifactRow:
    """What is remembered of an artifact, also after it is gone."""

    artifact: Artifact
    run_id: str
    workspace: str | None
    principal: str
    created_at: datetime
    stored_bytes: int
    """Size of its file."""
    gone: Gone | None = None
