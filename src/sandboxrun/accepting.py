"""From what a caller says to a request, and what is kept of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from sandboxrun.errors import UsageError
from sandboxrun.model.request import Request
from sandboxrun.model.text import escaped
from sandboxrun.model.validation import usage_error
from sandboxrun.output.run_log import RunLog


def request_from(**fields: Any) -> Request:  # noqa: ANN401 - the request's own types
    """Return a request of ``fields``. Raises `UsageError` naming the first one at fault."""
    try:
        return Request(**fields)
    except ValidationError as invalid:
        raise usage_error(invalid) from invalid


def as_request(request: Request | str | None, fields: Mapping[str, Any]) -> Request:
    """Return what was given as a request. Raises `UsageError`."""
    if isinstance(request, Request):
        if fields:
            raise UsageError("Give a Request or its fields, and not both.")
        return request
    given = dict(fields) if request is None else {"command": request, **fields}
    return request_from(**given)


def stored_request(request: Request, log: RunLog) -> str:
    """Return the request as it is kept: names of the environment, never its values."""
    shown = request.model_dump(mode="json", exclude={"env", "secrets", "stdin"})
    if request.command is not None:
        shown["command"] = log.text(escaped(request.command))
    if request.argv is not None:
        shown["argv"] = [log.text(escaped(argument)) for argument in request.argv]
    shown["secrets"] = sorted(escaped(name) for name in request.secrets)
    shown["env"] = sorted(escaped(name) for name in request.env)
    shown["stdin_bytes"] = None if request.stdin is None else len(request.stdin)
    return json.dumps(shown)
