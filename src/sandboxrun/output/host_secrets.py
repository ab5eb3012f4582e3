"""Secrets of the process itself: values of its environment whose names say so.

They do not reach a sandbox, but a workspace may hold a copy of one (an ``.env`` file), and what a
command prints goes to a model.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from sandboxrun.output.secret_forms import Secret

SECRET_NAMES: Final = re.compile(
    r"(?:^|_)(?:SECRETS?|TOKENS?|PASSWORD|PASSWD|PASSPHRASE|PASS|PW|PWD|PAT|CREDENTIALS?|CREDS|"
    r"API_?KEY|APIKEY|ACCESS_?KEY(?:_ID)?|PRIVATE_?KEY|SIGNING_?KEY|ENCRYPTION_?KEY|KEY|AUTH|DSN|"
    r"COOKIE|WEBHOOK(?:_URL)?|CONNECTION_?STRING|(?:DATABASE|DB|REDIS|MONGO|AMQP|BROKER)_UR[LI])"
    r"(?:$|_)",
    re.IGNORECASE,
)
_MIN_BYTES: Final = 8
_LONG_BYTES: Final = 20
"""Values of this length are taken for secrets whatever they are made of."""


def host_secrets(environment: Mapping[str, str]) -> Iterator[Secret]:
    """Yield the values that look like secrets under a name that says so.

    Paths, numbers and plain words are not taken: hiding ``/home/user`` or ``disabled`` wherever
    they occur would do more harm than good.
    """
    for name, value in environment.items():
        if SECRET_NAMES.search(name) and _secretive(value):
            yield Secret(name, value.encode("utf-8", "surrogateescape"))


def _secretive(value: str) -> bool:
    if len(value) < _MIN_BYTES or value.startswith(("/", "~", "./")):
        return False
    if len(value) >= _LONG_BYTES:
        return True
    kinds = (str.isdigit, str.islower, str.isupper, lambda character: not character.isalnum())
    return sum(any(kind(character) for character in value) for kind in kinds) > 1
