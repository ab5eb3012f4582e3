"""What a slot is good for. Pure.

The prediction is simple: the next run of a workspace will want what the last one had. A slot
serves a run only if everything that was fixed when its container was made is what the run wants,
to the letter; anything else goes cold.
"""

from __future__ import annotations

from dataclasses import dataclass

from sandboxrun.engine.protocol import ImageInfo
from sandboxrun.model.limits import Limits
from sandboxrun.policy.authority import PolicyDigests


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotKey:
    """Everything of a container that cannot be changed once it is made.

    But for the workspace's state: that is compared in the transaction that gives the slot to a
    run (`sandboxrun.workspace.session.Session.adopt`). Environment, secrets, arguments, working
    directory, deadline and input are not here: they travel in the request.
    """

    workspace_id: str | None
    """None: a throwaway one."""
    read_only: bool
    image_id: str
    runtime: str | None
    limits: Limits
    digests: PolicyDigests
    """Of the policies in force: a change of either makes every slot useless."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a slot is made from."""

    key: SlotKey
    image: ImageInfo


@dataclass(frozen=True, slots=True)
class SlotPolicy:
    """How many slots wait, and for how long."""

    limit: int = 8
    """Of the whole host; 0 makes none."""
    idle_seconds: float = 300.0
    """Shorter than the init waits for its request (ten minutes)."""
    free_bytes: int = 512 * 1024 * 1024
    """Memory that stays available; below it none is made."""


def usable(made: SlotKey, made_at: float, *, wanted: SlotKey, now: float, life: float) -> bool:
    """Return whether a slot made for ``made`` may serve a run that wants ``wanted``.

    Times are seconds of one monotonic clock; ``life`` is how long a slot may wait.
    """
    return made == wanted and 0 <= now - made_at < life
