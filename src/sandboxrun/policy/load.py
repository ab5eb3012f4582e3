"""From a TOML text to a document, with the line and column of whatever is wrong."""

from __future__ import annotations

import json
import re
import tomllib
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from sandboxrun.errors import PolicyError
from sandboxrun.policy.document import Document
from sandboxrun.policy.examples import ScreenCommand, check_rule_examples
from sandboxrun.policy.positions import position_of

_ENUM_MEMBER: Final = re.compile(r"<\w+\.\w+: ('[^']*')>")
MAX_BYTES: Final = 1 << 20
SHIPPED: Final = ("default", "strict", "ci", "rollout")
"""Policies that are part of the package and can be named instead of a file."""


def parse_policy(text: str, *, source: str) -> Document:
    """Return the document of a TOML ``text``; its examples are not checked.

    ``source`` names the text in messages. Raises `PolicyError` with ``source:line:column``.
    """
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PolicyError(f"{source}: this is not TOML: {error}.") from error
    try:
        # JSON, because pydantic's strict mode reads its arrays as tuples and nothing else as one.
        return Document.model_validate_json(json.dumps(tree, allow_nan=False), strict=True)
    except ValidationError as invalid:
        raise PolicyError(_finding(text, source, invalid)) from invalid
    except (TypeError, ValueError) as error:
        raise PolicyError(f"{source}: a value is not text, a number or a list: {error}.") from error
    except RecursionError as error:
        raise PolicyError(f"{source}: it nests too deeply to be a policy.") from error


def load_policy(named: str | Path, screen: ScreenCommand) -> Document:
    """Return the policy called ``named``: one of `SHIPPED`, or the path of a file.

    The examples of its rules are checked with ``screen``. A name without a slash or a dot is
    never looked up in the working directory. Blocks. Raises `PolicyError`.
    """
    source, text = read_policy(named)
    return checked_policy(text, screen, source=source)


def checked_policy(text: str, screen: ScreenCommand, *, source: str) -> Document:
    """Return the document of a TOML ``text`` after checking the examples of its rules.

    Raises `PolicyError`.
    """
    document = parse_policy(text, source=source)
    check_rule_examples(document, screen, source=source)
    return document


def read_policy(named: str | Path) -> tuple[str, str]:
    """Return what a policy is called in messages, and its text. Blocks. Raises `PolicyError`."""
    if isinstance(named, str) and named in SHIPPED:
        file: Traversable = resources.files("sandboxrun") / "_data" / "policies" / f"{named}.toml"
        source = f"policy {named!r}"
    elif isinstance(named, str) and not {"/", "."} & set(named):
        raise PolicyError(
            f"There is no policy {named!r}.",
            advice=f"Name one of {', '.join(SHIPPED)}, or a file with its path (./{named}).",
        )
    else:
        file = Path(named)
        source = str(named)
    try:
        with file.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise PolicyError(f"{source} cannot be read: {error.strerror}.") from error
    if len(data) > MAX_BYTES:
        raise PolicyError(f"{source} has more than {MAX_BYTES} bytes; no policy has.")
    try:
        return source, data.decode()
    except UnicodeDecodeError as error:
        raise PolicyError(f"{source} is not UTF-8 at byte {error.start}.") from error


def _finding(text: str, source: str, invalid: ValidationError) -> str:
    found = invalid.errors(include_url=False)
    # A key that nobody knows is often why another is missing: it is told first.
    first = next((each for each in found if each["type"] == "extra_forbidden"), found[0])
    path = tuple(first["loc"])
    where = position_of(text, path)
    name = ".".join(str(part) for part in path)
    said = _ENUM_MEMBER.sub(r"\1", first["msg"]).removeprefix("Value error, ").rstrip(".")
    match first["type"]:
        case "extra_forbidden":
            said = f"there is no key {path[-1]!r} here"
        case "missing":
            said = f"{path[-1]!r} is missing"
        case _:
            said = f"{name}: {said}" if name else said
    more = len(found) - 1
    rest = f" ({more} more besides)" if more else ""
    return f"{source}:{where.line}:{where.column}: {said}{rest}."
