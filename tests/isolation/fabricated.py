"""Probes that nothing on this machine can open, each with the reason, on made-up observations."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass, replace

from sandboxrun.checks.attempt import Attempt, Observation
from sandboxrun.checks.probe import Probe, Seen
from sandboxrun.checks.surroundings import Surroundings

WORKED = Observation(value=3)
REACHED = Observation(value=-1, error=errno.EINVAL)
SHOWN = Observation(value=10, text="x\n")


@dataclass(frozen=True)
class Fabrication:
    """What would be seen, and why it cannot be seen here."""

    reason: str
    observation: Observation
    around: Callable[[Surroundings], Surroundings] = lambda around: around

    def seen(self, probe: Probe, around: Surroundings) -> Seen:
        changed = self.around(around)
        found: dict[Attempt, Observation] = dict.fromkeys(
            probe.attempts_in(changed), self.observation
        )
        return Seen(found, changed)


NO_KERNEL = "this kernel is built without it"
FABRICATED = {
    "sys.kexec": Fabrication(NO_KERNEL, REACHED),
    "sys.modules": Fabrication(NO_KERNEL, REACHED),
    "sys.lookup_dcookie": Fabrication(NO_KERNEL, REACHED),
    "sys.ports": Fabrication(NO_KERNEL, WORKED),
    "sys.x32": Fabrication(NO_KERNEL, WORKED),
    "sys.realtime": Fabrication("cgroups of this engine get no real-time CPU time", WORKED),
    "fs.mknod": Fabrication("this machine's engine gives no container a disk", WORKED),
    "fs.dotdot_root": Fabrication("a container's root cannot be left by '..'", SHOWN),
    "fs.sysrq": Fabrication(NO_KERNEL, WORKED),
    "fs.binfmt_misc": Fabrication("binfmt_misc is not mounted on this machine", WORKED),
    "fs.timer": Fabrication(NO_KERNEL, WORKED),
    "fs.proc_devices": Fabrication("this machine has no such hardware", SHOWN),
    "fs.sys_sensors": Fabrication("this machine has no such hardware", SHOWN),
    "info.dmi": Fabrication("this machine has no DMI tables", SHOWN),
    "time.rtc": Fabrication("this machine has no hardware clock", WORKED),
    "time.wallclock": Fabrication(
        "the clock of a container is the host's",
        Observation(value=1),
        lambda around: replace(around, now=1e9),
    ),
    "lim.oom_score": Fabrication(
        "this machine's engine may not lower the score", Observation(text="-500\n")
    ),
    "res.queues": Fabrication("the machine's default is a limit, too", Observation(value=65_536)),
    "res.timers": Fabrication("the machine's default is a limit, too", Observation(value=10**6)),
    "res.inotify": Fabrication("the machine's default is a limit, too", Observation(value=4296)),
    "res.terminals": Fabrication(
        "it would take the terminals of everybody on this machine",
        Observation(value=3072, error=errno.ENOSPC),
    ),
    "res.memory_shm": Fabrication("the engine's default is a limit, too", Observation(value=128)),
}
