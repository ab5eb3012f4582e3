"""One name in one layer, and what overlayfs means by it.

The formats are the kernel's (Documentation/filesystems/overlayfs.rst): a whiteout is a character
device 0/0, a directory that hides what is below it has ``trusted.overlay.opaque`` = ``y``, and a
renamed one says in ``trusted.overlay.redirect`` where its older contents are.
"""

from __future__ import annotations

import stat
from dataclasses import dataclass
from typing import Final

OVERLAY_PREFIX: Final = "trusted.overlay."
OPAQUE: Final = f"{OVERLAY_PREFIX}opaque"
REDIRECT: Final = f"{OVERLAY_PREFIX}redirect"


@dataclass(frozen=True, slots=True)
class Entry:
    """What lstat, readlink and the extended attributes say. Sizes in bytes, times in ns."""

    mode: int
    """Kind and permission bits."""
    uid: int
    gid: int
    size: int
    mtime_ns: int
    rdev: int
    device: int
    inode: int
    links: int
    target: bytes
    """Of a symbolic link; empty otherwise."""
    xattrs: tuple[tuple[str, bytes], ...]
    """Sorted, without those of overlayfs itself."""
    opaque: bool
    redirect: bytes | None

    @property
    def is_dir(self) -> bool:
        """A directory."""
        return stat.S_ISDIR(self.mode)

    @property
    def is_file(self) -> bool:
        """A regular file."""
        return stat.S_ISREG(self.mode)

    @property
    def is_whiteout(self) -> bool:
        """Not there, whatever the layers below hold."""
        return stat.S_ISCHR(self.mode) and self.rdev == 0

    def same_metadata(self, other: Entry) -> bool:
        """Whether all but the content is equal. A directory's size and time say nothing."""
        mine = (self.mode, self.uid, self.gid, self.rdev, self.target, self.xattrs)
        theirs = (other.mode, other.uid, other.gid, other.rdev, other.target, other.xattrs)
        if mine != theirs:
            return False
        return self.is_dir or (self.size, self.mtime_ns) == (other.size, other.mtime_ns)
