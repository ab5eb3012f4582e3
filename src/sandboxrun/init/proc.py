"""Readers of the kernel's texts: /proc/self/{status,mountinfo,limits}. See proc(5)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from sandboxrun.errors import ProtocolError

_OCTAL: Final = re.compile(r"\\([0-7]{3})")
_LIMIT_LINE: Final = re.compile(r"(Max [a-z ]+?) {2,}(\S+) +(\S+)(?: +[a-z]+)? *")
_BEFORE_SEPARATOR: Final = 6
_AFTER_SEPARATOR: Final = 3
_RLIMITS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Max cpu time": "cpu",
        "Max file size": "fsize",
        "Max data size": "data",
        "Max stack size": "stack",
        "Max core file size": "core",
        "Max resident set": "rss",
        "Max processes": "nproc",
        "Max open files": "nofile",
        "Max locked memory": "memlock",
        "Max address space": "as",
        "Max file locks": "locks",
        "Max pending signals": "sigpending",
        "Max msgqueue size": "msgqueue",
        "Max nice priority": "nice",
        "Max realtime priority": "rtprio",
        "Max realtime timeout": "rttime",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """One line of mountinfo. Texts that are not UTF-8 are shown escaped."""

    point: str
    root: str
    """Which part of the file system is mounted."""
    fstype: str
    source: str
    options: frozenset[str]
    """Options of this mount: "ro", "nosuid", …"""
    super_options: frozenset[str]
    """Options of the file system."""
    propagation: tuple[str, ...]
    """Optional fields such as "shared:1"; empty for a private mount."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rlimit:
    """One resource limit; None is unlimited."""

    name: str
    """As in setrlimit(2), in lower case without the prefix."""
    soft: int | None
    hard: int | None


def text_lines(text: str) -> list[str]:
    """Return the lines of a kernel text: separated by newlines alone, unlike `str.splitlines`.

    Raises `ProtocolError` when the last line is cut short.
    """
    if text and not text.endswith("\n"):
        raise ProtocolError("A text of the kernel is cut short.")
    return text.split("\n")[:-1]


def parse_status(text: str) -> Mapping[str, str]:
    """Return the fields of /proc/self/status.

    Raises `ProtocolError` for a malformed line or a repeated field.
    """
    fields: dict[str, str] = {}
    for line in text_lines(text):
        name, separator, value = line.partition(":")
        if not separator or name in fields:
            raise ProtocolError(f"A line of the status is malformed: {line[:80]!r}")
        fields[name] = value.strip()
    return fields


def parse_limits(text: str) -> tuple[Rlimit, ...]:
    """Return the limits of /proc/self/limits.

    Raises `ProtocolError` for a malformed line. Limits this module does not know are left out.
    """
    lines = text_lines(text)
    if not lines or not lines[0].startswith("Limit "):
        raise ProtocolError("The limits lack their heading.")
    limits = []
    for line in lines[1:]:
        match = _LIMIT_LINE.fullmatch(line)
        if match is None:
            raise ProtocolError(f"A line of the limits is malformed: {line[:80]!r}")
        name = _RLIMITS.get(match[1])
        if name is not None:
            limits.append(Rlimit(name=name, soft=_bound(match[2]), hard=_bound(match[3])))
    return tuple(limits)


def parse_mountinfo(text: str) -> tuple[Mount, ...]:
    """Return the mounts of /proc/self/mountinfo, in order.

    Raises `ProtocolError` for a malformed line.
    """
    return tuple(_mount(line) for line in text_lines(text))


def _mount(line: str) -> Mount:
    before, separator, after = line.partition(" - ")
    fields, rest = before.split(" "), after.split(" ")
    if not separator or len(fields) < _BEFORE_SEPARATOR or len(rest) != _AFTER_SEPARATOR:
        raise ProtocolError(f"A line of mountinfo is malformed: {line[:80]!r}")
    return Mount(
        point=_unescape(fields[4]),
        root=_unescape(fields[3]),
        fstype=rest[0],
        source=_unescape(rest[1]),
        options=frozenset(fields[5].split(",")),
        super_options=frozenset(_unescape(option) for option in rest[2].split(",")),
        propagation=tuple(fields[6:]),
    )


def _unescape(text: str) -> str:
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), text)


def _bound(word: str) -> int | None:
    return None if word == "unlimited" else int(word)
