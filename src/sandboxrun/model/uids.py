"""The uids commands run as.

Not 1000: processes of one uid share inotify, pipe and signal budgets across containers and with
the host's own users. The range is below 2,097,152, the largest uid a ustar header can carry. The
workspace image names all of them ``agent``.
"""

from __future__ import annotations

UID_FIRST = 2_000_000
UID_COUNT = 4096
