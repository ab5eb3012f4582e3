"""A request that can change while it is asked about, judged against a real store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.policy_samples import IMAGE, document, shell
from tests.state_samples import new_run

from sandboxrun.approval.approvals import Approvals
from sandboxrun.approval.authorise import Evaluated
from sandboxrun.approval.binding import Bound
from sandboxrun.approval.consents import Consents
from sandboxrun.approval.grants import Grants
from sandboxrun.approval.question import question_of
from sandboxrun.policy.authority import PolicyDigests
from sandboxrun.policy.decide import Case, decide
from sandboxrun.policy.document import Document
from sandboxrun.policy.requested import Requested
from sandboxrun.screening import screen
from sandboxrun.state.directory import StateDirectory
from sandboxrun.state.runs import Runs
from sandboxrun.state.store import Store, open_store

ASKS = "git push origin main"
"""A command that the test document asks about."""


@dataclass
class World:
    """Everything a request depends on; tests change it at will."""

    store: Store
    run_id: str
    command: str = ASKS
    cwd: str = "/workspace"
    principal: str = "ann"
    workspace: str = "demo"
    conversation: str | None = None
    image_id: str = "sha256:1"
    host: Document = field(default_factory=document)
    workspace_policy: Document | None = None
    requested: dict[str, Any] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    stdin: str | None = None
    snapshot: str = "snap-1"

    @property
    def approvals(self) -> Approvals:
        return Approvals(self.store)

    async def evaluate(self) -> Evaluated:
        facts = screen(self.command)
        command = shell(self.command, cwd=self.cwd)
        given = {"form": "shell", "image": IMAGE, "env_names": tuple(self.env)} | self.requested
        requested = Requested(**given)
        authority = await Consents(self.store).authority(
            principal=self.principal, workspace=self.workspace
        )
        grants = await Grants(self.store).holding(
            principal=self.principal, workspace=self.workspace
        )
        case = Case(command=command, facts=facts, requested=requested)
        decision = decide(case, self.host, self.workspace_policy, authority, grants)
        bound = Bound(
            run_id=self.run_id,
            command=command,
            principal=self.principal,
            conversation=self.conversation,
            workspace=self.workspace,
            image_id=self.image_id,
            obligations=decision.obligations,
            digests=decision.digests,
            env=self.env,
            stdin=self.stdin,
        )
        question = question_of(
            decision, bound, facts, requested, touches=(), snapshot=self.snapshot
        )
        return Evaluated(decision, bound, question)

    async def consent(self) -> None:
        await Consents(self.store).give(
            principal=self.principal,
            workspace=self.workspace,
            digests=PolicyDigests.of(self.host, self.workspace_policy),
            given_by=self.principal,
        )

    async def another_run(self) -> World:
        run = new_run(workspace=self.workspace)
        await Runs(self.store).insert(run, durable=False)
        return World(self.store, run.run_id)


@asynccontextmanager
async def opened_world(path: Path) -> AsyncIterator[World]:
    """Yield a world whose principal has consented and whose run exists."""
    with StateDirectory.open(path) as directory:
        async with open_store(directory) as store:
            run = new_run(workspace="demo")
            await Runs(store).insert(run, durable=False)
            world = World(store, run.run_id)
            await world.consent()
            yield world
