"""Compare two sets of verdicts, so that nobody weakens the rules unseen."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict

from sandboxrun.screening.facts import Tier, strictness


class Comparison(BaseModel):
    """How verdicts changed between an earlier run and this one."""

    model_config = ConfigDict(frozen=True)

    refused_new: tuple[str, ...]
    """Ids that are judged more strictly than before."""
    allowed_new: tuple[str, ...]
    """Ids that are judged less strictly than before."""
    unchanged: int
    added: int
    """Ids that only this run has."""
    missing: int
    """Ids that only the earlier run has."""


def compare(earlier: Mapping[str, Tier], now: Mapping[str, Tier]) -> Comparison:
    """Return what changed from ``earlier`` to ``now``, by id."""
    both = [key for key in now if key in earlier]
    return Comparison(
        refused_new=tuple(k for k in both if strictness(now[k]) > strictness(earlier[k])),
        allowed_new=tuple(k for k in both if strictness(now[k]) < strictness(earlier[k])),
        unchanged=sum(1 for key in both if now[key] is earlier[key]),
        added=sum(1 for key in now if key not in earlier),
        missing=sum(1 for key in earlier if key not in now),
    )
