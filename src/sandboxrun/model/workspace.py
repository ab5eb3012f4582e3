"""Workspaces and their snapshots, as every interface shows them."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict

DEFAULT_MOUNT = "/workspace"
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$"
"""What a workspace may be called: a label of the engine, a word of the shell."""
HOME_NAME = ".home"
"""Directory of a workspace that is the command's HOME."""


class SnapshotState(StrEnum):
    """How much a snapshot survives."""

    COMMITTED = "committed"
    """The end of any process, kill -9 included."""
    DURABLE = "durable"
    """A power loss, too."""


class SnapshotCause(StrEnum):
    """What made a snapshot."""

    CREATED = "created"
    FORKED = "forked"
    RUN = "run"
    INTERRUPTED = "interrupted"
    """A run whose process died; it holds what the run had written until it was ended."""


class Workspace(BaseModel):
    """One workspace."""

    model_config = ConfigDict(frozen=True)

    workspace_id: str
    name: str | None
    """None: a throwaway one."""
    head: str
    """The snapshot the next run starts from."""
    uid: int
    """User and group of its files and commands; forks share it. 0: root, without capabilities."""
    mount_at: str
    created_at: str
    """RFC 3339, UTC."""


class Snapshot(BaseModel):
    """One state of a workspace that one can go back to."""

    model_config = ConfigDict(frozen=True)

    snapshot_id: str
    workspace_id: str
    parent: str | None
    """The snapshot it was made from; for a fork one of the other workspace."""
    run_id: str | None
    cause: SnapshotCause
    state: SnapshotState
    created_at: str
    depth: int
    """Layers it is made of."""
