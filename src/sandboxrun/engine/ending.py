"""Removing what a dead process left in the engine."""

from __future__ import annotations

from typing import Final

from sandboxrun.engine.protocol import Engine
from sandboxrun.errors import EngineError
from sandboxrun.model import labels

REMOVE_SECONDS: Final = 20.0


async def end_containers(engine: Engine, installation: str, owner: str) -> int:
    """Remove every container of one owner, which must be dead; return how many there were.

    Raises `EngineError` when one stays, and other engine faults. Cancelling leaves the rest.
    """
    wanted = {labels.INSTALLATION: installation, labels.OWNER: owner}
    found = await engine.list_containers(wanted)
    for container in found:
        if not await engine.remove(container.id, timeout_seconds=REMOVE_SECONDS):
            raise EngineError(
                f"The container {container.name} of a dead process cannot be removed."
            )
    return len(found)
