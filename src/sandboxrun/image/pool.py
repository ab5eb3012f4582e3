"""The pool of high uids that workspaces run under.

Uids share kernel budgets (inotify watches, pipe pages, pending signals) with every other process
of the same uid, the host's included. So each workspace lineage gets one of its own, far above
those of people and services, and the image's passwd names all of them alike.
"""

from __future__ import annotations

UID_BASE = 2_000_000
"""First uid of the pool; the gid is always the same number."""
UID_COUNT = 4096
"""Size of the pool."""
USER_NAME = "agent"
"""What `whoami` says for each of them."""
HOME = "/workspace/.home"
"""Home of each of them, inside the workspace so that it is part of its snapshots."""
SHELL = "/bin/bash"


def pool_uid(slot: int) -> int:
    """Return the uid of slot ``slot`` (0 up to ``UID_COUNT`` - 1). Raises `ValueError` beyond."""
    if not 0 <= slot < UID_COUNT:
        raise ValueError(f"Slot {slot} is not one of the {UID_COUNT} of the uid pool.")
    return UID_BASE + slot


def in_pool(uid: int) -> bool:
    """Return whether ``uid`` belongs to the pool."""
    return UID_BASE <= uid < UID_BASE + UID_COUNT


def passwd_entries() -> str:
    """Return the pool as lines of passwd(5)."""
    return "".join(
        f"{USER_NAME}:x:{uid}:{uid}:{USER_NAME}:{HOME}:{SHELL}\n"
        for uid in range(UID_BASE, UID_BASE + UID_COUNT)
    )


def group_entries() -> str:
    """Return the pool as lines of group(5), each group without members."""
    return "".join(f"{USER_NAME}:x:{gid}:\n" for gid in range(UID_BASE, UID_BASE + UID_COUNT))
