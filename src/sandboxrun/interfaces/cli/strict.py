"""What no option of any command takes: bytes that are no text, nothing at all, numbers that are none.

Checked in one place, before a command sees its values, so that none of them meets a database or
an engine that cannot say which option it was.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from sandboxrun.errors import UsageError
from sandboxrun.interfaces.cli.tables import printable

_ANY_BYTES: Final = frozenset(
    {"command", "cwd", "env", "file", "policy", "workspace_policy", "source", "against", "head"}
)
"""Parameters that take what the kernel takes: commands, values, and names of files."""
_MAY_BE_EMPTY: Final = frozenset({"env", "reason"})


def guard(command: Any) -> None:  # noqa: ANN401 - click's own type is vendored by typer
    """Have `checked` look at the values of ``command`` and of all commands below it."""
    below = getattr(command, "commands", {})
    for each in below.values():
        guard(each)
    if below or command.callback is None:
        return
    names = {each.name: _shown(each) for each in command.params}
    options = frozenset(each.name for each in command.params if each.param_type_name == "option")
    call: Callable[..., object] = command.callback

    @functools.wraps(call)
    def guarded(*context: object, **values: object) -> object:
        checked(values, names, options)
        return call(*context, **values)

    command.callback = guarded


def checked(values: Mapping[str, Any], names: Mapping[str, str], options: frozenset[str]) -> None:
    """Raise `UsageError` for the first of ``values`` that is unusable.

    ``names`` says how the person wrote each; ``options`` are those that are no arguments.
    """
    for parameter, value in values.items():
        name = names.get(parameter, parameter)
        for each in value if isinstance(value, list | tuple) else (value,):
            match each:
                case str() if parameter not in _ANY_BYTES and not _is_text(each):
                    raise UsageError(f"{name} is not UTF-8 text: {printable(each)}.")
                case "" if parameter in options and parameter not in _MAY_BE_EMPTY:
                    raise UsageError(
                        f"{name} is empty.", advice="Give it a value, or leave it out."
                    )
                case float() if not math.isfinite(each):
                    raise UsageError(f"{name} is {each}, which is no number to work with.")
                case _:
                    pass


def _shown(parameter: Any) -> str:  # noqa: ANN401 - click's own type is vendored by typer
    if parameter.param_type_name == "option":
        return str(max(parameter.opts, key=len))
    return str(parameter.metavar or parameter.name).upper()


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
