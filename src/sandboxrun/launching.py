"""What stage 7 hands over: the plan of the container, and the request to its init."""

from __future__ import annotations

import posixpath

from sandboxrun.deciding import Judged
from sandboxrun.engine.protocol import ImageInfo
from sandboxrun.init.request import InitRequest
from sandboxrun.job import Job
from sandboxrun.model.environment import command_environment
from sandboxrun.model.workspace import HOME_NAME
from sandboxrun.policy.decision import Decision
from sandboxrun.warm.key import Recipe, SlotKey
from sandboxrun.workspace.session import Session

BACKSTOP_SECONDS = 30.0
"""How much later than ours the init's own deadline is; it matters only if we die."""


def recipe_of(job: Job, judged: Judged, image: ImageInfo, decision: Decision) -> Recipe:
    """Return what the run's container is made from, and with it which slot would do."""
    return Recipe(
        SlotKey(
            workspace_id=judged.workspace_id,
            read_only=job.request.read_only or decision.obligations.read_only,
            image_id=image.id,
            runtime=job.runtime,
            limits=job.limits,
            digests=decision.digests,
        ),
        image,
    )


def init_request(
    job: Job, env_allow: tuple[str, ...], image: ImageInfo, session: Session
) -> InitRequest:
    """Return what the init is sent over stdin."""
    request = job.request
    home = posixpath.join(session.mount_at, HOME_NAME)
    additions = {**request.env, **request.secrets}
    return InitRequest(
        argv=() if request.argv is None else request.argv,
        script=request.command,
        env=command_environment(image.env, env_allow, additions, home=home),
        cwd=cwd_of(job, session.mount_at),
        deadline_ms=int((job.timeout_seconds + BACKSTOP_SECONDS) * 1000),
        ordering=job.ordering,
        stdin=request.stdin is not None,
    )


def cwd_of(job: Job, mount_at: str) -> bytes:
    """Return the working directory: as asked, relative to the workspace, or the workspace."""
    root = mount_at.encode()
    return (
        root
        if job.request.cwd is None
        else posixpath.normpath(posixpath.join(root, job.request.cwd))
    )
