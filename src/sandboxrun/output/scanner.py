"""Finding credentials in bytes with Hyperscan: linear in their length, no backtracking.

Two questions are answered about a text: which credentials does it hold, and from where on might
its end be the beginning of one.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import threading
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Final, NamedTuple

import hyperscan

from sandboxrun.output.secret_forms import Secret, forms
from sandboxrun.output.token_tails import Tail
from sandboxrun.output.tokens import FORMATS, LONGEST_TRIGGER, LOOSE_FORMATS, Format

_HEAD_BYTES: Final = 4
_KNOWN: Final = 0
_FORMAT: Final = 1
_WRAPPED_LINE: Final = rb"[A-Za-z0-9+/=_-]{60}\n"


class Found(NamedTuple):
    """A credential, or with a tail the beginning of one.

    In the order in which findings name a range: the first, a known secret, the longest.
    """

    start: int
    rank: int
    minus_end: int
    label: str
    tail: Tail | None = None


class Database:
    """Compiled patterns. Safe to use from several threads, one at a time."""

    def __init__(
        self,
        patterns: Sequence[bytes],
        *,
        literal: bool = False,
        starts: bool = False,
        cache: Path | None = None,
    ) -> None:
        """Compile ``patterns``: regular expressions, or with ``literal`` plain bytes.

        With ``cache``, a directory that only its owner can write to, the result is kept there,
        since compiling takes a hundred times as long as loading.
        """
        flags = hyperscan.HS_FLAG_DOTALL | (hyperscan.HS_FLAG_SOM_LEFTMOST if starts else 0)
        self._lock = threading.Lock()
        kept = None if cache is None else cache / f"redaction-{_digest(patterns, flags)}.hsdb"
        loaded = None if kept is None else _load(kept)
        if loaded is not None:
            self._database = loaded
            return
        self._database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        self._database.compile(
            expressions=list(patterns),
            ids=list(range(len(patterns))),
            elements=len(patterns),
            flags=[0 if literal else flags] * len(patterns),
            literal=literal,
        )
        if kept is not None:
            _keep(kept, hyperscan.dumpb(self._database))

    def matches(self, text: bytes) -> list[tuple[int, int, int]]:
        """Return pattern number, start (0 unless compiled with ``starts``) and end of each."""
        found: list[tuple[int, int, int]] = []

        def keep(number: int, start: int, end: int, _flags: int, _context: object) -> None:
            found.append((number, start, end))

        with self._lock:
            self._database.scan(text, match_event_handler=keep)
        return found


class KnownSecrets:
    """Secrets whose bytes are known, in all their forms."""

    def __init__(self, secrets: Iterable[Secret]) -> None:
        labels: dict[bytes, str] = {}
        for secret in secrets:
            for form in forms(secret.value):
                labels.setdefault(form, secret.shown_label)
        self._forms = sorted(labels)
        self._labels = [labels[form] for form in self._forms]
        self._longest = max(map(len, self._forms), default=0)
        self._heads: dict[bytes, list[bytes]] = {}
        for form in self._forms:
            self._heads.setdefault(form[:_HEAD_BYTES], []).append(form)
        self._short = {
            form[:size] for form in self._forms for size in range(1, min(_HEAD_BYTES, len(form)))
        }
        self._database = Database(self._forms, literal=True) if self._forms else None
        self._head_database = Database(list(self._heads), literal=True) if self._heads else None

    def __bool__(self) -> bool:
        """Whether there is anything to look for."""
        return bool(self._forms)

    def find(self, text: bytes) -> list[Found]:
        """Return every occurrence in ``text``, overlapping ones included."""
        if self._database is None:
            return []
        return [
            Found(end - len(self._forms[number]), _KNOWN, -end, self._labels[number])
            for number, _, end in self._database.matches(text)
        ]

    def begun(self, text: bytes) -> int:
        """Return the first place from which on ``text`` might be the beginning of a secret."""
        if self._head_database is None:
            return len(text)
        tail = text[len(text) - self._longest + 1 :] if len(text) >= self._longest else text
        offset = len(text) - len(tail)
        for _, _, end in sorted(self._head_database.matches(tail), key=lambda match: match[2]):
            start = end - _HEAD_BYTES
            rest = tail[start:]
            if any(
                len(form) > len(rest) and form.startswith(rest)
                for form in self._heads[tail[start:end]]
            ):
                return offset + start
        for size in range(min(_HEAD_BYTES - 1, len(tail)), 0, -1):
            if tail[-size:] in self._short:
                return len(text) - size
        return len(text)


class TokenScanner:
    """Well-known credential formats. Made once and shared."""

    def __init__(self, cache: Path | None = None) -> None:
        """Compile the formats, which takes a quarter of a second, or load them from ``cache``."""
        self._formats = [(form.length, form.label, form.tail) for form in FORMATS]
        triggers = [form.left + _body(form) for form in FORMATS]
        self._triggers = Database(triggers, cache=cache)
        self._loose = Database([form.trigger for form in LOOSE_FORMATS], cache=cache)
        begun = [_begun(form) for form in FORMATS]
        begun += (b"(?:" + b"|".join(form.begun) + rb")\z" for form in LOOSE_FORMATS)
        self._begun = Database(begun, starts=True, cache=cache)
        self._wraps = Database([_WRAPPED_LINE], cache=cache)

    def find(self, text: bytes) -> list[Found]:
        """Return every credential in ``text``, overlapping ones included."""
        found: list[Found] = []
        for number, _, end in self._triggers.matches(text):
            length, label, tail = self._formats[number]
            found.append(Found(end - length, _FORMAT, -end, label, tail))
        for number, _, end in self._loose.matches(text):
            loose = LOOSE_FORMATS[number]
            start = text.rfind(loose.opening, 0, end) + loose.skip
            found.append(Found(start, _FORMAT, loose.keep - end, loose.label, loose.tail))
        return found

    def wraps(self, text: bytes) -> list[int]:
        """Return the newlines that only wrap a line of encoded data, in order."""
        return [end - 1 for _, _, end in self._wraps.matches(text)]

    def begun(self, text: bytes) -> int:
        """Return the first place from which on ``text`` might be the beginning of a credential."""
        tail = text[-LONGEST_TRIGGER:]
        starts = [start for _, start, _ in self._begun.matches(tail)]
        return len(text) - len(tail) + min(starts, default=len(tail))


def _body(form: Format) -> bytes:
    return b"".join(piece.char + b"{%d}" % piece.count for piece in form.body)


def _begun(form: Format) -> bytes:
    """Return a pattern for every text that ends with some, but not all, of the body."""
    ways = []
    before = b""
    for position, piece in enumerate(form.body):
        most = piece.count - (position == len(form.body) - 1)
        if most:
            ways.append(before + piece.char + b"{1,%d}" % most)
        before += piece.char + b"{%d}" % piece.count
    return form.left + b"(?:" + b"|".join(ways) + rb")\z"


def _digest(patterns: Sequence[bytes], flags: int) -> str:
    digest = hashlib.sha256(f"{version('hyperscan')} {platform.machine()} {flags}".encode())
    for pattern in patterns:
        digest.update(b"%d:" % len(pattern) + pattern)
    return digest.hexdigest()[:32]


def _load(path: Path) -> hyperscan.Database | None:
    try:
        database = hyperscan.loadb(path.read_bytes(), hyperscan.HS_MODE_BLOCK)
        # A loaded one comes without its working memory.
        database.scratch = hyperscan.Scratch(database)
    except (OSError, hyperscan.error):
        # Absent, damaged, or made by another processor or version: compiled again.
        return None
    return database


def _keep(path: Path, data: bytes) -> None:
    written = path.with_suffix(f".{os.getpid()}")
    try:
        written.write_bytes(data)
        written.replace(path)
    except OSError:
        # Slower next time, and nothing else; half a file would only be in the way.
        with contextlib.suppress(OSError):
            written.unlink(missing_ok=True)
