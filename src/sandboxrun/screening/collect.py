"""What one screening has met so far."""

from __future__ import annotations

from sandboxrun.screening.facts import (
    Effect,
    Facts,
    Finding,
    Redirection,
    ScreenedCommand,
    ScreenedWord,
    Tier,
    strictest,
)
from sandboxrun.screening.judging.reasons import REASONS, TIERS
from sandboxrun.screening.limits import COMMANDS
from sandboxrun.screening.reading import marks
from sandboxrun.screening.reading.expand import Arg


class Collector:
    """Gathers findings and facts; the same thing met twice counts once."""

    def __init__(self) -> None:
        self._findings: dict[tuple[str, int, int], Finding] = {}
        self._commands: dict[ScreenedCommand, None] = {}
        self._redirections: dict[Redirection, None] = {}
        self._lists: dict[str, dict[str, None]] = {}
        self.read_only = True

    def find(self, code: str, start: int, end: int) -> None:
        """Add a finding for these bytes."""
        key = (code, start, end)
        if key not in self._findings:
            self._findings[key] = Finding(
                code=code, reason=REASONS[code], tier=TIERS[code], start=start, end=end
            )

    def command(self, words: tuple[Arg, ...]) -> bool:
        """Add a simple command; False once there are too many."""
        if len(self._commands) >= COMMANDS:
            return False
        shown = tuple(
            ScreenedWord.model_construct(
                text=marks.shown(word.text) if marks.is_static(word.text) else None,
                start=word.start,
                end=word.end,
            )
            for word in words
        )
        start, end = words[0].start, max(word.end for word in words)
        self._commands[ScreenedCommand.model_construct(words=shown, start=start, end=end)] = None
        return True

    def redirection(self, operator: str, target: Arg) -> None:
        """Add a redirection."""
        text = marks.shown(target.text)
        found = Redirection(operator=operator, target=text, start=target.start, end=target.end)
        self._redirections[found] = None

    def note(self, kind: str, text: str) -> None:
        """Add to one of the lists of `Facts`."""
        self._lists.setdefault(kind, {})[marks.shown(text) or "…"] = None

    def hand_over(self, other: Collector) -> None:
        """Give the refusals found here to ``other``."""
        for key, finding in self._findings.items():
            if finding.tier is Tier.NEVER:
                other._findings.setdefault(key, finding)

    def facts(self) -> Facts:
        """Return everything as one frozen value."""
        findings = sorted(self._findings.values(), key=lambda f: (f.start, f.end, f.code))
        tier = strictest([finding.tier for finding in findings])
        lists = {kind: tuple(texts) for kind, texts in self._lists.items()}
        return Facts(
            tier=tier,
            effect=Effect.READ_ONLY if self.read_only else Effect.MUTATING,
            commands=tuple(self._commands),
            findings=tuple(findings),
            redirections=tuple(self._redirections),
            writes=lists.get("writes", ()),
            reads=lists.get("reads", ()),
            credentials=lists.get("credentials", ()),
            network=lists.get("network", ()),
            privileges=lists.get("privileges", ()),
        )
