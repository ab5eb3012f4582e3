"""Policy: documents, and the decision about one request. Pure but for reading a file."""

from sandboxrun.policy.authority import Authority, Consent, PolicyDigests, implied_consent
from sandboxrun.policy.decide import Case, decide
from sandboxrun.policy.decision import (
    Clamped,
    Decision,
    Objection,
    Obligations,
    Source,
    Verdict,
)
from sandboxrun.policy.document import Action, Document
from sandboxrun.policy.grants import CommandText, Grant, Pattern, offered_pattern
from sandboxrun.policy.load import SHIPPED, load_policy, parse_policy
from sandboxrun.policy.requested import Requested

__all__ = [
    "SHIPPED",
    "Action",
    "Authority",
    "Case",
    "Clamped",
    "CommandText",
    "Consent",
    "Decision",
    "Document",
    "Grant",
    "Objection",
    "Obligations",
    "Pattern",
    "PolicyDigests",
    "Requested",
    "Source",
    "Verdict",
    "decide",
    "implied_consent",
    "load_policy",
    "offered_pattern",
    "parse_policy",
]
