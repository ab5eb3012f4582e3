"""What a sandbox needs of an image, and what commands commonly expect there."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How much a lack matters."""

    FATAL = "fatal"
    """No command can run."""
    SHELL = "shell"
    """Shell commands can't run; programs given with ``--`` can."""
    WARNING = "warning"
    """Commands that models write every day will fail."""
    NOTE = "note"
    """Works, but less well than it could."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One thing to look for: the first of ``names`` found in PATH, or of absolute paths."""

    name: str
    names: tuple[str, ...]
    severity: Severity
    why: str
    executable: bool = True


_BASICS = ("ls", "cat", "cp", "mv", "rm", "mkdir", "head", "sort", "env")
_SEARCH = ("grep", "sed", "awk", "find", "xargs", "diff")
_ARCHIVES = ("tar", "gzip", "xz", "zstd")
_EXTRAS = ("jq", "rg", "patch", "file", "less", "make", "ps")

SHELL = "/bin/bash"
"""The shell of shell commands."""

REQUIREMENTS: tuple[Requirement, ...] = (
    Requirement("bash", (SHELL,), Severity.SHELL, "shell commands run under /bin/bash"),
    *(Requirement(n, (n,), Severity.WARNING, "a basic command") for n in _BASICS),
    *(Requirement(n, (n,), Severity.WARNING, "used in most shell commands") for n in _SEARCH),
    Requirement("git", ("git",), Severity.WARNING, "projects are kept in git"),
    Requirement("python3", ("python3",), Severity.WARNING, "scripts are written in Python"),
    Requirement("pip", ("pip3", "pip"), Severity.NOTE, "local wheels are installed with it"),
    *(Requirement(n, (n,), Severity.NOTE, "archives are packed with it") for n in _ARCHIVES),
    *(Requirement(n, (n,), Severity.NOTE, "models reach for it") for n in _EXTRAS),
    Requirement(
        "gitconfig",
        ("/etc/gitconfig",),
        Severity.NOTE,
        "without core.checkStat=minimal git reads every file again after snapshots are merged",
        executable=False,
    ),
    Requirement(
        "ca-certificates",
        ("/etc/ssl/certs/ca-certificates.crt",),
        Severity.NOTE,
        "programs verify TLS with it",
        executable=False,
    ),
)
