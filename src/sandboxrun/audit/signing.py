"""The key that signs how far the chain goes, and what it signs.

Ed25519 (RFC 8032) from ``cryptography``. The key is made on first use and readable by its owner
only. Everything here blocks.
"""

from __future__ import annotations

import hashlib
import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Self

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from pydantic import BaseModel, ConfigDict, Field

from sandboxrun.audit.digest import canonical
from sandboxrun.audit.record import Digest
from sandboxrun.errors import StateError
from sandboxrun.model.ids import new_id
from sandboxrun.state.directory import StateDirectory

_KEY: Final = "audit/key.pem"
_MAX_KEY_BYTES: Final = 4096


class Head(BaseModel):
    """How far the chain goes and where it begins. Signed with every record added."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    installation: str
    key: str
    """The public key, raw bytes in hexadecimal."""
    first_seq: int = Field(ge=1)
    """Number of the first record kept; those before it were pruned."""
    first_previous: Digest
    """What the first record is chained to."""
    seq: int = Field(ge=0)
    """Number of the last record; 0 or ``first_seq - 1`` when there is none."""
    hash: Digest
    """Hash of the last record, or ``first_previous`` when there is none."""
    time: str


@dataclass(frozen=True, slots=True)
class SignedHead:
    """A head's canonical text and the signature over it, in hexadecimal."""

    text: str
    signature: str

    @property
    def head(self) -> Head:
        """What is signed. Raises `pydantic.ValidationError` when the text is not a head."""
        return Head.model_validate_json(self.text)


@dataclass(frozen=True, slots=True)
class Signer:
    """The installation's signing key."""

    _private: Ed25519PrivateKey
    key: str
    """The public key, raw bytes in hexadecimal."""

    @classmethod
    def open(cls, directory: StateDirectory) -> Self:
        """Load the key, making it first where there is none.

        Raises `StateError` when it is not a key, or others may read it.
        """
        try:
            return cls._of(_load(directory))
        except FileNotFoundError:
            _create(directory)
            return cls._of(_load(directory))

    @classmethod
    def _of(cls, private: Ed25519PrivateKey) -> Self:
        public = private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        return cls(private, public.hex())

    def sign(self, head: Head) -> SignedHead:
        """Sign a head in its canonical form."""
        text = canonical(head.model_dump(mode="json"))
        return SignedHead(text.decode(), self._private.sign(text).hex())

    def secret(self, purpose: str) -> bytes:
        """Return 32 bytes that depend on the key and ``purpose`` and reveal neither."""
        seed = self._private.private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption())
        return hashlib.blake2b(purpose.encode(), key=seed, digest_size=32).digest()


def public_key(directory: StateDirectory) -> str | None:
    """Return the installation's public key (raw, hexadecimal), None when it has no key yet.

    Raises `StateError` like `Signer.open`; makes nothing.
    """
    try:
        private = _load(directory)
    except FileNotFoundError:
        return None
    return private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw).hex()


def signature_holds(signed: SignedHead, key: str) -> bool:
    """Say whether ``key`` (raw public key, hexadecimal) signed exactly this text."""
    try:
        public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(key))
        signature = bytes.fromhex(signed.signature)
        public.verify(signature, signed.text.encode())
    except (InvalidSignature, ValueError):
        return False
    # Hexadecimal can be spelt in several ways; only ours is unchanged.
    return signature.hex() == signed.signature


def _load(directory: StateDirectory) -> Ed25519PrivateKey:
    path = directory.path / _KEY
    fd = os.open(_KEY, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory.fd)
    with os.fdopen(fd, "rb") as file:
        found = os.fstat(file.fileno())
        if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
            raise StateError(
                f"The audit key {path} can be read or written by others "
                f"(uid {found.st_uid}, mode {stat.S_IMODE(found.st_mode):04o}).",
                advice=f"If it is yours: `chmod 600 {path}`. If others may have read it, move it "
                "away: a new one is made, and the audit says so.",
            )
        pem = file.read(_MAX_KEY_BYTES)
    try:
        key = load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise _not_a_key(directory) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise _not_a_key(directory)
    return key


def _not_a_key(directory: StateDirectory) -> StateError:
    return StateError(
        f"The audit key {directory.path / _KEY} is not an Ed25519 key in PEM.",
        advice="Put the right one back, or move it away: a new one is made, and the audit says so.",
    )


def _create(directory: StateDirectory) -> None:
    """Write a key under a name of its own and link it, so that it is never half there."""
    pem = Ed25519PrivateKey.generate().private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
    fresh = f"audit/{new_id('key')}"
    try:
        fd = os.open(
            fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=directory.fd
        )
        with os.fdopen(fd, "wb") as file:
            file.write(pem)
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(fresh, _KEY, src_dir_fd=directory.fd, dst_dir_fd=directory.fd)
    except OSError as error:
        raise StateError(
            f"The audit key {directory.path / _KEY} cannot be made: {error.strerror}."
        ) from error
    finally:
        with suppress(FileNotFoundError):
            os.unlink(fresh, dir_fd=directory.fd)
