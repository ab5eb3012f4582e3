"""The command line's side: hand the command over, pass signals on, exit with its status.

It runs in the time it takes Python to start, so it imports only what the interpreter has loaded
anyway, and modules written in C.
"""

from __future__ import annotations

import _signal as signals  # type: ignore[import-not-found]
import _socket as sockets
import os
import sys

from sandboxrun.interfaces.daemon import wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

_SWITCH = "SANDBOXRUN_DAEMON"
_OFF = frozenset({"off", "0", "no", "false"})
_AUTO = "auto"
_LOST_STATUS = 121
_SIGNALS = (signals.SIGINT, signals.SIGTERM, signals.SIGHUP)
_LOST = (
    "sandboxrun: The daemon ended while the command ran; how it went on is not known here.\n"
    "`sandboxrun runs list` shows it once the next command has recovered it.\n"
)


def handed_over(arguments: list[str]) -> int | None:
    """Have the daemon carry ``arguments`` out; return the exit status.

    None: there is no daemon, or it declines. Nothing has been done then.
    """
    switch = os.environ.get(_SWITCH, "").lower()
    if arguments[:1] != ["exec"] or switch in _OFF:
        return None
    daemon = _connected()
    if daemon is None:
        if switch == _AUTO:
            _begin()
        return None
    try:
        return _carried_out(daemon, arguments)
    finally:
        daemon.close()


def state_directory() -> str:
    """Return where the daemon's socket is looked for: what is set, or the usual place.

    One that only the configuration file names has no daemon that this would find.
    """
    named = os.environ.get("SANDBOXRUN_STATE_DIR")
    if named:
        return named
    home = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")  # noqa: PTH111 - see above
    return f"{home}/sandboxrun"


def _connected() -> sockets.socket | None:
    daemon = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM | sockets.SOCK_CLOEXEC)
    try:
        directory = os.open(state_directory(), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # By descriptor: a socket's path is limited to 107 bytes, a directory's is not.
            daemon.connect(f"/proc/self/fd/{directory}/{wire.SOCKET}")
        finally:
            os.close(directory)
    except OSError:
        daemon.close()
        return None
    return daemon


def _begin() -> None:
    """Start a daemon for the next command line; this one does not wait for it."""
    null = [(os.POSIX_SPAWN_OPEN, number, "/dev/null", os.O_RDWR, 0) for number in range(3)]
    command = [sys.executable, "-m", "sandboxrun", "daemon", "start"]
    os.posix_spawn(sys.executable, command, os.environ, file_actions=null, setsid=True)


def _carried_out(daemon: sockets.socket, arguments: list[str]) -> int | None:
    terminal = _terminal()
    streams = [0, 1, 2] if terminal is None else [0, 1, 2, terminal]
    try:
        if not _sent(daemon, arguments, streams) or daemon.recv(1) != wire.ACCEPTED:
            return None
    except OSError:
        # It had not accepted: whatever it was, nothing has been done.
        return None
    finally:
        if terminal is not None:
            os.close(terminal)
    return _awaited(daemon)


def _sent(daemon: sockets.socket, arguments: list[str], streams: list[int]) -> bool:
    environment = [name + b"=" + value for name, value in os.environb.items()]
    cwd = os.getcwdb()  # noqa: PTH109 - pathlib takes as long to import as all of this
    data = wire.request([os.fsencode(each) for each in arguments], cwd, environment)
    if len(data) > wire.LARGEST:
        return False
    rights = b"".join(each.to_bytes(4, sys.byteorder) for each in streams)
    sent = daemon.sendmsg([data], [(sockets.SOL_SOCKET, sockets.SCM_RIGHTS, rights)])
    daemon.sendall(data[sent:])
    return True


def _awaited(daemon: sockets.socket) -> int:
    def pass_on(_number: int, _frame: FrameType | None) -> None:
        try:
            daemon.send(wire.CANCEL)
        except OSError:
            # It is about to be told how it ended.
            return

    for number in _SIGNALS:
        if signals.getsignal(number) is not signals.SIG_IGN:
            signals.signal(number, pass_on)
    data = b""
    try:
        while piece := daemon.recv(64):
            data += piece
    except OSError:
        data = b""
    status = wire.status_of(data)
    if status is None:
        sys.stderr.write(_LOST)
        return _LOST_STATUS
    return status


def _terminal() -> int | None:
    """Return the controlling terminal, where one could be asked something."""
    if not os.isatty(2):
        return None
    try:
        return os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return None
