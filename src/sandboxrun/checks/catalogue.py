"""All probes, in the order they are told."""

from __future__ import annotations

from typing import Final

from sandboxrun.checks.probe import Probe
from sandboxrun.checks.probes.syscalls import SYSCALLS

PROBES: Final[tuple[Probe, ...]] = (*SYSCALLS,)
