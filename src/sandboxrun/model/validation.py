"""Turn pydantic's findings into one sentence for the caller."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from pydantic import ValidationError

from sandboxrun.errors import InvalidEnvironmentError, UsageError
from sandboxrun.model.limits import GIB, MIB

_NO_NAMES: Final[Mapping[str, str]] = MappingProxyType({})
_BOUNDS: Final = MappingProxyType(
    {
        "greater_than": ("more than", "gt"),
        "greater_than_equal": ("at least", "ge"),
        "less_than": ("less than", "lt"),
        "less_than_equal": ("at most", "le"),
    }
)


def usage_error(invalid: ValidationError, *, names: Mapping[str, str] = _NO_NAMES) -> UsageError:
    """Return the fault that names the first value at fault, without repeating the value.

    ``names`` says how the caller calls fields that have another name there.
    """
    first = invalid.errors(include_input=False, include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    kind, context = first["type"], first.get("ctx", {})
    shown = names.get(where, where)
    if kind in _BOUNDS:
        words, bound = _BOUNDS[kind]
        return UsageError(f"{shown} must be {words} {_amount(where, context[bound])}.")
    if kind == "finite_number":
        return UsageError(f"{shown} must be a finite number.")
    if kind == "string_unicode":
        return UsageError(f"{shown} is not UTF-8 text.")
    message = first["msg"].removeprefix("Value error, ")
    text = f"{shown}: {message}." if where else f"{message[:1].upper()}{message[1:]}."
    return InvalidEnvironmentError(text) if where == "env" else UsageError(text)


def _amount(where: str, bound: float) -> str:
    if not where.endswith("_bytes"):
        return f"{bound:g}"
    return f"{bound / GIB:g} GiB" if bound >= GIB else f"{bound / MIB:g} MiB"
