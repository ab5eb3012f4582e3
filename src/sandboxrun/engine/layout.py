"""Where our own files are: in the init's volume and in every container."""

from __future__ import annotations

from typing import Final

INIT_MOUNT: Final = "/.sandboxrun"
"""Where the init's volume is mounted, read-only."""
INIT_FILE: Final = "sandboxrun-init"
INIT_PATH: Final = f"{INIT_MOUNT}/{INIT_FILE}"
SECCOMP_FILE: Final = "seccomp.json"
ETC_FILES: Final = ("hostname", "hosts", "resolv.conf")
"""Names below ``etc/`` of the volume, each mounted over the file of that name in /etc."""
WORKSPACE: Final = "/workspace"
DEFAULT_HOSTNAME: Final = "sandbox"
