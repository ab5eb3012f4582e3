"""The first slot of a workspace: for a command that asks for nothing special."""

from __future__ import annotations

from sandboxrun.config import Settings
from sandboxrun.deciding import Judged, facts_of, foresee
from sandboxrun.job import Tools
from sandboxrun.model.request import Request
from sandboxrun.warm.key import Recipe, SlotKey

_ORDINARY = "true"


async def first_recipe(tools: Tools, settings: Settings, name: str) -> Recipe | None:
    """Return what the first command of a workspace will probably want; None without an image.

    For one that was created, forked or restored. Raises `StateError`, `UnknownWorkspaceError`
    and engine faults. Cancelling leaves nothing.
    """
    image = await tools.engine.inspect_image(settings.image)
    if image is None:
        return None
    request = Request(
        command=_ORDINARY,
        workspace=name,
        limits=settings.limits,
        timeout_seconds=settings.timeout_seconds,
    )
    judged = Judged(
        run_id="",
        request=request,
        principal=settings.principal,
        workspace_id=(await tools.workspaces.show(name)).workspace_id,
        image=settings.image,
        image_id=image.id,
        runtime=None,
        facts=await facts_of(request),
    )
    decision = await foresee(tools.judge, judged)
    key = SlotKey(
        workspace_id=judged.workspace_id,
        read_only=False,
        image_id=image.id,
        runtime=settings.runtime,
        limits=decision.obligations.limits,
        digests=decision.digests,
    )
    return Recipe(key, image)
