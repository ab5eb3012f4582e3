"""From settings to the ledger's bounds, and from a run's limits to what it claims. Pure."""

from __future__ import annotations

from typing import Final

from sandboxrun.model.limits import Limits
from sandboxrun.model.quotas import Quota, Quotas
from sandboxrun.quota.claim import Amounts, Bounds, Resource, Scope

WRITERS_AT_A_TIME: Final = 2
"""The run that writes a workspace, and the next, which is ready when it ends. Further ones wait
in the ledger: in the workspace's line they would hold what other workspaces could use."""
RUNS_PER_CPU: Final = 8
LEAST_RUNS: Final = 8
SHARE_OF_MEMORY: Final = 0.9
"""The rest is for the engine, and for sandboxrun itself."""
_MILLI: Final = 1000


def with_machine(quotas: Quotas, *, cpus: int, memory_bytes: int, needed: int) -> Quotas:
    """Fill in what the host's quota leaves out, for a machine of so many CPUs and bytes.

    ``needed`` is the memory of a run that asks for nothing: however small the machine, one fits.
    """
    host = quotas.host
    filled = {
        "runs": max(LEAST_RUNS, RUNS_PER_CPU * cpus) if host.runs is None else host.runs,
        "memory_bytes": (
            max(int(memory_bytes * SHARE_OF_MEMORY), needed)
            if host.memory_bytes is None
            else host.memory_bytes
        ),
    }
    return quotas.model_copy(update={"host": host.model_copy(update=filled)})


def bounds_of(quotas: Quotas) -> Bounds:
    """Return the bounds the ledger goes by."""
    workspace = {**_amounts(quotas.workspace), Resource.WRITERS: WRITERS_AT_A_TIME}
    return {
        Scope.HOST: _amounts(quotas.host),
        Scope.PRINCIPAL: _amounts(quotas.principal),
        Scope.CONVERSATION: _amounts(quotas.conversation),
        Scope.WORKSPACE: workspace,
    }


def _amounts(quota: Quota) -> dict[Resource, int]:
    given = {
        Resource.RUNS: quota.runs,
        Resource.CPUS: None if quota.cpus is None else round(quota.cpus * _MILLI),
        Resource.MEMORY: quota.memory_bytes,
        Resource.PROCESSES: quota.processes,
        Resource.DISK: quota.disk_bytes,
        Resource.SECONDS: None if quota.seconds is None else round(quota.seconds * _MILLI),
    }
    return {resource: bound for resource, bound in given.items() if bound is not None}


def amounts_of(limits: Limits, *, timeout_seconds: float, writes: bool) -> Amounts:
    """Return what a run with these limits holds; ``writes``: it stands in a workspace's line."""
    return {
        Resource.RUNS: 1,
        Resource.CPUS: round(limits.cpus * _MILLI),
        Resource.MEMORY: limits.memory_bytes,
        Resource.PROCESSES: limits.pids,
        Resource.DISK: limits.disk_bytes,
        Resource.SECONDS: round(timeout_seconds * _MILLI),
        Resource.WRITERS: int(writes),
    }
