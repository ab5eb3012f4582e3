"""Turn pydantic's findings into one sentence for the caller."""

from __future__ import annotations

from pydantic import ValidationError

from sandboxrun.errors import InvalidEnvironmentError, UsageError


def usage_error(invalid: ValidationError) -> UsageError:
    """Return the fault that names the first value at fault, without repeating the value."""
    first = invalid.errors(include_input=False, include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    message = first["msg"].removeprefix("Value error, ")
    text = f"{where}: {message}." if where else f"{message[:1].upper()}{message[1:]}."
    return InvalidEnvironmentError(text) if where == "env" else UsageError(text)
