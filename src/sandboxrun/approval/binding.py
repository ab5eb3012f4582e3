"""What an answer is bound to: one digest over everything that makes a run what it is."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import rfc8785
from pydantic import JsonValue

from sandboxrun.policy.authority import PolicyDigests
from sandboxrun.policy.decision import Obligations
from sandboxrun.policy.grants import CommandText

_DOMAIN = b"sandboxrun approval 1\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """Everything a yes is for. The snapshot is not among it: other runs may go on meanwhile."""

    run_id: str
    command: CommandText
    """The script or argv, and the working directory."""
    principal: str
    conversation: str | None
    workspace: str | None
    """What identifies it; None is a throwaway one."""
    image_id: str | None
    """Content id of the image, so that a tag that moves asks again."""
    obligations: Obligations
    """Limits, time, image, runtime, network, mounts and names of variables."""
    digests: PolicyDigests
    env: Mapping[str, str] = field(default_factory=dict)
    """A keyed digest of each value by its name; values themselves never come here."""
    secrets: tuple[str, ...] = ()
    """Names of the secrets passed."""
    stdin: str | None = None
    """SHA-256 (hex) of standard input, which may be code to the program that reads it."""

    def digest(self) -> str:
        """Return the SHA-256 (hex) that a question and its answer carry."""
        told: JsonValue = {
            "run": self.run_id,
            "form": self.command.form,
            "command": [hashlib.sha256(part).hexdigest() for part in self.command.parts],
            "cwd": self.command.cwd,
            "principal": self.principal,
            "conversation": self.conversation,
            "workspace": self.workspace,
            "image": self.image_id,
            "obligations": self.obligations.model_dump(mode="json"),
            "policies": self.digests.model_dump(mode="json"),
            "env": dict(self.env),
            "secrets": list[JsonValue](sorted(self.secrets)),
            "stdin": self.stdin,
        }
        return hashlib.sha256(_DOMAIN + rfc8785.dumps(_exact(told))).hexdigest()


def _exact(value: JsonValue) -> JsonValue:
    """Return ``value`` with its texts in hexadecimal: any text is then canonical JSON."""
    match value:
        case str():
            return _hex(value)
        case dict():
            return {_hex(key): _exact(each) for key, each in value.items()}
        case list():
            return [_exact(each) for each in value]
        case _:
            return value


def _hex(text: str) -> str:
    return text.encode("utf-8", "surrogatepass").hex()
