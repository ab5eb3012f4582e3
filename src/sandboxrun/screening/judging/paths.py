"""Where a path leads: normalised, with globs matched backwards against what matters."""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import Final

from sandboxrun.screening.reading import marks
from sandboxrun.screening.reading.marks import HOME, HOME_PATH
from sandboxrun.screening.reading.scope import WORKSPACE, Scope


class Place(Enum):
    """What a path names, from the least to the most harmless to change."""

    ROOT = auto()
    SYSTEM = auto()
    """Programs, libraries, configuration and kernel interfaces of the machine."""
    STATE = auto()
    """Inside /var and /run."""
    HOME = auto()
    """A home directory itself."""
    IN_HOME = auto()
    RAW = auto()
    """A device that is a disk, or memory."""
    DEVICE = auto()
    """A harmless device such as /dev/null."""
    OUTSIDE = auto()
    """Any other place outside the workspace."""
    TEMPORARY = auto()
    """The directory for temporary files itself."""
    IN_TEMPORARY = auto()
    WORKSPACE = auto()
    """The workspace's root."""
    INSIDE = auto()
    """Inside the workspace."""
    UNKNOWN = auto()


_SYSTEM: Final = frozenset(
    "bin boot dev etc lib lib32 lib64 libx32 proc sbin sys usr System Library Applications".split()
)
_STATE: Final = frozenset({"var", "run"})
_TOP: Final = _SYSTEM | _STATE | {"root", "home", "opt", "srv", "Users", "tmp", "workspace"}
_TEMPORARY: Final = (["tmp"], ["var", "tmp"], ["dev", "shm"], ["private", "tmp"])
_DISK: Final = re.compile(
    r"(?:[shv]d[a-z]|xvd[a-z]|nvme\d|mmcblk\d|loop\d|md\d|dm-\d|sr\d|fd\d$|nbd\d|disk\d|rdisk\d)"
    r"|(?:mapper|disk|vg\w*|md|block|raw|mem|kmem|port|kmsg)$"
)
_SAFE_DEVICE: Final = frozenset(
    "null zero full random urandom tty stdin stdout stderr fd ptmx pts console".split()
)


def normalise(path: str) -> str:
    """Return an absolute path without ``.``, ``..`` and doubled slashes."""
    parts: list[str] = []
    for part in path.split("/"):
        if part in ("", "."):
            continue
        if part == "..":
            del parts[-1:]
        else:
            parts.append(part)
    return _with_home("/" + "/".join(parts))


_HOME: Final = re.compile(r"/(?:root|home/[^/]+|Users/[^/]+|workspace/\.home)(?=/|$)")


def _with_home(path: str) -> str:
    match = _HOME.match(path)
    if match is None or marks.UNKNOWN in match[0] or marks.SPLAT in match[0]:
        return path
    if marks.has_glob(match[0]):
        return path if match.end() == len(path) else HOME_PATH + path[match.end() :]
    return HOME_PATH + path[match.end() :]


_LONGEST: Final = 4096
"""PATH_MAX: the kernel refuses longer ones."""


def resolve(text: str, scope: Scope) -> list[str]:
    """Return the absolute paths that ``text`` can name, one for each working directory.

    A path that begins with an unknown stays as it is: it could be anywhere.
    """
    if len(text) > _LONGEST:
        return [marks.UNKNOWN]
    if text.startswith("/"):
        return [normalise(text)]
    if text[:1] in (marks.UNKNOWN, marks.SPLAT, marks.NETWORK, marks.DECODED) or not text:
        return [text]
    found = []
    for directory in scope.directories():
        anywhere = marks.is_unresolved(directory)
        found.append(marks.UNKNOWN + "/" + text if anywhere else normalise(f"{directory}/{text}"))
    return found


def place_of(path: str) -> Place:
    """Return what a resolved path names. Globs and unknowns count as the worst they can be."""
    if not path.startswith("/"):
        return Place.UNKNOWN
    parts = path[1:].split("/") if path != "/" else []
    if not parts:
        return Place.ROOT
    if parts[0] == HOME:
        return Place.HOME if len(parts) == 1 else Place.IN_HOME
    for temporary in _TEMPORARY:
        if parts[: len(temporary)] == temporary:
            return Place.TEMPORARY if len(parts) == len(temporary) else Place.IN_TEMPORARY
    if parts[0] == "dev":
        return _device(parts)
    first = parts[0]
    if first == WORKSPACE[1:]:
        return Place.WORKSPACE if len(parts) == 1 else Place.INSIDE
    if first in _SYSTEM or (len(parts) == 1 and first in _TOP):
        return Place.SYSTEM
    if first in _STATE:
        return Place.STATE
    if marks.is_unresolved(first):
        return Place.UNKNOWN
    if (marks.has_glob(first) or marks.OPAQUE in first) and any(
        component_matches(first, top) for top in _TOP
    ):
        return Place.SYSTEM
    if first in ("home", "Users"):
        return Place.HOME
    return Place.OUTSIDE


def _device(parts: list[str]) -> Place:
    if len(parts) == 1:
        return Place.SYSTEM
    name = parts[1]
    if name in _SAFE_DEVICE or name.startswith("tty"):
        return Place.DEVICE
    if _DISK.match(name) or marks.has_glob(name) or marks.is_unresolved(name):
        return Place.RAW
    if name in ("tcp", "udp") or name[:1] >= marks.PROCESS:
        return Place.DEVICE
    return Place.SYSTEM


_TRANSLATION: Final = {
    marks.STAR: ".*",
    marks.ONE: ".",
    marks.UNKNOWN: ".*",
    marks.SPLAT: ".*",
    marks.OPAQUE: ".+",
    marks.NETWORK: ".*",
    marks.DECODED: ".*",
}


def component_matches(pattern: str, name: str) -> bool:
    """Tell whether a path component with marks can be ``name``."""
    if pattern.isascii():
        return pattern == name
    if pattern[0] in marks.GLOBS and name[0] == "." and pattern[0] != ".":
        return False
    try:
        return re.fullmatch(_regex(pattern), name) is not None
    except re.error:
        return True


def _regex(pattern: str) -> str:
    pieces = []
    at = 0
    while at < len(pattern):
        character = pattern[at]
        if character == marks.OPEN:
            close = pattern.find(marks.CLOSE, at + 2)
            if close < 0:
                pieces.append(re.escape("["))
            else:
                inner = marks.plain(pattern[at + 1 : close])
                negated = inner[:1] in ("!", "^")
                body = re.sub(r"\[:(\w+):\]", r"\\w", inner[negated:]).replace("[", r"\[")
                pieces.append(f"[{'^' if negated else ''}{body}]")
                at = close
        else:
            pieces.append(_TRANSLATION.get(character) or re.escape(marks.plain(character)))
        at += 1
    return "".join(pieces)


def matches(path: str, target: str, *, below: bool = True) -> bool:
    """Tell whether a resolved ``path`` can be ``target`` or (``below``) lie inside it."""
    if path.isascii() and target.isascii():
        return path == target or (below and path.startswith(target + "/"))
    mine, theirs = path.split("/"), target.split("/")
    if len(mine) < len(theirs) or (len(mine) > len(theirs) and not below):
        return False
    return all(component_matches(a, b) for a, b in zip(mine, theirs, strict=False) if b or a)
