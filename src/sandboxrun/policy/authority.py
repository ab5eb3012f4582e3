"""Who may run commands where: the switch of a workspace, and a consent to the policies in force."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from sandboxrun.policy.document import Document


class PolicyDigests(BaseModel):
    """What was in force when something was decided or consented to."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host_policy: str
    workspace_policy: str | None = None

    @classmethod
    def of(cls, host: Document, workspace: Document | None) -> PolicyDigests:
        """Return the digests of both levels."""
        return cls(
            host_policy=host.digest(),
            workspace_policy=None if workspace is None else workspace.digest(),
        )

    def combined(self) -> str:
        """Return one digest (SHA-256, hex) for both."""
        return hashlib.sha256(f"{self.host_policy}:{self.workspace_policy}".encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Consent:
    """Somebody accepted that commands run in a workspace under exactly these policies."""

    consent_id: str
    principal: str
    workspace: str | None
    digests: PolicyDigests
    given_by: str
    given_at: str
    """RFC 3339, UTC."""

    def covers(self, authority: Authority, digests: PolicyDigests) -> bool:
        """Tell whether this consent is for the workspace and principal, and for these policies."""
        return (
            self.principal == authority.principal
            and self.workspace == authority.workspace
            and self.digests == digests
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    """In whose name a command would run, and where."""

    principal: str
    workspace: str | None
    """What identifies the workspace; None is a throwaway one."""
    conversation: str | None = None
    execution: bool = True
    """The workspace's switch."""
    consent: Consent | None = None


def implied_consent(
    principal: str, workspace: str | None, digests: PolicyDigests, *, at: str
) -> Consent:
    """Return the consent of a local user who makes a throwaway workspace by asking for a run."""
    return Consent(
        consent_id="implied",
        principal=principal,
        workspace=workspace,
        digests=digests,
        given_by=principal,
        given_at=at,
    )
