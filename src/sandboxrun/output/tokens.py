r"""Well-known forms of credentials, recognised without knowing them.

Every format has a *trigger* of bounded length: ``left`` (context that is not part of the
credential), then ``body``, a sequence of character classes with fixed counts. What follows in
the same alphabet, however long, is the credential's *tail*. So a stream has to hold back no more
than an unfinished trigger, and a tail needs no memory at all.

Sources: the vendors' documentation of their prefixes, as collected by the rule sets of gitleaks
and GitHub secret scanning.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sandboxrun.output.token_tails import ClassTail, KeyTail, Tail


@dataclass(frozen=True, slots=True)
class Piece:
    """``count`` characters of one class."""

    char: bytes
    """A regular expression for one byte."""
    count: int = 1


@dataclass(frozen=True, slots=True)
class Format:
    """How one kind of credential looks."""

    label: str
    body: tuple[Piece, ...]
    tail: Tail | None = None
    left: bytes = b""
    """A regular expression for what must stand before it."""

    @property
    def length(self) -> int:
        """Bytes of the body."""
        return sum(piece.count for piece in self.body)


def _literal(text: bytes) -> tuple[Piece, ...]:
    escape = b".+*?()[]{}|^$\\/-"
    return tuple(
        Piece(b"\\" + text[i : i + 1] if text[i] in escape else text[i : i + 1])
        for i in range(len(text))
    )


_WORD: Final = rb"[A-Za-z0-9]"
_WORD_: Final = rb"[A-Za-z0-9_]"
_URLSAFE: Final = rb"[A-Za-z0-9_-]"
_DOTTED: Final = rb"[A-Za-z0-9_.-]"
_BASE64: Final = rb"[A-Za-z0-9+/=]"
_BEARER: Final = rb"[A-Za-z0-9._~+/=-]"
_HEX: Final = rb"[0-9a-f]"
_CAPS: Final = rb"[A-Z0-9]"

_BOUNDARY: Final = rb"(?:^|[^A-Za-z0-9_]|\\[nrt])"
"""The beginning of a word, also behind an escaped newline in JSON."""
_ASSIGNED: Final = rb"""["']?[ \t]{0,4}[=:][ \t]{0,4}["']?"""


def _prefixed(
    label: str, prefixes: str, char: bytes, count: int, *, tail: bytes | None = None
) -> list[Format]:
    end = ClassTail(char if tail is None else tail)
    return [
        Format(label, (*_literal(prefix.encode()), Piece(char, count)), end)
        for prefix in prefixes.split()
    ]


def _fixed(label: str, *body: Piece, left: bytes = b"", tail: bytes | None = None) -> Format:
    return Format(label, body, None if tail is None else ClassTail(tail), left)


_JWT_HEADS: Final = (
    # base64 of {"alg": {"typ": {"kid": {"enc": {"jku": {"jwk": {"x5t" {"x5c" {"x5u" {"zip" {"cty"
    "eyJhbGciOi eyJ0eXAiOi eyJraWQiOi eyJlbmMiOi eyJqa3UiOi eyJqd2siOi eyJ4NXQi eyJ4NWMi "
    "eyJ4NXUi eyJ6aXAiOi eyJjdHki eyAiYWxn eyAidHlw"
)

FORMATS: Final[tuple[Format, ...]] = (
    # Cloud
    _fixed(
        "aws-access-key",
        *(Piece(b"A"), Piece(b"[KSBC]"), Piece(b"[IC]"), Piece(b"A"), Piece(_CAPS, 16)),
    ),
    _fixed(
        "aws-secret-key",
        Piece(rb"[A-Za-z0-9/+=]", 40),
        left=rb"(?i:aws_?-?(?:secret_?-?access_?-?key|secret_?-?key|session_?-?token))" + _ASSIGNED,
        tail=rb"[A-Za-z0-9/+=]",
    ),
    *_prefixed("google-api-key", "AIza", _URLSAFE, 35),
    *_prefixed("google-oauth-token", "ya29.", _URLSAFE, 20, tail=_DOTTED),
    *_prefixed("google-client-secret", "GOCSPX-", _URLSAFE, 28),
    _fixed(
        "azure-storage-key",
        Piece(rb"[A-Za-z0-9+/]", 86),
        left=rb"(?i:accountkey|sharedaccesskey)=",
        tail=_BASE64,
    ),
    _fixed("azure-sas", Piece(rb"[A-Za-z0-9%]", 40), left=rb"[?&;]sig=", tail=rb"[A-Za-z0-9%+/=]"),
    *_prefixed("azure-client-secret", "8Q~", rb"[A-Za-z0-9_~.-]", 31),
    *_prefixed("digitalocean-token", "dop_v1_ doo_v1_ dor_v1_", _HEX, 64),
    *_prefixed("databricks-token", "dapi", _HEX, 32),
    # Code hosts and package registries
    *_prefixed("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", _WORD, 36, tail=_DOTTED),
    *_prefixed("github-token", "github_pat_", _WORD_, 40),
    *_prefixed(
        "gitlab-token",
        "glpat- gldt- glrt- glrtr- glcbt- glptt- glft- glimt- glagent- glsoat- gloas- glffct-",
        _URLSAFE,
        20,
        tail=_DOTTED,
    ),
    *_prefixed("gitlab-token", "GR1348941", _URLSAFE, 20),
    *_prefixed("npm-token", "npm_", _WORD, 36),
    *_prefixed("pypi-token", "pypi-AgE", _URLSAFE, 50),
    *_prefixed("rubygems-token", "rubygems_", _HEX, 48),
    *_prefixed("docker-token", "dckr_pat_ dckr_oat_", _URLSAFE, 27),
    # Model providers
    *_prefixed("anthropic-key", "sk-ant-", _URLSAFE, 20),
    *_prefixed("openai-key", "sk-proj- sk-svcacct- sk-admin- sk-None- sk-or-v1-", _URLSAFE, 20),
    _fixed("openai-key", *_literal(b"sk-"), Piece(_WORD, 32), left=_BOUNDARY, tail=_URLSAFE),
    *_prefixed("huggingface-token", "hf_", _WORD, 30),
    *_prefixed("groq-key", "gsk_", _WORD, 48),
    *_prefixed("xai-key", "xai-", _WORD, 60),
    *_prefixed("replicate-token", "r8_", _WORD, 37),
    # Services
    *_prefixed("slack-token", "xoxa- xoxb- xoxe- xoxo- xoxp- xoxr- xoxs-", rb"[A-Za-z0-9-]", 10),
    *_prefixed("slack-token", "xoxe.xoxb- xoxe.xoxp- xapp-1-", rb"[A-Za-z0-9-]", 10),
    _fixed(
        "slack-webhook",
        Piece(rb"[A-Z0-9]", 8),
        left=rb"hooks\.slack\.com/(?:services|workflows)/",
        tail=rb"[A-Za-z0-9/]",
    ),
    *_prefixed("stripe-key", "sk_live_ sk_test_ rk_live_ rk_test_", _WORD, 16),
    *_prefixed("webhook-secret", "whsec_", rb"[A-Za-z0-9+/=]", 24),
    _fixed(
        "sendgrid-key",
        *(*_literal(b"SG."), Piece(_URLSAFE, 22), *_literal(b"."), Piece(_URLSAFE, 43)),
    ),
    _fixed("twilio-key", *_literal(b"SK"), Piece(_HEX, 32), left=_BOUNDARY),
    *_prefixed("vault-token", "hvs. hvb.", _URLSAFE, 24),
    *_prefixed("shopify-token", "shpat_ shpca_ shppa_ shpss_", rb"[A-Fa-f0-9]", 32),
    *_prefixed("linear-key", "lin_api_", _WORD, 40),
    *_prefixed("grafana-token", "glsa_ glc_", rb"[A-Za-z0-9+/=_]", 32),
    *_prefixed("age-key", "AGE-SECRET-KEY-1", _CAPS, 58),
    # Carriers
    *_prefixed("jwt", _JWT_HEADS, _URLSAFE, 10, tail=_DOTTED),
    # One with another head: its claims and signature.
    _fixed(
        "jwt",
        *(*_literal(b".eyJ"), Piece(_URLSAFE, 8)),
        left=_URLSAFE + rb"{8}",
        tail=_DOTTED,
    ),
    _fixed(
        "bearer-token", Piece(_BEARER, 20), left=rb"(?i:bearer)(?:[ \t]{1,4}|%20)", tail=_BEARER
    ),
    _fixed(
        "authorization",
        Piece(_BEARER, 8),
        left=rb"(?i:authorization)"
        + _ASSIGNED
        + rb"(?i:basic|bearer|token|digest|apikey)[ \t]{1,4}",
        tail=_BEARER,
    ),
    *_prefixed(
        "private-key",
        # base64 of "-----BEGIN " and PRIVATE KEY, RSA PRIVATE, EC PRIVATE, OPENSSH, ENCRYPTED
        "LS0tLS1CRUdJTiBQUklWQVRFIEtFW LS0tLS1CRUdJTiBSU0EgUFJJVkFURS "
        "LS0tLS1CRUdJTiBFQyBQUklWQVRFI LS0tLS1CRUdJTiBPUEVOU1NIIFBSSV "
        "LS0tLS1CRUdJTiBFTkNSWVBURUQgU",
        _BASE64,
        8,
    ),
)
"""Formats whose trigger has a body of fixed length."""

_USER: Final = rb"""[^\s/@:"'<>\\]"""
_PASSWORD: Final = rb"""[^\s/@"'<>]"""
_KEY_WORDS: Final = rb"(?:[A-Z0-9]{1,12} ){0,3}"


@dataclass(frozen=True, slots=True)
class LooseFormat:
    """A kind of credential whose trigger has no fixed length; it is bounded all the same."""

    label: str
    trigger: bytes
    opening: bytes
    """What a trigger begins with; the last one before a trigger's end belongs to it."""
    skip: int
    """Bytes at the trigger's beginning that are not part of the credential."""
    keep: int
    """Bytes at its end that are not."""
    begun: tuple[bytes, ...]
    """Regular expressions for every way in which a trigger can be unfinished."""
    tail: Tail | None = None


LOOSE_FORMATS: Final[tuple[LooseFormat, ...]] = (
    LooseFormat(
        label="url-credentials",
        trigger=rb"://" + _USER + rb"{0,128}:" + _PASSWORD + rb"{1,256}@",
        opening=b"://",
        skip=3,
        keep=1,
        begun=(
            rb"://" + _USER + rb"{1,128}",
            rb"://" + _USER + rb"{0,128}:" + _PASSWORD + rb"{0,256}",
        ),
    ),
    LooseFormat(
        label="private-key",
        trigger=rb"-----BEGIN " + _KEY_WORDS + rb"PRIVATE KEY(?: BLOCK)?-----",
        opening=b"-----BEGIN ",
        skip=0,
        keep=0,
        begun=(
            rb"-{1,5}",
            *(b"-----" + b"BEGIN "[:size] for size in range(1, 7)),
            rb"-----BEGIN [A-Z0-9 ]{1,60}-{0,4}",
        ),
        tail=KeyTail(),
    ),
)

LONGEST_TRIGGER: Final = 448
"""Bound on the bytes of any trigger, its left context included."""
