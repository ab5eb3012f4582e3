"""Standing answers: what an 'always' may cover, and whether it covers a request.

An 'always' is for the asks it was given for and for commands of one pattern: the very same text,
or one plain command of a package or version tool with other operands. Never a pattern for a head
that is quoted or known only at run time, and never one that would cover other options.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from sandboxrun.policy.authority import Authority
from sandboxrun.policy.decision import Objection
from sandboxrun.policy.requested import Form, Requested
from sandboxrun.screening.facts import Facts

_OPERAND: Final = re.compile(r"[A-Za-z0-9@._][A-Za-z0-9@._+/,=-]*", re.ASCII)
"""A package, a version, a branch: nothing absolute, no option, no URL, no forced ref."""
_PLAIN: Final = re.compile(r"[A-Za-z0-9@%._+/=:,-]+", re.ASCII)
"""Text that no shell changes."""
_SUBCOMMANDS: Final = MappingProxyType(
    {
        "apt": frozenset({"install"}),
        "apt-get": frozenset({"install"}),
        "cargo": frozenset({"add", "build", "fetch", "install", "update"}),
        "git": frozenset({"fetch", "pull", "push"}),
        "go": frozenset({"get", "install"}),
        "npm": frozenset({"ci", "i", "install"}),
        "pip": frozenset({"download", "install"}),
        "pip3": frozenset({"download", "install"}),
        "pnpm": frozenset({"add", "i", "install"}),
        "poetry": frozenset({"add", "install"}),
        "uv": frozenset({"add", "sync"}),
        "yarn": frozenset({"add", "install"}),
    }
)
"""Tools whose operands are names of packages or branches, whatever they are."""


class Pattern(BaseModel):
    """The commands an 'always' covers."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["exact", "operands"]
    form: Literal["shell", "argv"]
    cwd: str | None = None
    """Of an exact pattern: the working directory it was given for."""
    digest: str | None = None
    """Of an exact pattern: SHA-256 of the command's bytes."""
    words: tuple[str, ...] = ()
    """Of an operand pattern: the program, its subcommand and its options, each exactly."""
    shown: str
    """How people read it."""

    def covers(self, command: CommandText, facts: Facts) -> bool:
        """Tell whether a command is one of those this pattern stands for."""
        if command.form != self.form:
            return False
        if self.kind == "exact":
            return self.digest == command.digest() and self.cwd == command.cwd
        words = _plain_words(command, facts)
        return words is not None and _fixed(words) == self.words and _has_operands(words)


@dataclass(frozen=True, slots=True)
class CommandText:
    """A command as it was given: a script, or the arguments of one program."""

    form: Form
    parts: tuple[bytes, ...]
    """The script alone, or every argument."""
    cwd: str | None = None

    def digest(self) -> str:
        """Return the SHA-256 (hex) of the form and every byte."""
        parts = b"".join(b"%d:%b" % (len(part), part) for part in self.parts)
        return hashlib.sha256(self.form.encode() + b"\0" + parts).hexdigest()

    def source(self) -> bytes:
        """Return the bytes that the spans of facts count in."""
        return b" ".join(self.parts)


class Grant(BaseModel):
    """A standing yes of one principal for one workspace."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    grant_id: str
    principal: str
    workspace: str
    pattern: Pattern
    lifts: frozenset[str] = Field(min_length=1)
    """Keys of the objections it answers (`Objection.key`)."""
    env_names: tuple[str, ...] = ()
    """Variables that may be set; others make it ask again."""


def offered_pattern(
    command: CommandText, facts: Facts, requested: Requested, asks: Sequence[Objection]
) -> Pattern | None:
    """Return the widest pattern an 'always' may safely have, or None when there is no safe one."""
    if requested.stdin or not facts.commands or any(ask.expansion for ask in asks):
        return None
    if any(word.text is None for each in facts.commands for word in each.words):
        return None
    words = _plain_words(command, facts)
    if words is not None and _generalises(words):
        fixed = _fixed(words)
        shown = " ".join(fixed) + " OPERAND…"
        return Pattern(kind="operands", form=command.form, words=fixed, shown=shown)
    text = command.source().decode("utf-8", "backslashreplace")
    return Pattern(
        kind="exact", form=command.form, digest=command.digest(), cwd=command.cwd, shown=text
    )


def covering_grant(
    grants: Sequence[Grant],
    authority: Authority,
    requested: Requested,
    command: CommandText,
    facts: Facts,
    asks: Sequence[Objection],
) -> Grant | None:
    """Return the first grant that answers every ask, or None. Several never add up."""
    if requested.stdin or any(ask.expansion for ask in asks):
        return None
    keys = {ask.key for ask in asks}
    for grant in grants:
        if (
            grant.principal == authority.principal
            and grant.workspace == authority.workspace
            and keys <= grant.lifts
            and set(requested.env_names) <= set(grant.env_names)
            and grant.pattern.covers(command, facts)
        ):
            return grant
    return None


def _plain_words(command: CommandText, facts: Facts) -> tuple[str, ...] | None:
    """Return the words of a command that is nothing but one simple command, spelt plainly."""
    if len(facts.commands) != 1 or facts.redirections:
        return None
    words = tuple(word.text for word in facts.commands[0].words)
    spelt = _spelt(command)
    if spelt is None or words != spelt:
        return None
    return spelt


def _spelt(command: CommandText) -> tuple[str, ...] | None:
    pieces: Sequence[bytes]
    if command.form == "argv":
        pieces = command.parts
    else:
        script = command.parts[0].strip(b" ")
        # Blanks between plain words are all the shell syntax there may be.
        pieces = [piece for piece in script.split(b" ") if piece]
    try:
        texts = tuple(piece.decode("ascii") for piece in pieces)
    except UnicodeDecodeError:
        return None
    if not texts or not all(_PLAIN.fullmatch(text) for text in texts) or "=" in texts[0]:
        return None
    return texts


def _generalises(words: tuple[str, ...]) -> bool:
    if len(words) < 3 or words[1] not in _SUBCOMMANDS.get(words[0], frozenset()):  # noqa: PLR2004 - program, subcommand, operand
        return False
    return _has_operands(words)


def _fixed(words: tuple[str, ...]) -> tuple[str, ...]:
    return (*words[:2], *(word for word in words[2:] if word.startswith("-")))


def _has_operands(words: tuple[str, ...]) -> bool:
    operands = [word for word in words[2:] if not word.startswith("-")]
    return bool(operands) and all(map(_is_operand, operands))


def _is_operand(word: str) -> bool:
    return _OPERAND.fullmatch(word) is not None and ".." not in word and "//" not in word
