"""What a runner is made of: the engine, the judge, the workspaces, what keeps bounds."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio
import anyio.abc
import anyio.to_thread

from sandboxrun.approval.approvals import Approvals
from sandboxrun.approval.consents import Consents, forget_workspace, insert_consent
from sandboxrun.approval.grants import Grants
from sandboxrun.approval.workspace_policies import (
    WorkspacePolicies,
    inherit_restrictions,
    policy_of,
)
from sandboxrun.audit.log import AuditLog
from sandboxrun.config import Settings, host_environment
from sandboxrun.deciding import Judge
from sandboxrun.engine.connect import EngineSearch
from sandboxrun.engine.connect import open_engine as connect_engine
from sandboxrun.engine.docker import DockerEngine
from sandboxrun.engine.ending import end_containers
from sandboxrun.engine.init_cache import InitInstallation
from sandboxrun.engine.machine import require_runtime
from sandboxrun.engine.protocol import Engine
from sandboxrun.job import Tools
from sandboxrun.model.limits import MIB
from sandboxrun.output.artifacts import ArtifactPolicy, Artifacts
from sandboxrun.output.host_secrets import host_secrets
from sandboxrun.output.redact import Redaction
from sandboxrun.output.spools import SpoolPolicy
from sandboxrun.output.upkeep import Upkeep
from sandboxrun.policy.authority import PolicyDigests
from sandboxrun.policy.document import MAX_MIB, Document
from sandboxrun.policy.host import HostPolicy
from sandboxrun.policy.requested import limits_of
from sandboxrun.quota.bounds import with_machine
from sandboxrun.quota.ledger import Ledger
from sandboxrun.screening import screen
from sandboxrun.state.artifacts import ArtifactRows
from sandboxrun.state.runs import Runs
from sandboxrun.state.store import Store
from sandboxrun.warm.behind import open_behind
from sandboxrun.warm.key import SlotPolicy
from sandboxrun.warm.maker import Maker
from sandboxrun.warm.slots import open_slots
from sandboxrun.workspace.workspaces import open_workspaces


def redaction_of(state: Path) -> Redaction:
    """Return what is removed from the output of every run; compiled once a machine."""
    return Redaction.of(host_secrets(host_environment()), cache=state)


@dataclass(frozen=True, slots=True)
class _Custody:
    """Whoever creates a workspace here accepts the policies in force; nothing outlives it."""

    judge: Judge
    principal: str

    def created(
        self, tx: sqlite3.Connection, workspace_id: str, *, forked_from: str | None = None
    ) -> None:
        if forked_from is not None:
            inherit_restrictions(tx, parent=forked_from, child=workspace_id)
        insert_consent(
            tx,
            principal=self.principal,
            workspace=workspace_id,
            digests=PolicyDigests.of(self.judge.host.current(), policy_of(tx, workspace_id)),
            given_by=self.principal,
        )

    def removed(self, tx: sqlite3.Connection, workspace_id: str) -> None:
        forget_workspace(tx, workspace_id)


@asynccontextmanager
async def open_tools(
    settings: Settings,
    store: Store,
    audit: AuditLog,
    engine: Engine,
    *,
    host_policy: Document | None = None,
) -> AsyncIterator[Tools]:
    """Give what all runs of a runner share; leaving removes its slots and waits for removals.

    ``host_policy`` stands in for the one ``settings`` names. Raises `ConfigurationError`,
    `PolicyError`, `WorkspaceLostError` and engine faults. Cancelling may leave an empty
    store volume.
    """
    info = await engine.describe()
    require_runtime(settings.runtime, info)
    installation = store.directory.installation_id
    if host_policy is None:
        host = await anyio.to_thread.run_sync(HostPolicy, settings.policy, screen)
    else:
        host = HostPolicy.fixed(host_policy)
    judge = Judge(
        host=host,
        audit=audit,
        approvals=Approvals(store),
        consents=Consents(store),
        grants=Grants(store),
        workspace_policies=WorkspacePolicies(store),
        defaults=_defaults(settings),
    )
    workspaces = await open_workspaces(
        engine, info.engine_id, store, custody=_Custody(judge, settings.principal)
    )
    maker = Maker(
        engine=engine,
        info=info,
        init=InitInstallation(engine, info, store.directory.engine, installation),
        installation=installation,
        owner=str(store.owner),
    )
    policy = SlotPolicy(limit=settings.slots, idle_seconds=settings.slot_idle_seconds)
    async with (
        open_slots(maker, workspaces, store, policy) as slots,
        open_behind(audit) as behind,
    ):
        yield Tools(
            engine=engine,
            maker=maker,
            slots=slots,
            behind=behind,
            audit=audit,
            workspaces=workspaces,
            judge=judge,
            artifacts=artifacts_of(store, settings),
            ledger=Ledger(
                store,
                with_machine(
                    settings.quotas,
                    cpus=info.cpus,
                    memory_bytes=info.memory_bytes,
                    needed=_memory_unasked(judge, settings),
                ),
                partial(end_containers, engine, installation),
            ),
            env_allow=settings.env_allow,
            runtime=info.default_runtime if settings.runtime is None else settings.runtime,
        )


def _defaults(settings: Settings) -> dict[str, float]:
    """Return the limits the operator set; those left alone are the policy's to say."""
    given = settings.model_fields_set
    found = limits_of(
        settings.timeout_seconds if "timeout_seconds" in given else None,
        settings.limits if "limits" in given else None,
    )
    if "output_limit_bytes" in given:
        found["output_mib"] = min(settings.output_limit_bytes / MIB, MAX_MIB)
    return found


def _memory_unasked(judge: Judge, settings: Settings) -> int:
    """Return the memory limit of a run that asks for none, in bytes."""
    given = judge.host.latest.limits.memory_mib
    wanted = judge.defaults.get("memory_mib", 0 if given is None else given.default)
    return max(settings.limits.memory_bytes, int(wanted * MIB))


def artifacts_of(store: Store, settings: Settings) -> Artifacts:
    """Return the artifacts of an open store, with the policy of ``settings``."""
    policy = ArtifactPolicy(settings.artifact_lifetime_seconds, settings.artifact_budget_bytes)
    return Artifacts(store.directory.artifacts, ArtifactRows(store), policy)


def upkeep_of(store: Store, settings: Settings) -> Upkeep:
    """Return what keeps the output of runs within the bounds of ``settings``."""

    async def unsettled() -> frozenset[str]:
        return frozenset(row.run_id for row in await Runs(store).unsettled())

    return Upkeep(
        artifacts=artifacts_of(store, settings),
        spools=store.directory.spool,
        policy=SpoolPolicy(budget_bytes=settings.spool_budget_bytes),
        unsettled=unsettled,
    )


@asynccontextmanager
async def open_engine(settings: Settings) -> AsyncIterator[DockerEngine]:
    """Connect to the engine the settings name or find, starting the managed one if it is that.

    Raises `ConfigurationError` and engine faults. Leaving closes the connections only.
    """
    engine = await connect_engine(
        EngineSearch(
            state_dir=settings.state_dir,
            engine=settings.engine,
            docker_host=settings.docker_host,
            docker_config=settings.docker_config,
            docker_context=settings.docker_context,
            xdg_runtime_dir=settings.xdg_runtime_dir,
        )
    )
    try:
        yield engine
    finally:
        await engine.aclose()
