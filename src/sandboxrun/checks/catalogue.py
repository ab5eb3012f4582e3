"""All probes, in the order they are told."""

from __future__ import annotations

from typing import Final

from sandboxrun.checks.probe import Probe
from sandboxrun.checks.probes.clock import TIME
from sandboxrun.checks.probes.files import FILES
from sandboxrun.checks.probes.kernel_files import KERNEL_FILES
from sandboxrun.checks.probes.leaks import LEAKS
from sandboxrun.checks.probes.limits import LIMITS
from sandboxrun.checks.probes.mounts import MOUNT_PROBES
from sandboxrun.checks.probes.network import NETWORK
from sandboxrun.checks.probes.privileges import PRIVILEGES
from sandboxrun.checks.probes.processes import PROCESSES
from sandboxrun.checks.probes.resources import RESOURCES
from sandboxrun.checks.probes.secrets import SECRETS
from sandboxrun.checks.probes.syscalls import SYSCALLS

PROBES: Final[tuple[Probe, ...]] = (
    *NETWORK,
    *PRIVILEGES,
    *SYSCALLS,
    *MOUNT_PROBES,
    *FILES,
    *KERNEL_FILES,
    *SECRETS,
    *LEAKS,
    *TIME,
    *LIMITS,
    *PROCESSES,
    *RESOURCES,
)
