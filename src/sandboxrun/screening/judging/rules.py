"""All rules for programs by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sandboxrun.screening.judging import (
    builtins,
    containers,
    deletion,
    files,
    git,
    interpreters,
    network,
    options_that_run,
    packages,
    search,
    shells,
    system,
    text,
    tools,
    versions,
)
from sandboxrun.screening.judging.invocation import Invocation, Verdict

RULES: Final[dict[str, Callable[[Invocation], Verdict]]] = {
    **interpreters.RULES,
    **packages.RULES,
    **tools.RULES,
    **system.RULES,
    **containers.RULES,
    **network.RULES,
    **files.RULES,
    **deletion.RULES,
    **search.RULES,
    **text.RULES,
    **options_that_run.RULES,
    **git.RULES,
    **versions.RULES,
    **shells.RULES,
    **builtins.RULES,
}
