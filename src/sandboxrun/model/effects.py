"""What a run, or the way from one snapshot to another, changed in a workspace."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

PATHS_SHOWN = 100
"""Paths listed of each kind; counts are always exact."""


class Changes(BaseModel):
    """Changes of one kind."""

    model_config = ConfigDict(frozen=True)

    count: int = Field(default=0, ge=0)
    """How many there are, exactly."""
    paths: tuple[str, ...] = ()
    r"""The first of them, relative to the workspace, bytes that are not UTF-8 as ``\xNN``."""


class TreeEffects(BaseModel):
    """Changes to one tree. What is equal in metadata and content to before is not a change."""

    model_config = ConfigDict(frozen=True)

    created: Changes = Changes()
    modified: Changes = Changes()
    """Content, mode, owner, time or kind; of a directory not its time."""
    deleted: Changes = Changes()
    bytes: int = Field(default=0, ge=0)
    """Apparent size of all files that were created or modified."""

    @property
    def empty(self) -> bool:
        """Whether nothing changed."""
        return not (self.created.count or self.modified.count or self.deleted.count)


class Effects(TreeEffects):
    """Changes to a workspace. What is below ``.home`` is listed apart."""

    home: TreeEffects = TreeEffects()

    @property
    def nothing(self) -> bool:
        """Whether neither the workspace nor its home changed."""
        return self.empty and self.home.empty
