"""How containers are made, for a run and ahead of one: the plan, and the check of the result."""

from __future__ import annotations

from dataclasses import dataclass

from sandboxrun.engine.hardening import LaunchPlan, harden
from sandboxrun.engine.init_cache import InitInstallation
from sandboxrun.engine.posture_compare import require
from sandboxrun.engine.posture_promise import promised_posture
from sandboxrun.engine.protocol import Engine, EngineInfo
from sandboxrun.engine.sandbox import Sandbox
from sandboxrun.engine.spec import ContainerSpec
from sandboxrun.model import labels
from sandboxrun.model.limits import MIB, Limits
from sandboxrun.warm.key import Recipe
from sandboxrun.workspace.session import Session

_PAUSE_LIMITS = Limits(
    cpus=0.1,
    memory_bytes=32 * MIB,
    pids=8,
    disk_bytes=MIB,
    tmp_bytes=MIB,
    shm_bytes=MIB,
    tmp_inodes=64,
    open_files=512,
)
NO_NETWORK = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Maker:
    """What all containers of a runner are made with."""

    engine: Engine
    info: EngineInfo
    init: InitInstallation
    installation: str
    owner: str
    """The process they belong to."""

    async def spec(
        self,
        name: str,
        recipe: Recipe,
        session: Session,
        tags: tuple[tuple[str, str], ...],
        *,
        network: str,
    ) -> ContainerSpec:
        """Return the container of a session, installing the init where it is missing.

        Raises `InstallError`, `ImageUnusableError` and engine faults. Cancelling leaves at most
        an unverified init volume.
        """
        key, image = recipe.key, recipe.image
        return harden(
            LaunchPlan(
                name=name,
                engine=self.info,
                image=image,
                limits=key.limits,
                uid=session.uid,
                workspace=session.volume,
                mount_at=session.mount_at,
                read_only=session.read_only or key.read_only,
                init=await self.init.volume(image.id),
                labels=self._tags(labels.ROLE_RUN, tags),
                network=network,
                runtime=key.runtime,
            )
        )

    async def pause(self, name: str, recipe: Recipe, uid: int) -> ContainerSpec:
        """Return a container that holds a network namespace and runs nothing. Raises as `spec`."""
        image = recipe.image
        return harden(
            LaunchPlan(
                name=name,
                engine=self.info,
                image=image,
                limits=_PAUSE_LIMITS,
                uid=uid,
                workspace=None,
                read_only=True,
                init=await self.init.volume(image.id),
                labels=self._tags(labels.ROLE_PAUSE, ()),
                network=NO_NETWORK,
                runtime=recipe.key.runtime,
            )
        )

    async def start(self, sandbox: Sandbox, spec: ContainerSpec) -> None:
        """Start a container and compare its posture with the promise.

        Raises `PostureError` and engine faults. Cancelling may leave it started.
        """
        require(promised_posture(spec, self.info), await sandbox.start())

    def _tags(self, role: str, more: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
        return (
            (labels.INSTALLATION, self.installation),
            (labels.ROLE, role),
            (labels.OWNER, self.owner),
            *more,
        )
