"""How the image's passwd and group name the uids that commands run as.

The numbers are `sandboxrun.model.uids`; here is what the image says about each of them.
"""

from __future__ import annotations

from sandboxrun.model.uids import UID_COUNT, UID_FIRST

USER_NAME = "agent"
"""What `whoami` says for each of them."""
HOME = "/workspace/.home"
"""Home of each of them, inside the workspace so that it is part of its snapshots."""
SHELL = "/bin/bash"


def passwd_entries() -> str:
    """Return the pool as lines of passwd(5); the gid is always the same number as the uid."""
    return "".join(
        f"{USER_NAME}:x:{uid}:{uid}:{USER_NAME}:{HOME}:{SHELL}\n"
        for uid in range(UID_FIRST, UID_FIRST + UID_COUNT)
    )


def group_entries() -> str:
    """Return the pool as lines of group(5), each group without members."""
    return "".join(f"{USER_NAME}:x:{gid}:\n" for gid in range(UID_FIRST, UID_FIRST + UID_COUNT))
