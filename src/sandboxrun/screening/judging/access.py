"""What reading or writing a path means."""

from __future__ import annotations

import re
from typing import Final

from sandboxrun.screening.judging.paths import Place, matches, place_of, resolve
from sandboxrun.screening.judging.secrets import (
    SOCKETS,
    is_history,
    is_project_secret,
    is_secret,
)
from sandboxrun.screening.reading.scope import Scope

_AUTHORITY: Final = (
    *(
        "/etc/" + name
        for name in (
            "passwd group shadow gshadow sudoers sudoers.d ld.so.preload ld.so.conf ld.so.conf.d"
            " pam.d security cron.d cron.daily cron.hourly cron.weekly cron.monthly crontab init.d"
            " rc.local systemd ssh polkit-1 doas.conf subuid subgid login.defs profile profile.d"
            " bash.bashrc environment inittab"
        ).split()
    ),
    "/var/spool/cron",
    "/boot",
)
_KERNEL: Final = re.compile(r"/(?:proc|sys)(?:/|$)")
_OWN: Final = re.compile(
    r"/proc/(?:self|thread-self)/(?:fd/[012]|comm|oom_score_adj|timerslack_ns)$"
)


def read_codes(text: str, scope: Scope) -> list[str]:
    """Return the findings that reading the path ``text`` makes."""
    codes = []
    for path in resolve(text, scope):
        if SOCKETS.search(path):
            codes.append("escape.engine")
        elif is_secret(path):
            codes.append("secret.read")
        elif is_project_secret(path):
            codes.append("secret.project")
        elif is_history(path):
            codes.append("secret.history")
        if place_of(path) is Place.RAW:
            codes.append("device.raw")
    return codes


def probes_secret(text: str, scope: Scope) -> bool:
    """Tell whether testing the path ``text`` tells something about credentials."""
    return any(is_secret(path) for path in resolve(text, scope))


def write_codes(text: str, scope: Scope) -> list[str]:
    """Return the findings that writing the path ``text`` makes."""
    codes = read_codes(text, scope)
    for path in resolve(text, scope):
        match place_of(path):
            case Place.ROOT | Place.SYSTEM | Place.STATE:
                if any(matches(path, name) for name in _AUTHORITY):
                    codes.append("system.write")
                elif _KERNEL.match(path) and not _OWN.match(path):
                    codes.append("escape.kernel")
                else:
                    codes.append("outside.write")
            case Place.HOME | Place.IN_HOME | Place.OUTSIDE:
                codes.append("outside.write")
            case _:
                pass
    return codes
