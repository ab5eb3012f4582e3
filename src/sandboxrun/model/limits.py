"""Resource limits of one run."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

MIB = 1024 * 1024
GIB = 1024 * MIB
MOST_BYTES = 16 * 1024 * GIB
"""More than any machine has of anything."""


class Limits(BaseModel):
    """Hard limits, enforced by the kernel from outside the container."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    cpus: float = Field(default=2.0, gt=0, le=1024)
    """CPU seconds per second, as a CFS quota."""
    memory_bytes: int = Field(default=2 * GIB, ge=32 * MIB, le=MOST_BYTES)
    """Memory, tmpfs pages included. There is no swap on top of it."""
    pids: int = Field(default=512, ge=8, le=4_194_304)
    """Processes and threads, the init's own included."""
    disk_bytes: int = Field(default=4 * GIB, ge=MIB, le=MOST_BYTES)
    """Largest size of a single file (RLIMIT_FSIZE), in bytes."""
    tmp_bytes: int = Field(default=512 * MIB, ge=MIB, le=MOST_BYTES)
    """Size of /tmp, a tmpfs."""
    shm_bytes: int = Field(default=64 * MIB, ge=MIB, le=MOST_BYTES)
    """Size of /dev/shm, a tmpfs."""
    tmp_inodes: int = Field(default=65_536, ge=64)
    """Files in /tmp (and, an eighth of it, in the smaller tmpfs mounts)."""
    open_files: int = Field(default=4096, ge=512, le=20_000)
    """RLIMIT_NOFILE. crun keeps a descriptor for every path it hides, and counts them, too."""
