"""Where the process begins: it listens for ^C before it imports what takes time.

What is before that (some milliseconds) is Python starting itself.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]
import os
import sys
from importlib import import_module

from sandboxrun.interfaces.daemon.client import handed_over

CANCELLED_STATUS = 130


def quit_at_once(_number: int, _frame: object) -> None:
    """End the process. For as long as it owns nothing that would have to be undone."""
    os._exit(CANCELLED_STATUS)


def main() -> None:
    """Run the command line and exit with its status."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        # Whoever starts us in the background of a script has ^C ignored; so it stays.
        signal.signal(signal.SIGINT, quit_at_once)
    status = handed_over(sys.argv[1:])
    if status is not None:
        # Nothing is open, and what Python does at its end takes as long as its start.
        os._exit(status)
    command_line = import_module("sandboxrun.interfaces.cli.main")
    sys.exit(command_line.run_command_line(sys.argv[1:]))
