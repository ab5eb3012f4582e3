"""Digests that stand for what the audit must not hold in the clear."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping

from pydantic import JsonValue
from rfc8785 import CanonicalizationError, dumps

from sandboxrun.errors import StateError
from sandboxrun.model.request import Request
from sandboxrun.model.text import escaped


def sha256(data: bytes) -> str:
    """Return the SHA-256 of ``data`` in lower-case hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def canonical(value: JsonValue) -> bytes:
    """Return the one way to write ``value`` as JSON (RFC 8785).

    Raises `StateError` for what JSON cannot say exactly, such as NaN, an integer beyond 2**53 or
    half of a surrogate pair.
    """
    try:
        return dumps(value)
    except (CanonicalizationError, UnicodeEncodeError) as error:
        raise StateError(f"This cannot be written into the audit: {error}.") from error


def canonical_digest(value: JsonValue) -> str:
    """Return the digest of ``value`` in its canonical form."""
    return sha256(canonical(value))


def command_digest(request: Request) -> str:
    """Return the digest of what was asked to run.

    A shell command is digested as it is; an argv with a NUL after each argument. Neither may
    contain a NUL itself, so the two never agree by accident.
    """
    if request.command is not None:
        return sha256(request.command)
    return sha256(b"".join(part + b"\0" for part in request.argv or ()))


def env_digests(env: Mapping[bytes, bytes], secret: bytes) -> dict[str, str]:
    """Return the digest of each value by its name, keyed with ``secret`` (HMAC-SHA-256).

    Values are often short: without the key, whoever holds an exported audit could try them all.
    """
    return {
        escaped(name): hmac.new(secret, name + b"\0" + value, hashlib.sha256).hexdigest()
        for name, value in env.items()
    }
