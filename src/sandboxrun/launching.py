"""What stage 7 hands over: the plan of the container, and the request to its init."""

from __future__ import annotations

import posixpath

from sandboxrun.engine.hardening import LaunchPlan
from sandboxrun.engine.protocol import ImageInfo
from sandboxrun.init.request import InitRequest
from sandboxrun.job import Job, Tools
from sandboxrun.model import labels
from sandboxrun.model.environment import command_environment
from sandboxrun.model.workspace import HOME_NAME
from sandboxrun.workspace.session import Session

BACKSTOP_SECONDS = 30.0
"""How much later than ours the init's own deadline is; it matters only if we die."""


async def plan_of(job: Job, tools: Tools, image: ImageInfo, session: Session) -> LaunchPlan:
    """Return the plan of a run's container, installing the init where it is missing.

    Raises `InstallError` and engine faults. Cancelling leaves at most an unverified init volume.
    """
    return LaunchPlan(
        name=f"sandboxrun-{job.run_id}",
        engine=tools.info,
        image=image,
        limits=job.limits,
        uid=session.uid,
        workspace=session.volume,
        mount_at=session.mount_at,
        read_only=session.read_only or job.request.read_only,
        init=await tools.init.volume(image.id),
        labels=(
            (labels.INSTALLATION, tools.installation),
            (labels.ROLE, labels.ROLE_RUN),
            (labels.RUN, job.run_id),
            (labels.OWNER, str(tools.audit.store.owner)),
        ),
        runtime=job.runtime,
    )


def init_request(job: Job, tools: Tools, image: ImageInfo, session: Session) -> InitRequest:
    """Return what the init is sent over stdin."""
    request = job.request
    home = posixpath.join(session.mount_at, HOME_NAME)
    additions = {**request.env, **request.secrets}
    return InitRequest(
        argv=() if request.argv is None else request.argv,
        script=request.command,
        env=command_environment(image.env, tools.env_allow, additions, home=home),
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
