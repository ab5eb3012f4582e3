"""The policy that the checks of this machine run under. No request can name it."""

from __future__ import annotations

from typing import Final

from sandboxrun.policy.document import Action, Allowed, Document, Inputs, Rule, Runtimes, When

CHECKS: Final = Document(
    version=1,
    name="checks",
    description="Isolation probes: hostile on purpose, so nothing of them is judged by its words.",
    screening_asks=Action.ALLOW,
    asks=Action.DENY,
    env=Allowed(allow=("*",)),
    images=Allowed(allow=("*",)),
    runtimes=Runtimes(allow=()),
    inputs=Inputs(allow=()),
    rules=(
        Rule(
            id="probe",
            action=Action.ALLOW,
            when=When(any=True),
            reason="A probe of ours.",
            matches=("id",),
        ),
    ),
)
"""Probes come from this package and are hostile on purpose: they are not screened."""


def checks_policy(host: Document) -> Document:
    """Return `CHECKS` with the limits of ``host``: what is checked is what its runs get."""
    return CHECKS.model_copy(update={"limits": host.limits})
